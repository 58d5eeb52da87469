"""A lost checkpoint: the stream continues from its published rows, and nothing is counted again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from e2e.replaying import assert_facts_and_causes_agree
from e2e.rig import READY_SECONDS, Rig, running_rig
from faults.churn import churning, groups_of, is_calm
from faults.observing import CONFIG, assert_counted, decoded_rows, watching_counters
from rebalance_contract import GroupSnapshot
from rebalance_deploy.embedded.kafka import SHORT_SESSION
from rebalance_streaming.spark.checkpoint import LAYOUT
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A broker and a monitor whose checkpoint is lost."""
    with running_rig(tmp_path_factory.mktemp("rebuild"), **SHORT_SESSION) as running:
        yield running


def checkpoint_of(rig: Rig) -> Path:
    """Return the directory of the checkpoint."""
    (found,) = rig.directory.rglob(f"{LAYOUT}/monitor.json")
    return found.parent


def state_of(rig: Rig, group: str) -> str | None:
    """Return the state in a group's row."""
    return next(
        (each.state for each in decoded_rows(rig, CONFIG.groups_topic, GroupSnapshot) if each.group == group), None
    )


@pytest.mark.faults(18, fast=0, full=3)
def test_a_lost_checkpoint_is_rebuilt(rig: Rig, rounds: int):
    """Groups rebalance and one is deleted while the stream is down; a later start continues with the new checkpoint."""
    admin = AdminClient({"bootstrap.servers": rig.broker.bootstrap, "log_level": 0})
    for number in range(rounds):
        deleted, group = f"deleted-{number}", "lasting"
        with churning(rig, deleted), churning(rig, group) as churn:
            churn.await_cycles(3)
        assert_counted(rig, *groups_of(deleted), *groups_of(group))
        with watching_counters(rig):
            assert rig.monitor.stream.process.terminate(45) == 0
            shutil.rmtree(checkpoint_of(rig))
            for future in admin.delete_consumer_groups(list(groups_of(deleted))).values():
                future.result(30)
            with churning(rig, group) as churn:
                churn.await_cycles(3)
            rig.monitor.stream.start("--rebuild")
            wait_for(lambda: state_of(rig, deleted) == "Deleted", f"{deleted} to end", READY_SECONDS, every=0.5)  # noqa: B023
            with churning(rig, group) as churn:
                churn.await_cycles(2)
            assert_counted(rig, *groups_of(group))
            assert rig.monitor.stream.process.terminate(45) == 0
            rig.monitor.stream.start()
            with churning(rig, group) as churn:
                churn.await_cycles(2)
            assert_counted(rig, *groups_of(group))
    assert_facts_and_causes_agree(rig, is_calm)

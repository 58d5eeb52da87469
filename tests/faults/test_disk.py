"""A full disk with the checkpoint."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.replaying import assert_facts_and_causes_agree
from e2e.rig import DEADLINE_SECONDS, Rig, running_rig
from faults.churn import churning, groups_of, is_calm
from faults.observing import assert_counted, await_back
from faults.reporting import Figures
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

_SIZE_MB = 64


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A broker and a monitor whose checkpoint is on a small file system of its own."""
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE_MB}m", "rebalance-monitor-test", str(checkpoint)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        with running_rig(tmp_path) as running:
            yield running
    finally:
        subprocess.run(["umount", "--lazy", str(checkpoint)], check=True)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    written = 65_536
    with path.open("ab", buffering=0) as file:
        # The part of a block that fits is written, then nothing.
        while written:
            try:
                written = file.write(bytes(65_536))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                written = 0


@pytest.mark.faults(16, fast=0, full=3)
def test_a_full_disk_is_told_and_costs_nothing(rig: Rig, rounds: int, figures: Figures):
    """The stream's error names the path without space; with space again every record and rebalance counts once."""
    group, checkpoint, log = "full", rig.directory / "checkpoint", rig.monitor.stream.process.log_path
    assert log is not None
    for number in range(rounds):
        with churning(rig, group) as churn:
            said = log.stat().st_size
            fill(filler := checkpoint / "filler")

            def sentences() -> list[str]:
                lines = log.read_bytes()[said:].decode(errors="replace").splitlines()  # noqa: B023
                return [line for line in lines if f"no room on the disk of {checkpoint}" in line]

            wait_for(sentences, lambda: log.read_bytes()[said:].decode()[-4_000:], DEADLINE_SECONDS, every=0.5)  # noqa: B023
            churn.await_cycles(number + 1)
            filler.unlink()
            await_back(rig, churn, figures)
        assert_counted(rig, *groups_of(group))
    assert_facts_and_causes_agree(rig, is_calm)
    rig.monitor.check()

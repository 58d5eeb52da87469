"""Another version of the stream on the same checkpoint and topics: an upgrade, and a roll-back."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.replaying import assert_facts_and_causes_agree
from e2e.rig import READY_SECONDS, Rig, running_rig
from faults.churn import churning, groups_of, is_calm
from faults.observing import CONFIG, assert_counted, await_first_row, total, watching_counters
from faults.reporting import Figures
from rebalance_deploy.embedded.kafka import SHORT_SESSION
from rebalance_deploy.ports import find_free_port
from rebalance_streaming.spark.checkpoint import LAYOUT
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

_REPOSITORY = Path(__file__).parents[2]
_SOURCES = ("deploy", "exporters", "streaming")
#: A commit of 2026-11-26, of the same layout. A change of LAYOUT needs a later one here. In earlier ones counters
#: decrease by themselves if a start takes long.
_EARLIER = "87eb5a43b86b2caa0e8c446c1441c339c21ed1eb"
_TOLD, _CAUGHT_UP = "continue from their published rows", "caught up with the log"


def unpacked(commit: str, directory: Path) -> str:
    """Unpack the code of a commit; return the PYTHONPATH for processes that run it."""
    packed = subprocess.run(
        ["git", "archive", commit, *_SOURCES], cwd=_REPOSITORY, capture_output=True, timeout=60, check=False
    )
    assert packed.returncode == 0, (
        f"this test runs the code of commit {commit}, which the history of this repository must have (a shallow clone "
        f"has it after `git fetch --unshallow`): {packed.stderr.decode()}"
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return os.pathsep.join(str(directory / each) for each in _SOURCES)


@contextmanager
def running_code(path: str | None) -> Iterator[None]:
    """Make processes started within the block run the code of a PYTHONPATH; null: that of this test."""
    with pytest.MonkeyPatch.context() as environment:
        if path is not None:
            environment.setenv("PYTHONPATH", path)
            environment.setenv("PYTHONDONTWRITEBYTECODE", "1")
            script = "from rebalance_streaming.spark import checkpoint as it; print(it.__file__, it.LAYOUT)"
            answer = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
            )
            file, layout = answer.stdout.split()
            assert file.startswith(path.split(os.pathsep)[-1]), file
            assert layout == LAYOUT
        yield


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH of the earlier version."""
    return unpacked(_EARLIER, tmp_path_factory.mktemp("earlier"))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A broker and a monitor, whose exporter has the same port at each of its starts."""
    with running_rig(tmp_path, f"export.listen_port={find_free_port()}", **SHORT_SESSION) as running:
        yield running


@pytest.fixture
def earlier_rig(tmp_path: Path, earlier: str) -> Iterator[Rig]:
    """The same, with all processes of the earlier version at first."""
    with ExitStack() as stack:
        with running_code(earlier):
            port = f"export.listen_port={find_free_port()}"
            running = stack.enter_context(running_rig(tmp_path, port, **SHORT_SESSION))
        yield running


def churn_on(rig: Rig, group: str, cycles: int) -> None:
    """Let members of a group and its companion join and leave this many times."""
    with churning(rig, group) as churn:
        churn.await_cycles(cycles)


@pytest.mark.faults(33, fast=0, full=2)
def test_totals_are_equal_after_an_upgrade_and_back(earlier_rig: Rig, rounds: int, earlier: str):
    """With one layout, readers first: members join and leave while the version changes, forth and back and forth."""
    rig, group = earlier_rig, "upgraded"
    churn_on(rig, group, 2)
    assert_counted(rig, *groups_of(group))
    with watching_counters(rig):
        for reader in (rig.monitor.export, rig.monitor.probe):
            assert reader.process.terminate(45) == 0
            reader.start()
        for number in range(2 * rounds + 1):
            with churning(rig, group) as churn:
                assert rig.monitor.stream.process.terminate(45) == 0
                churn.await_cycles(2)
                with running_code(earlier if number % 2 else None):
                    rig.monitor.stream.start()
                churn.await_cycles(4)
            assert_counted(rig, *groups_of(group))
    assert_facts_and_causes_agree(rig, is_calm)
    assert total(rig, "contract_errors_total") == 0
    rig.monitor.check()


def await_checkpoint(rig: Rig) -> None:
    """Return when the stream has created a checkpoint, before it starts its queries."""
    wait_for((checkpoint_of(rig) / "monitor.json").exists, "a checkpoint", READY_SECONDS, every=0.01)


def await_rows(rig: Rig) -> None:
    """Return when the stream writes rows of groups, which its first batch does before it ends."""
    await_first_row(rig, CONFIG.groups_topic)


def kill_before_its_first_batch_ends(rig: Rig) -> None:
    """Kill the stream, and check that it has ended no batch of group records."""
    rig.monitor.stream.process.kill()
    assert not list((checkpoint_of(rig) / "membership" / "commits").glob("[0-9]*")), "the kill came too late"


def checkpoint_of(rig: Rig) -> Path:
    """Return the directory of the checkpoint of the current layout."""
    return rig.directory / "checkpoint" / LAYOUT


def times_said(rig: Rig, line: str) -> int:
    """Return how often the stream has logged a text since the start of the monitor."""
    return (rig.directory / "stream.log").read_text().count(line)


#: When the first start of a new layout is killed, in turn; null: never.
_MOMENTS: tuple[Callable[[Rig], None] | None, ...] = (None, await_checkpoint, await_rows)


@pytest.mark.faults(33, fast=0, full=3)
def test_totals_are_equal_after_a_change_of_the_layout(rig: Rig, rounds: int, figures: Figures):
    """The checkpoint has an older layout: a start restores the totals, and a later one continues from there.

    Also without changes meanwhile, and if the first start was killed.
    """
    group, older = "relaid", checkpoint_of(rig).with_name(f"v{int(LAYOUT[1:]) - 1}")
    for number in range(rounds):
        moment = _MOMENTS[number % len(_MOMENTS)]
        times = times_said(rig, _TOLD) + (1 if moment is None else 2)
        churn_on(rig, group, 3)
        assert_counted(rig, *groups_of(group))
        with watching_counters(rig):
            assert rig.monitor.stream.process.terminate(45) == 0
            shutil.rmtree(older, ignore_errors=True)
            checkpoint_of(rig).rename(older)
            if moment is not None:
                churn_on(rig, group, 3)
                rig.monitor.stream.start()
                moment(rig)
                kill_before_its_first_batch_ends(rig)
            caught_up = times_said(rig, _CAUGHT_UP)
            rig.monitor.stream.start()
            wait_for(lambda: times_said(rig, _CAUGHT_UP) > caught_up, "the log to be read up", READY_SECONDS)  # noqa: B023
            assert times_said(rig, _TOLD) == times
            assert rig.monitor.stream.process.terminate(45) == 0
            rig.monitor.stream.start()
            churn_on(rig, group, 2)
            assert_counted(rig, *groups_of(group))
            assert times_said(rig, _TOLD) == times, "taken up again by a later start"
    figures.note("starts that took totals up", times_said(rig, _TOLD), "")
    assert_facts_and_causes_agree(rig, is_calm)
    rig.monitor.check()

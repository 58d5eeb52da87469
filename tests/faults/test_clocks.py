"""A host whose clock is an hour off: it is reported, counts stay exact, and a steady group has no findings.

The hosts are processes of this machine; a preloaded library shifts their time of day (clock_ahead.c). libfaketime
cannot be used: `time.sleep` of Python 3.11 fails with it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.rig import READY_SECONDS, Rig, running_rig
from faults.churn import churning, groups_of
from faults.observing import CONFIG, assert_counted, await_judgement, causes_of, decoded_rows, rebalances_of
from rebalance_contract import Finding
from rebalance_deploy.counts import fetch
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.embedded.kafka import SHORT_SESSION
from rebalance_deploy.local import Supervised
from rebalance_deploy.ports import find_free_port
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

_SOURCE, _COMPILER = Path(__file__).with_name("clock_ahead.c"), shutil.which("cc")
_HOUR_SECONDS = 3_600


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A broker and a monitor; the exporter has the same port at each of its starts."""
    port = f"export.listen_port={find_free_port()}"
    with running_rig(tmp_path_factory.mktemp("clocks"), port, **SHORT_SESSION) as running:
        yield running


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library that shifts the time of day."""
    if _COMPILER is None:
        pytest.skip("a C compiler is not here: apt-get install gcc libc6-dev")
    library = tmp_path_factory.mktemp("library") / "clock_ahead.so"
    subprocess.run([_COMPILER, "-shared", "-fPIC", "-O2", "-o", library, _SOURCE], check=True)
    return library


def start_with_clock(process: Supervised, library: Path, seconds: int) -> None:
    """Start a process whose time of day is this many seconds ahead."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LD_PRELOAD", str(library))
        environment.setenv("CLOCK_AHEAD_SECONDS", str(seconds))
        process.start()


def readiness(rig: Rig) -> tuple[int, str]:
    """Return the exporter's readiness."""
    return fetch(f"{rig.monitor.url}/-/ready")


@pytest.mark.faults(19, fast=0, full=6)
def test_a_clock_that_is_an_hour_off_is_told_and_makes_nothing_up(rig: Rig, library: Path, rounds: int):
    """Each of the three processes behind and ahead in turn, while one group rebalances and another does not."""
    group, monitor = "clocks", rig.monitor
    steady = [
        replace(ConsumerSpec("confluent-kafka", "steady", "payments", f"steady-{name}"), session_timeout_ms=45_000)
        for name in "ab"
    ]
    for each in steady:
        rig.start(each)
    assert_counted(rig, "steady")
    # Its own rebalances have their causes by then.
    wait_for(lambda: causes_of(rig, "steady") == rebalances_of(rig, "steady"), "causes of its beginning", 240, every=1)
    first_ms = int(time.time() * 1000)
    for number in range(rounds):
        process, ahead = (
            (monitor.probe, monitor.stream, monitor.export)[number // 2],
            _HOUR_SECONDS * (-1) ** (number + 1),
        )
        with churning(rig, group) as churn:
            assert process.process.terminate(45) == 0
            start_with_clock(process, library, ahead)
            if process is not monitor.probe or ahead < 0:
                # Probes from the future count as of the time of reading: nothing is wrong then, and nothing is
                # reported.
                await_told(rig, f"{process.name} {ahead:+d} s")
            churn.await_cycles(3)
            assert process.process.terminate(45) == 0
            process.start()
            wait_for(lambda: readiness(rig)[0] == 200, lambda: readiness(rig), READY_SECONDS)
            churn.await_cycles()
        assert_counted(rig, "steady", *groups_of(group))
        await_judgement(rig)
        assert made_up(rig, first_ms, groups_of(group)) == set(), (process.name, ahead)
    monitor.check()
    for each in steady:
        rig.leave(each)


def await_told(rig: Rig, what: str) -> None:
    """Wait until readiness reports differing clocks."""
    wait_for(lambda: "clocks differ" in readiness(rig)[1], lambda: (what, readiness(rig)), READY_SECONDS)


def made_up(rig: Rig, first_ms: int, but: Collection[str]) -> set[tuple[str, str]]:
    """Return (group, diagnosis) of findings since a time about groups other than these."""
    found = decoded_rows(rig, CONFIG.findings_topic, Finding)
    return {(each.group, each.rule) for each in found if each.detected_at_ms >= first_ms and each.group not in but}

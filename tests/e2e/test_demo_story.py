"""`rebalance-monitor demo --story`, as started by a user."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from e2e.demos import demo
from rebalance_devtools.demo.acts import ACTS
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

#: It needs no client except the broker's own, and is the shortest.
_QUICK = "b"

_DIRECTORY = re.compile(r"logs and data in (\S+),")


def directory_of(log: Path) -> str:
    """Return the printed data directory of a story, or an empty text before it was printed."""
    match = _DIRECTORY.search(log.read_text()) if log.exists() else None
    return "" if match is None else match[1]


def left_of(directory: str) -> list[str]:
    """Return the command lines of running processes that name a directory, or run in it, as clients do."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = (process / "cwd").readlink()
        except OSError:
            continue
        if directory in command or str(place).startswith(directory):
            found.append(command)
    return found


def assert_nothing_left(log: Path) -> None:
    """Check that neither the directory nor any process of a story remains."""
    directory = directory_of(log)
    assert directory
    assert not Path(directory).exists()
    assert left_of(directory) == []


@pytest.mark.slow
@pytest.mark.parametrize("letter", ACTS)
def test_a_story_ends_well_by_itself(letter: str, tmp_path: Path):
    """The cause is found and printed, the group is quiet after the fix, and nothing is left behind."""
    log = tmp_path / "demo.log"
    with demo(log, "--story", letter) as running:
        assert running.wait(840) == 0, log.read_text()
    text, diagnosis = log.read_text(), ACTS[letter].expected.diagnosis
    incident, fixed = text.index("1. The incident"), text.index("2. The fix")
    assert re.search(rf"FIRING (ticket|page): {diagnosis}", text[incident:fixed])
    assert diagnosis not in text[fixed : text.index("3. What came of it")]
    assert text.count("ok     ") == 2
    assert "WRONG" not in text
    assert "Traceback" not in text
    assert_nothing_left(log)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["the monitor starts", "c1 starts"])
def test_an_interrupted_story_leaves_nothing_behind(words: str, tmp_path: Path):
    """Ctrl-C while the monitor starts, and in the middle of the play."""
    log = tmp_path / "demo.log"
    with demo(log, "--story", _QUICK) as running:
        wait_for(lambda: log.exists() and words in log.read_text(), log.read_text, 180)
        assert left_of(directory_of(log))
        os.kill(running.pid, signal.SIGINT)
        assert running.wait(90) == 130
    assert "Traceback" not in log.read_text()
    assert_nothing_left(log)

"""A checkpoint with damaged files: the stream reports it and what to do, and no count is lost."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.reporting import Figures
from faults.written_log import WrittenLog, running_log
from rebalance_streaming.spark.checkpoint import LAYOUT
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

_GROUPS = tuple(f"group-{number:02d}" for number in range(20))
_ADVICE = "--rebuild --set-aside"
_BASELINE = "monitor.json"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenLog]:
    """A log with groups, and a monitor whose checkpoint is damaged."""
    with running_log(tmp_path_factory.mktemp("damaged")) as running:
        yield running


# --- Kinds of damage ---

Damage = Callable[[bytes, random.Random], bytes | None]


def flipped(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one bit changed."""
    at = chance.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]


def cut(content: bytes, chance: random.Random) -> bytes:
    """Return a prefix of the content."""
    return content[: chance.randrange(1, len(content))]


def zeroed(content: bytes, _: random.Random) -> bytes:
    """Return zeros, as some file systems leave after a power failure."""
    return bytes(len(content))


def emptied(_content: bytes, _: random.Random) -> bytes:
    """Return nothing: power failed before the content was written."""
    return b""


def gone(_content: bytes, _: random.Random) -> None:
    """Return null: the file is removed."""


_CHANGED = (flipped, cut, zeroed)
#: Below the checkpoint: files that are read at a start, the newest match of each, and the damage. A missing newest file
#: of commits is the same as an unfinished batch; for other empty files Spark's error is useless.
_FILES: tuple[tuple[str, tuple[Damage, ...]], ...] = (
    ("membership/offsets/[0-9]*", (*_CHANGED, emptied, gone)),
    ("membership/commits/[0-9]*", (*_CHANGED, emptied)),
    ("membership/metadata", (gone,)),
    ("membership/state/0/0/[0-9]*.changelog", (*_CHANGED, gone)),
    ("membership/state/0/_stateSchema/default/[0-9]*", (*_CHANGED, gone)),
    ("membership/state/0/_metadata/v2/[0-9]*", (*_CHANGED, gone)),
    (_BASELINE, (*_CHANGED, gone)),
)


def damage(checkpoint: Path, pattern: str, how: Damage, chance: random.Random) -> str:
    """Damage the newest file of a kind; return its name and the damage."""
    file = max(checkpoint.glob(pattern), key=lambda each: int("".join(re.findall(r"^\d+", each.name)) or 0))
    content = how(file.read_bytes(), chance)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    return f"{file.relative_to(checkpoint)} {how.__name__}"


@pytest.mark.faults(17, fast=0, full=7)
def test_a_damaged_checkpoint_is_told_and_rebuilt(log: WrittenLog, rounds: int, figures: Figures):
    """Each round another file; groups continue while the stream is down, and no generation is lost or counted twice."""
    chance = random.Random(17)
    stream = log.rig.monitor.stream
    for number in range(rounds):
        pattern, ways = _FILES[number % len(_FILES)]
        log.write(log.generation(group) for group in _GROUPS)
        log.await_generations(*_GROUPS)
        assert stream.process.terminate(45) == 0
        (baseline,) = log.rig.directory.rglob(f"{LAYOUT}/{_BASELINE}")
        done = damage(baseline.parent, pattern, chance.choice(ways), chance)
        log.write(log.generation(group) for group in _GROUPS)

        said = stream.process.log_path
        assert said is not None
        before = len(said.read_text())
        stream.start()
        wait_for(lambda: _ADVICE in said.read_text()[before:], lambda: (done, said.read_text()[before:]))  # noqa: B023
        cannot_begin = pattern == _BASELINE
        if cannot_begin:
            stream.process.wait(60)
        assert stream.process.terminate(45) == int(cannot_begin), done
        stream.start("--rebuild", "--set-aside")
        log.await_generations(*_GROUPS)
        assert stream.process.terminate(45) == 0
        stream.start()
    log.write(log.generation(group) for group in _GROUPS)
    log.await_generations(*_GROUPS)
    figures.note("damaged files", rounds, "")

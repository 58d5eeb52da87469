"""A file system that fails at a start ends it with a sentence, and is never taken for one without a checkpoint."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark import startup
from rebalance_streaming.spark.checkpoint import (
    LAYOUT,
    has_checkpoint,
    older_layout,
    read_rebuild_values,
)
from rebalance_streaming.spark.membership import PublishedRows
from rebalance_streaming.spark.rebuild_values import encode_values
from spark.another_stream import OtherStream
from spark.memory_files import MemoryFiles, use_memory

_SPARK: Any = None
_MONITOR = f"/c/{LAYOUT}/monitor.json"
_VALUES = f"/c/{LAYOUT}/rebuilds.json"
_UNUSABLE = r"^cannot use checkpoint /c \(java\.io\.IOException: no route to host\); choose another"


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> MemoryFiles:
    """A checkpoint of this layout."""
    files = use_memory(monkeypatch)
    files.content[_MONITOR] = b'{"cluster_id": "c1", "source_topic": "log", "first_live": {}}'
    monkeypatch.setattr(startup, "read_published", lambda *_: PublishedRows())
    monkeypatch.setattr(startup, "has_rows", lambda _: True)
    return files


def take_up(word: str = "", *, rebuild: bool = False) -> PublishedRows | None:
    """Return what the queries of a start begin with."""
    found: Any = SimpleNamespace(cluster=None, cluster_id="c1", statuses=[], ownership=OtherStream(None))
    listeners = startup.Listeners(lambda _: None, lambda _: None, lambda _: None)
    asked = startup.AskedRebuild(rebuild, False, threading.Event())
    return startup._take_up(_SPARK, StreamConfig(checkpoint="/c", rebuild=word), found, listeners, asked)


def test_an_error_says_nothing_of_what_is_there(files: MemoryFiles) -> None:
    """Neither of this layout nor of older ones."""
    assert has_checkpoint(_SPARK, "/c")
    assert older_layout(_SPARK, "/c") is None
    files.failure = "no route to host"
    for look in (has_checkpoint, older_layout):
        with pytest.raises(StreamError, match=_UNUSABLE):
            look(_SPARK, "/c")


def test_a_word_is_not_done_after_an_error(files: MemoryFiles) -> None:
    """The next start rebuilds; it would not if the word were recorded in the checkpoint that is there."""
    files.failure, files.only = "no route to host", 1
    with pytest.raises(StreamError, match=_UNUSABLE):
        take_up("monday")
    assert read_rebuild_values(_SPARK, "/c", "monday").is_new
    take_up("monday")
    assert _MONITOR not in files.content


def test_an_existing_checkpoint_is_not_moved_after_an_error(files: MemoryFiles) -> None:
    """`--rebuild` without `--set-aside` is refused, whatever fails."""
    files.content[_VALUES] = encode_values(("sunday",))
    before = dict(files.content)
    for number in range(1, 4):
        files.calls, files.failure, files.only = 0, "no route to host", number
        with pytest.raises(StreamError):
            take_up(rebuild=True)
    assert files.content == before


def failed_start(files: MemoryFiles, before: dict[str, bytes], number: int, word: str) -> str | None:
    """Start on a checkpoint with these files while the call with this number fails; return the error, null if none."""
    files.content, files.calls, files.failure, files.only = dict(before), 0, "no route to host", number
    try:
        take_up(word)
    except StreamError as error:
        return str(error)
    return None


@pytest.mark.parametrize("word", ["monday", "sunday"], ids=["a new rebuild", "an unfinished rebuild"])
def test_each_error_at_a_start_is_a_sentence(files: MemoryFiles, word: str) -> None:
    """Whichever call fails, nobody has to read a stack trace of Java; the checkpoint is whole, or moved away."""
    files.content[_VALUES] = encode_values(("sunday",))
    before, number = dict(files.content), 1
    while (said := failed_start(files, before, number, word)) is not None:
        assert re.fullmatch(r".* /c.*\(java\.io\.IOException: no route to host\).*", said)
        assert before.items() <= files.content.items() or _MONITOR not in files.content
        number += 1
    assert files.calls == number - 1 > 5


def test_a_checkpoint_that_cannot_be_moved_is_named_with_the_reason(files: MemoryFiles) -> None:
    """Some file systems report one, others only that they did not."""
    files.failure, files.fails = "no route to host", {"rename"}
    reason = r"^the checkpoint cannot be moved to /c/.* \(java\.io\.IOException: no route to host\); move it yourself"
    with pytest.raises(StreamError, match=reason):
        take_up("monday")

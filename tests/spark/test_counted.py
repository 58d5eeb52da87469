"""The positions of the totals with which a rebuild begins, stored in its checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.checkpoint import read_counted, store_counted
from spark.memory_files import use_memory

_SPARK: Any = None


def test_positions_are_those_that_were_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint without a rebuild, or of an earlier version, has none; another rebuild replaces them."""
    use_memory(monkeypatch)
    assert read_counted(_SPARK, "/c", pytest.fail) == {}
    for counted in ({"log/7": (0, 5)}, {"log/7": (1, 3), "log/8": (0, 9)}):
        store_counted(_SPARK, "/c", counted)
        assert read_counted(_SPARK, "/c", pytest.fail) == counted


def test_damaged_positions_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream goes on; a checkpoint that cannot be read at all ends the start."""
    files, said = use_memory(monkeypatch), list[str]()
    store_counted(_SPARK, "/c", {"log/7": (0, 5)})
    for content in (b"", b"{half", b'{"log/7":[1]}', b'{"\xff":[0,1]}'):
        files.content["/c/v4/counted.json"] = content
        assert read_counted(_SPARK, "/c", said.append) == {}
    assert [each.partition(": ")[0] for each in said] == ["/c/v4/counted.json is damaged"] * 4
    files.failure = "no route to host"
    with pytest.raises(StreamError, match=r"cannot use checkpoint /c .*no route to host"):
        read_counted(_SPARK, "/c", said.append)

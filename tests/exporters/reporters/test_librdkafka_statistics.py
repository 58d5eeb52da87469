"""Statistics that do not fit into a record: the remaining parts, for any names in them."""

from __future__ import annotations

import contextlib
import json
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from goldens import FOLDER
from rebalance_exporters.reporters import librdkafka_statistics
from rebalance_exporters.reporters.librdkafka_statistics import slim_statistics

_NAMES = ("librdkafka-classic", "librdkafka-joining", "librdkafka-kip848", "librdkafka-overrun")
_REAL = {name: (FOLDER / "client-metrics" / f"{name}.json").read_text() for name in _NAMES}
_CLASSIC = _REAL["librdkafka-classic"]
_LARGEST = 890_000
#: Prefixes of user-defined names in statistics.
_PLACES = ('"client_id": "orders-1', '"nodename":"', '"topic":"orders', '"rebalance_reason": "')


def _escaped(name: str) -> str:
    return json.dumps(name)[1:-1]


def expected(text: str) -> dict[str, Any]:
    """Return statistics without topics and without lists of partitions, however those were removed."""
    statistics: dict[str, Any] = json.loads(text)
    for broker in statistics["brokers"].values():
        broker.pop("toppars", None)
    return {**statistics, "topics": {}}


def left_of(slim: str) -> dict[str, Any]:
    """Return the remaining statistics, in which no partition may be listed."""
    brokers = json.loads(slim)["brokers"].values()
    assert not any(broker.get("toppars") for broker in brokers)
    return expected(slim)


def widen(text: str, partitions: int) -> str:
    """Return real statistics with this many partitions like the first, in librdkafka's own format."""
    numbers = re.search(r'"0": \{ "partition":0,[^{}]*\} ', text)
    listed = re.search(r'"orders-0": \{[^{}]*\} ', text)
    assert numbers
    assert listed
    many = [
        ", ".join(
            each[0].replace(f'{name}0": ', f'{name}{number}": ').replace('"partition":0', f'"partition":{number}')
            for number in range(partitions)
        )
        for name, each in (("", numbers), ("orders-", listed))
    ]
    text = re.sub(r'("toppars":\{ )(?:"orders-\d+": \{[^{}]*\} (?:, )?)+', lambda found: found[1] + many[1], text)
    return re.sub(r'"0": \{ "partition":0,[^{}]*\} (?:, "\d+": \{[^{}]*\} )*', lambda _: many[0], text, count=1)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of characters of JSON that were parsed at a time."""
    found: list[int] = []
    loads = json.loads

    def watched(text: str) -> Any:
        found.append(len(text))
        return loads(text)

    monkeypatch.setattr(librdkafka_statistics.json, "loads", watched)
    return found


def test_what_fits_stays_as_it_is():
    """It is not parsed."""
    assert slim_statistics(_CLASSIC, len(_CLASSIC)) is _CLASSIC
    assert slim_statistics("no JSON", 7) == "no JSON"


@pytest.mark.parametrize("name", _NAMES)
def test_real_statistics_lose_their_topics_and_are_not_read_as_a_whole(name: str, read: list[int]):
    """Everything else is unchanged; the topics and the lists of partitions are cut out without parsing them."""
    text = _REAL[name]
    slim = slim_statistics(text, len(text) - 1)
    assert max(read) < len(text) - (len(json.dumps(json.loads(text)["topics"])) - 40)
    assert left_of(slim) == expected(text)


def test_a_consumer_of_5000_partitions_takes_little_memory():
    """The text has 3.6 MB, and parsing it took 17 MB; the rest has 4 kB."""
    text = widen(_CLASSIC, 5_000)
    assert len(json.loads(text)["topics"]["orders"]["partitions"]) == 5_001
    tracemalloc.start()
    try:
        slim = slim_statistics(text, _LARGEST)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left_of(slim) == expected(text)
    assert len(slim) < 10_000
    assert peak < 1_000_000


@pytest.mark.parametrize("written", [_escaped, str], ids=["escaped", "as it is"])
@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize(
    "name",
    [
        '"topics":{}}',
        'a", "topics":{}} ',
        'a", "topics":{ }, "b": "c',
        '"brokers":{ "x":{ } }, "topics":{ } , "cgrp":{ } ',
        '"cgrp":',
        ', "cgrp": { "state":"up" }, "a": "',
        ' , "a-0": { "topic":"a", "partition":0} , ',
        '"a": { "topic":"a", "partition":0}',
        "}} , cgrp: {",
        "\\",
        "a\\\\",
    ],
)
def test_no_name_makes_a_wrong_cut(name: str, place: str, written: Callable[[str], str]):
    """librdkafka escapes no names: invalid JSON may be rejected, otherwise the rest equals the parsed result."""
    assert place in _CLASSIC
    text = _CLASSIC.replace(place, place + written(name))
    try:
        wanted = expected(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            json.loads(slim_statistics(text, len(text) - 1))
    else:
        assert expected(slim_statistics(text, len(text) - 1)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        _CLASSIC.replace('"cgrp"', '"group"'),
        json.dumps(dict(reversed(json.loads(_CLASSIC).items()))),
        _CLASSIC.replace('}, "topics"', f'}}, "added":"{"x" * 50}", "topics"'),
        _CLASSIC.replace('"cgrp"', '"added":{ "x":1 }, "cgrp"'),
    ],
    ids=["no cgrp", "another order", "a new field before", "a new field between"],
)
def test_another_order_is_read_as_a_whole(text: str):
    """For later versions of librdkafka; only fields between topics and group are dropped with the topics."""
    wanted = expected(text)
    if '"added":{' in text:
        del wanted["added"]
    assert left_of(slim_statistics(text, len(text) - 1)) == wanted


def test_brokers_go_where_they_do_not_fit_either():
    """Except the coordinator, whose heartbeats are counted."""
    text = _CLASSIC
    coordinator = expected(text)["brokers"]["GroupCoordinator"]
    slim = slim_statistics(text, 2_500)
    assert len(slim) <= 2_500
    assert json.loads(slim) == {**expected(text), "brokers": {"GroupCoordinator": coordinator}}


def test_what_has_to_be_read_and_is_no_json_is_refused():
    """It could not be added to a report."""
    with pytest.raises(ValueError, match="Expecting"):
        slim_statistics(_CLASSIC[:-1], 10)

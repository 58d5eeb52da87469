import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import httpx
import pytest

from exporters.api.test_overview import finding_row
from exporters.contract_rows import NOW_MS, group_row, lag_row, make_view, query_row, rebalance_row
from exporters.serving import serving
from rebalance_contract import Finding, Rebalance, decode
from rebalance_contract.api import Readiness
from rebalance_exporters.api import stream_events
from rebalance_exporters.api.stream_events import EventSource, Filter, KeptTexts, write_event
from rebalance_exporters.owners import Owners
from rebalance_exporters.state import changes
from rebalance_exporters.state.changes import ChangedItem
from rebalance_exporters.state.view import FINDINGS, GROUPS, REBALANCES, Row, View

DEADLINE_SECONDS = 120


class Event(NamedTuple):
    """One event as parsed by a client."""

    name: str
    data: Any
    event_id: str | None


def parse(text: bytes) -> Event:
    """Read one event."""
    fields = dict(line.split(": ", 1) for line in text.decode().strip().split("\n"))
    return Event(fields["event"], json.loads(fields["data"]), fields.get("id"))


def make_source(view: View, judge: Callable[[], Readiness] = lambda: Readiness(True, "ready")) -> EventSource:
    """The source shared by the followers of a view, with a clock that stands still."""
    return EventSource(view, judge, lambda: NOW_MS, Owners, "1.2.3")


async def read_until(events: AsyncIterator[bytes], last: str) -> list[Event]:
    """Read events up to the first of a name."""
    found: list[Event] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for text in events:
            found.append(parse(text))
            if found[-1].name == last:
                break
    return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for changes without delay."""
    monkeypatch.setattr(stream_events, "LOOK_SECONDS", 0.01)


def follow(view: View, *rows: Row, wanted: Filter | None = None, last_id: str | None = None) -> list[Event]:
    """Return the events that a follower gets for rows that arrive after it connected."""

    async def run() -> list[Event]:
        events = make_source(view).follow(wanted or Filter(), last_id)
        found = await read_until(events, "status")
        view.apply([*rows, group_row(group="the last one")])
        if last_id is None:
            while found[-1].data.get("group") != "the last one":
                found += await read_until(events, "group")
        return found

    return asyncio.run(run())


def test_a_follower_hears_of_what_changes() -> None:
    """First hello and status, then rows of groups, rebalances and findings as they change; repetitions are not sent."""
    view = make_view(group_row(), rebalance_row("1"), query_row())
    found = follow(view, group_row(), group_row(generation=8), rebalance_row("2"), finding_row(), wanted=Filter("prod"))
    assert [event.name for event in found[:2]] == ["hello", "status"]
    assert found[0].data == {"at_ms": NOW_MS, "version": "1.2.3"}
    assert found[1].data == {"at_ms": NOW_MS, "ready": True, "ready_text": "ready", "data_age_ms": 1_000}
    news = {(event.name, event.data["group"]): event.data for event in found[2:]}
    assert set(news) == {
        ("group", "payments"),
        ("rebalance", "payments"),
        ("finding", "payments"),
        ("group", "the last one"),
    }
    assert news["group", "payments"]["generation"] == 8
    assert [mark["rule"] for mark in news["group", "payments"]["findings"]] == ["crash_loop"]
    assert news["rebalance", "payments"]["rebalance_id"] == "2"
    assert news["finding", "payments"]["state"] == "firing"


def test_followers_share_what_they_receive() -> None:
    """Slow followers keep their pending events in memory: these must be the same bytes for all."""
    view = make_view(query_row())
    source = make_source(view)

    async def hear(first: AsyncIterator[bytes], second: AsyncIterator[bytes]) -> list[list[bytes]]:
        heard = []
        for events in (first, second):
            parts: list[bytes] = []
            async with asyncio.timeout(DEADLINE_SECONDS):
                async for text in events:
                    parts += [text] if parse(text).name in {"group", "rebalance", "finding"} else []
                    if len(parts) == 3:
                        break
            heard.append(parts)
        return heard

    async def run() -> list[list[bytes]]:
        followers = source.follow(Filter()), source.follow(Filter())
        for each in followers:
            await read_until(each, "status")
        view.apply([group_row(), rebalance_row("1"), finding_row()])
        return await hear(*followers)

    first, second = asyncio.run(run())
    assert [one is other for one, other in zip(first, second, strict=True)] == [True] * 3


def test_who_reads_slowly_holds_little_and_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are serialised a few at a time; one that changes again before its turn is sent once."""
    monkeypatch.setattr(stream_events, "_MOST_AT_ONCE", 2)
    view = make_view()

    async def run() -> list[Event]:
        events = make_source(view).follow(Filter())
        await read_until(events, "status")
        view.apply([group_row(group=f"g{number}") for number in range(5)])
        found = await read_until(events, "group")
        view.apply([group_row(group="g4", generation=99)])
        while found[-1].data["group"] != "g4":
            found += await read_until(events, "group")
        return found

    reported = [
        (event.data["group"], event.data["generation"]) for event in asyncio.run(run()) if event.name == "group"
    ]
    assert [group for group, _ in reported] == ["g0", "g1", "g2", "g3", "g4"]
    assert reported[-1] == ("g4", 99)


def test_events_are_kept_within_a_bound() -> None:
    """New rebalances arrive all the time; the oldest are dropped first, and replaced ones take no room."""
    kept = KeptTexts(most_bytes=10_000)
    items = [ChangedItem("rebalance", "prod", "payments", str(number)) for number in range(100)]
    for version, item in enumerate(items):
        kept.put(version, item, b"x" * 500)
    found = [version for version, item in enumerate(items) if kept.get(version, item)]
    assert found == list(range(90, 100))
    for version in range(100, 200):
        kept.put(version, items[-1], b"y" * 500)
    assert kept.get(199, items[-1]) == b"y" * 500
    assert kept.get(99, items[-1]) is None
    assert all(kept.get(version, items[version]) for version in range(90, 99))


def test_a_group_that_goes_is_reported() -> None:
    """A tombstone becomes `gone`."""
    found = follow(make_view(group_row()), Row(GROUPS, b"prod/payments", None))
    assert [event.data for event in found if event.name == "gone"] == [{"cluster": "prod", "group": "payments"}]


@pytest.mark.parametrize("row", [rebalance_row("0-1"), lag_row(None, None)], ids=["rebalance", "lag"])
def test_a_group_that_is_not_read_yet_is_not_gone(row: Row) -> None:
    """Its rebalances and its lag may be read before it."""
    found = follow(View(group_expiry_seconds=3600, keep_rebalances=9), row)
    assert "gone" not in [event.name for event in found]


def test_a_withdrawn_finding_is_sent_as_resolved() -> None:
    """A follower that received a finding is told that it no longer holds; the time of its end is unknown."""
    found = follow(make_view(group_row(), finding_row()), Row(FINDINGS, b"prod/payments/crash_loop/", None))
    (withdrawn,) = [decode(json.dumps(event.data).encode(), Finding) for event in found if event.name == "finding"]
    assert (withdrawn.state, withdrawn.resolved_at_ms) == ("resolved", None)


def test_a_filter_lets_through_what_is_wanted() -> None:
    """One cluster, or one group of it."""
    rows = (group_row(), group_row(cluster="test"), group_row(group="b"), group_row(cluster="test", group="b"))
    of_cluster = follow(make_view(), *rows, wanted=Filter("prod"))[2:]
    assert [(event.data["cluster"], event.data["group"]) for event in of_cluster] == [
        ("prod", "payments"),
        ("prod", "b"),
        ("prod", "the last one"),
    ]
    elsewhere = group_row(cluster="test", group="the last one")
    (of_group,) = follow(make_view(), *rows, elsewhere, wanted=Filter("prod", "the last one"))[2:]
    assert (of_group.data["cluster"], of_group.data["group"]) == ("prod", "the last one")


def test_following_resumes_where_it_ended() -> None:
    """With the id of the last event a client gets each later change, once, and no earlier one."""
    view = make_view(group_row(group="before"))

    async def run() -> tuple[list[Event], list[Event]]:
        source = make_source(view)
        first = await read_until(source.follow(Filter()), "status")
        view.apply([group_row(), group_row(generation=8), group_row(group="b"), lag_row(5)])
        return first, await read_until(source.follow(Filter(), first[0].event_id), "status")

    _, resumed = asyncio.run(run())
    assert [event.name for event in resumed] == ["hello", "group", "group", "status"]
    assert [event.data["group"] for event in resumed[1:3]] == ["b", "payments"]
    assert resumed[2].data["generation"] == 8


def test_an_id_that_no_version_can_have_is_one_of_another_run() -> None:
    """A client that sends a number of thousands of digits gets a reset, like any other."""
    view = make_view(group_row())
    source = make_source(view)

    async def run() -> list[Event]:
        return await read_until(source.follow(Filter(), f"{source.run_id}-{'9' * 5_000}"), "status")

    assert [event.name for event in asyncio.run(run())] == ["hello", "reset", "status"]


@pytest.mark.parametrize("last_id", ["another-5", "", "nonsense", "-", "x-²"])
def test_an_id_of_another_run_asks_for_a_reset(last_id: str) -> None:
    """Changes of another exporter are counted differently: the client is told to load everything again."""
    found = follow(make_view(group_row()), last_id=last_id)
    assert [event.name for event in found] == ["hello", "reset", "status"]


def test_a_follower_that_missed_too_much_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """If more changed than is kept, the follower gets a reset and continues from there."""
    view = make_view()
    monkeypatch.setattr(view, "_changes", changes.ChangeLog(keep=3))

    async def run() -> list[Event]:
        events = make_source(view).follow(Filter())
        found = await read_until(events, "status")
        view.apply([group_row(group=f"g{number}") for number in range(10)])
        found += await read_until(events, "reset")
        view.apply([group_row(group="after")])
        return found + await read_until(events, "group")

    assert [event.name for event in asyncio.run(run())] == ["hello", "status", "reset", "group"]


def test_readiness_is_sent_when_it_changes() -> None:
    """A follower is told at once that its data are outdated, not with the next heartbeat."""
    verdicts = [Readiness(True, "ready")]

    async def run() -> list[Event]:
        events = make_source(make_view(), lambda: verdicts[-1]).follow(Filter())
        found = await read_until(events, "status")
        verdicts.append(Readiness(False, "no batch for 45 s"))
        return found + await read_until(events, "status")

    assert [e.data["ready"] for e in asyncio.run(run()) if e.name == "status"] == [True, False]


def test_the_status_comes_although_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client can distinguish a quiet cluster from a dead connection."""
    monkeypatch.setattr(stream_events, "STATUS_SECONDS", 0.05)

    async def run() -> list[Event]:
        events = make_source(make_view()).follow(Filter())
        return [event for _ in range(3) for event in await read_until(events, "status")]

    assert [event.name for event in asyncio.run(run())] == ["hello", "status", "status", "status"]


def test_a_row_with_line_breaks_stays_one_event() -> None:
    """JSON with line breaks is one event and the same JSON."""
    value = rebalance_row("1").value
    assert value is not None
    pretty = json.dumps(json.loads(value), indent=2).replace("\n", "\r\n").encode()
    found = follow(make_view(), Row(REBALANCES, b"prod/payments/1", pretty))
    (reported,) = [event.data for event in found if event.name == "rebalance"]
    assert decode(json.dumps(reported).encode(), Rebalance) == decode(value, Rebalance)
    assert write_event("x", b'{\r\n"a":1}').count(b"\n") == 3


def test_events_come_over_http() -> None:
    """A real client follows, gets changes, and the server closes the connection when it stops."""
    view = make_view(group_row(), query_row())
    with serving(view) as served:
        url = f"http://127.0.0.1:{served.port}/api/v1/stream?cluster=prod"
        with httpx.stream("GET", url, timeout=DEADLINE_SECONDS, verify=False) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.iter_lines()
            assert "event: hello" in (next(lines), next(lines))
            view.apply([group_row(generation=9)])
            assert any(line.startswith("data: ") and '"generation":9' in line for line in lines)
            served.signals.stop.set()
            for _ in lines:
                pass

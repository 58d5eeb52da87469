"""`tail`: one line per new event, over any number of connections."""

import json
import threading
from dataclasses import replace

import pytest

from exporters.terminal.answering import event
from exporters.terminal.clusters import CALM_ROW, COST, HOSTILE, LOSS, NOW_MS, STARVED
from exporters.terminal.running import hold_to_golden
from rebalance_contract import encode
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.terminal import tail
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.client import Api
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.sse import ServerEvent

HELLO = event("hello", {"at_ms": NOW_MS, "version": "1"})
GONE = {"cluster": "prod", "group": "old"}


def status(ready, text="ready"):
    """A status as the stream sends it every few seconds."""
    return {"at_ms": NOW_MS, "ready": ready, "ready_text": text, "data_age_ms": 5}


def follow(exporter, lines, write=None, **whom):
    """Follow until this many lines were printed; return them and the output on standard error."""
    stop, said, remarks = threading.Event(), [], []

    def say(line):
        said.append(line)
        if len(said) == lines:
            stop.set()

    following = tail.Following(whom.get("cluster"), whom.get("group"), say, remarks.append)
    with Api(Access("tail", exporter.url)) as api:
        tail.follow(api, following, write or tail.EventNarrator(Clock()).describe, stop)
    return said, remarks


def test_events_become_lines(exporter):
    """Rebalances, findings, changes of state, removed groups, and the readiness of the data."""
    exporter.streams = [
        [
            HELLO,
            event("status", status(ready=True)),
            event("group", CALM_ROW, "1"),
            event("group", replace(CALM_ROW, state="Assigning", state_since_ms=NOW_MS), "2"),
            event("rebalance", replace(LOSS, outcome="ongoing", duration_min_ms=None), "3"),
            event("rebalance", LOSS, "4"),
            event("finding", STARVED, "5"),
            event("gone", GONE, "6"),
            event("status", status(ready=False, text="no batch for 75 s")),
            event("status", status(ready=True)),
            event("reset", {}),
        ]
    ]
    said, _ = follow(exporter, 8)
    hold_to_golden("tail.txt", "\n".join(said) + "\n")


def test_what_was_said_is_not_said_again(exporter):
    """Objects are sent again with every small change, and after a lost connection."""
    again = [
        event("rebalance", replace(LOSS, impact=replace(COST, lost_partition_ms=99_000))),
        event("finding", replace(STARVED, rebalances=13)),
    ]
    exporter.streams = [
        [
            event("rebalance", LOSS),
            event("finding", STARVED),
            *again,
            event("finding", replace(STARVED, state="resolved")),
        ]
    ]
    said, _ = follow(exporter, 3)
    assert [line.split("  ")[2].split(":")[0] for line in said[1:]] == ["FIRING ticket", "RESOLVED ticket"]


def test_it_goes_on_where_the_connection_broke(exporter, monkeypatch):
    """With the id of the last event, also after a server that cannot answer for a while."""
    monkeypatch.setattr(tail, "_FIRST_PAUSE_SECONDS", 0.01)
    exporter.streams = [
        [HELLO, event("gone", GONE, "41"), b"event: gone\ndata: {"],
        [event("gone", GONE | {"group": "b"}, "42")],
    ]
    said, remarks = follow(exporter, 2, cluster="prod", group="old")
    assert [line.split()[0] for line in said] == ["old", "b"]
    asked = [each for each in exporter.requests if each.path == "stream"]
    assert [each.headers.get("last-event-id") for each in asked] == [None, "41"]
    assert asked[1].query == {"cluster": "prod", "group": "old"}
    assert remarks[0].startswith("connection lost, trying again in 0 s: ")
    assert remarks[1] == "connected again"


def test_a_refusal_after_a_break_is_tried_again_while_it_may_pass(exporter, monkeypatch):
    """A restarting server answers 503 for a while; then the next connection succeeds."""
    monkeypatch.setattr(tail, "_FIRST_PAUSE_SECONDS", 0.01)
    exporter.streams = [[event("gone", GONE, "41")]]
    refusals = []

    def print_remark(line):
        refusals.append(line)
        if "503" in line:
            exporter.streams.append([event("gone", GONE | {"group": "b"}, "42")])

    stop, said = threading.Event(), []

    def say(line):
        said.append(line)
        if len(said) == 2:
            stop.set()

    with Api(Access("tail", exporter.url)) as api:
        tail.follow(api, tail.Following(None, None, say, print_remark), tail.EventNarrator(Clock()).describe, stop)
    assert any("answers 503: too many listeners" in line for line in refusals)


def test_without_a_first_connection_it_fails(exporter):
    """It does not wait for a server that was never there."""
    with pytest.raises(ExporterError, match="answers 503: too many listeners"):
        follow(exporter, 1)


def test_an_event_of_another_version_is_one_sentence(exporter):
    """And no stack trace."""
    exporter.streams = [[event("finding", {"finding_id": 3})]]
    with pytest.raises(ExporterError, match=r"sent an event that this version cannot read .* compare its version with"):
        follow(exporter, 1)


def test_json_lines_hold_every_event(exporter):
    """Including unknown kinds, in printable characters."""
    exporter.streams = [[HELLO, event("newer", {"name": HOSTILE}, "7")]]
    said, _ = follow(exporter, 2, tail.as_json)
    assert json.loads(said[1]) == {"event": "newer", "id": "7", "data": {"name": HOSTILE}}
    assert all(line.isprintable() for line in said)


def test_hostile_names_do_nothing():
    """Each event stays on one line."""
    narrator = tail.EventNarrator(Clock())
    evil = replace(CALM_ROW, group=HOSTILE)
    narrator.describe(ServerEvent("group", encode(evil).decode(), None))
    lines = [
        narrator.describe(ServerEvent(kind, encode(data).decode(), None))
        for kind, data in (
            ("group", replace(evil, state=HOSTILE)),
            ("rebalance", replace(LOSS, group=HOSTILE, reason=HOSTILE)),
            ("finding", replace(STARVED, summary=HOSTILE, group=HOSTILE)),
            ("gone", {"cluster": HOSTILE, "group": HOSTILE}),
            ("status", status(ready=False, text=HOSTILE)),
        )
    ]
    assert all(line and line.isprintable() for line in lines)


def test_the_first_change_of_a_group_is_shown():
    """Compared with its state at the beginning; a new group has none to compare with."""
    narrator = tail.EventNarrator(Clock())
    narrator.learn([CALM_ROW])
    changed, new = replace(CALM_ROW, state="Assigning"), replace(CALM_ROW, group="new")
    lines = [narrator.describe(ServerEvent("group", encode(row).decode(), None)) for row in (changed, new)]
    assert lines == ["04:13:20  billing  Stable -> Assigning (3 members, generation 12)", None]


def test_memory_is_bounded(monkeypatch):
    """However many groups appear and disappear."""
    monkeypatch.setattr(tail, "_REMEMBERED", 10)
    narrator = tail.EventNarrator(Clock())
    for number in range(50):
        narrator.describe(ServerEvent("group", encode(replace(CALM_ROW, group=str(number))).decode(), None))
    assert len(narrator._shown) == 10


def test_a_group_that_does_not_exist_is_reported_at_once(monitor, exporter):
    """Otherwise it would be followed silently forever."""
    exporter.answers["groups/x"] = (404, {"error": "no group 'x'", "did_you_mean": []})
    outcome = monitor("tail", "--group", "x")
    assert outcome.code == 1
    assert outcome.err == "rebalance-monitor: no group 'x'; see all groups with `rebalance-monitor top`\n"


def test_states_are_known_before_the_first_event(monitor, exporter, monkeypatch):
    """The command requests them, so that the first change is shown."""
    exporter.streams = [[event("group", replace(CALM_ROW, state="Assigning"))]]

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tail, "_pause", interrupted)
    assert monitor("tail").out == "04:13:20  billing  Stable -> Assigning (3 members, generation 12)\n"


def test_ctrl_c_is_the_ordinary_end(monitor, exporter, monkeypatch):
    """Exit code 0 without a message; all lines have been flushed."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tail, "follow", interrupted)
    outcome = monitor("tail")
    assert outcome.code == 0
    assert outcome.err == f"following {exporter.url}; times in UTC; Ctrl-C ends\n"

"""Findings and heartbeat timing for users and Prometheus: stored, counted, queried."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporters.advice.test_estimator import overrun
from exporters.contract_rows import NOW_MS, diagnosis_row, group_row, make_view, query_row, refused
from rebalance_contract import (
    Advice,
    Alternative,
    Evidence,
    Finding,
    GroupTiming,
    MemberTiming,
    Subject,
    SubjectMember,
    TimingWindow,
    decode,
    encode,
)
from rebalance_contract.api import Readiness
from rebalance_exporters.advice.absences import PastRebalance
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.metrics.formats import Style
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.server import make_app
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import FINDINGS, HEARTBEATS, IMPACT, REBALANCES, Row, View

KEY = ("prod", "payments")
HOUR_MS = 3_600_000
LOADED = ReadProgress(loaded=True)
READY = Readiness(True, "ready")

OVERRUN = Finding(
    finding_id="0123456789abcdef",
    cluster="prod",
    group="payments",
    rule="poll_overrun",
    severity="ticket",
    state="firing",
    primary=True,
    confidence=0.9,
    subject=Subject((SubjectMember("c-1", "c", "/10.0.0.1"),), ("orders-0",), ("/10.0.0.1",)),
    started_at_ms=NOW_MS - 400_000,
    detected_at_ms=NOW_MS - 80_000,
    updated_at_ms=NOW_MS - 80_000,
    resolved_at_ms=None,
    summary="c (/10.0.0.1) did not poll within max.poll.interval (300 s) and left the group.",
    rebalances=1,
    rebalance_ids=("0-42",),
    evidence=(Evidence("commits", "silence", "301 s without a commit", "time since the last sign"),),
    alternatives=(Alternative("heartbeat_starvation", "its silence matches max.poll.interval"),),
    missing=("client metrics of /10.0.0.1",),
    advice=(Advice("max.poll.records", "500", "at most 100", "max(1, floor(0.5 x R / r))"),),
)
TIMING = GroupTiming(
    "prod",
    "payments",
    NOW_MS,
    {
        "1m": TimingWindow(2_500, 0.75, 60_000, 0.8, 12),
        "5m": TimingWindow(12_000, -0.2, 240_000, 0.2, 60),
        "15m": TimingWindow(),
    },
    (MemberTiming("c-1", "c", "/10.0.0.1", "java", NOW_MS - 1_000, 2_500, 0.75, poll_age_ms=60_000),),
)


def finding_row(*, key: bytes | None = None, **changes: Any) -> Row:
    """Make a version of OVERRUN with the key of its member."""
    found = replace(OVERRUN, **changes)
    return Row(FINDINGS, key or f"{found.cluster}/{found.group}/{found.rule}/c@/10.0.0.1".encode(), encode(found))


def over(ago_ms: int = 10_000, **changes: Any) -> Row:
    """Make the resolved version."""
    return finding_row(state="resolved", resolved_at_ms=NOW_MS - ago_ms, updated_at_ms=NOW_MS - ago_ms, **changes)


def timing_row(**changes: Any) -> Row:
    timing = replace(TIMING, **changes)
    return Row(HEARTBEATS, f"{timing.cluster}/{timing.group}".encode(), encode(timing))


def states(view: View) -> dict[str, str]:
    found = view.fleet().findings.get(KEY)
    return {} if found is None else {each.rule: each.state for each in found.findings}


def fired(view: View) -> dict[tuple[str, str], int]:
    return dict(view.fleet().findings[KEY].fired)


# --- The snapshot ---


def test_the_latest_version_of_a_finding_counts():
    """Rows overwrite by key; all fields of a finding are kept."""
    view = make_view(finding_row(), finding_row(confidence=0.97), over(rule="member_crash"))
    (crash, overrun) = sorted(view.fleet().findings[KEY].findings, key=lambda each: each.rule)
    assert overrun == replace(OVERRUN, confidence=0.97)
    assert (crash.rule, crash.state) == ("member_crash", "resolved")


def test_findings_are_in_the_order_they_began():
    """In any order of arrival."""
    rows = [finding_row(rule=rule, started_at_ms=NOW_MS - ago) for rule, ago in (("b", 5), ("c", 1), ("a", 9))]
    assert [each.rule for each in make_view(*rows).fleet().findings[KEY].findings] == ["a", "b", "c"]


def test_firing_is_counted_when_it_begins():
    """Versions of one occurrence count once, repetitions do not, and a second occurrence does."""
    view = make_view(finding_row(), finding_row(), finding_row(confidence=0.95), finding_row(severity="page"))
    assert fired(view) == {("poll_overrun", "ticket"): 1}
    view.apply([over(), over()])
    assert fired(view) == {("poll_overrun", "ticket"): 1}
    view.apply([finding_row(severity="page")])
    assert fired(view) == {("poll_overrun", "ticket"): 1, ("poll_overrun", "page"): 1}


def test_what_was_there_at_the_start_counts_nothing():
    """The previous exporter has counted them: 0 is a reset for Prometheus, and the next occurrence is one more."""
    view = make_view(
        finding_row()._replace(was_there=True),
        over(rule="member_crash")._replace(was_there=True),
        over(rule="crash_loop")._replace(was_there=True),
        finding_row(rule="crash_loop")._replace(was_there=True),
    )
    kinds = [(rule, "ticket") for rule in ("poll_overrun", "member_crash", "crash_loop")]
    assert fired(view) == dict.fromkeys(kinds, 0)
    view.apply([finding_row(confidence=0.95), finding_row(rule="member_crash")])
    assert fired(view) == dict(zip(kinds, (0, 1, 0), strict=True)), "one goes on, the other one began"
    view.apply([over(), finding_row()])
    assert fired(view) == dict(zip(kinds, (1, 1, 0), strict=True))


def test_a_resolved_finding_first_seen_so_never_fired():
    """After a start the last version may be the resolved one: no beginning was read."""
    assert fired(make_view(over())) == {}


@pytest.mark.parametrize(
    ("row", "kept"),
    [(over(HOUR_MS - 1), True), (over(HOUR_MS), False), (finding_row(started_at_ms=0, updated_at_ms=0), True)],
    ids=["lately over", "long over", "old and open"],
)
def test_findings_that_are_over_are_shown_for_a_while(row: Row, kept: bool):
    """A finding expires by its end, never by its age."""
    view = make_view(row)
    view.forget_expired(NOW_MS)
    assert bool(states(view)) == kept


def test_a_tombstone_forgets_a_finding_and_not_that_it_fired():
    """Counters never decrease."""
    view = make_view(finding_row())
    view.apply([Row(FINDINGS, finding_row().key, None), Row(FINDINGS, b"prod/payments/never/known", None)])
    assert states(view) == {}
    assert fired(view) == {("poll_overrun", "ticket"): 1}
    assert refused(view)[FINDINGS] == 0


@pytest.mark.parametrize(
    "row",
    [
        finding_row(key=b"prod/other/poll_overrun/c@/10.0.0.1"),
        finding_row(key=b"prod/payments/member_crash/c@/10.0.0.1"),
        finding_row(key=b"prod/payments/poll_overrun"),
        Row(FINDINGS, b"prod/payments/poll_overrun/x", b"{}"),
        Row(FINDINGS, b"prod/payments/poll_overrun/x", b"not json"),
        Row(FINDINGS, None, encode(OVERRUN)),
        Row(HEARTBEATS, b"prod/other", encode(TIMING)),
        Row(HEARTBEATS, b"prod/payments", b"[]"),
    ],
)
def test_a_broken_row_is_counted_and_changes_nothing(row: Row):
    """A row that disagrees with its key, or is invalid, is rejected."""
    view = make_view(finding_row(), timing_row(), row)
    fleet = view.fleet()
    assert refused(view)[row.topic] == 1
    assert states(view) == {"poll_overrun": "firing"}
    assert fleet.timings == {KEY: TIMING}


def test_a_snapshot_does_not_change():
    """A snapshot shows one moment."""
    view = make_view(finding_row())
    before = view.fleet().findings[KEY]
    view.apply([over(), finding_row(rule="member_crash")])
    assert [each.state for each in before.findings] == ["firing"]


def test_timing_ends_with_its_group_and_with_its_reports():
    """A removed group has none, nor has one whose clients stopped reporting long ago."""
    view = make_view(group_row(), timing_row())
    view.apply([Row(HEARTBEATS, b"prod/payments", None)])
    assert view.fleet().timings == {}
    view.apply([timing_row(at_ms=NOW_MS - HOUR_MS)])
    view.forget_expired(NOW_MS)
    assert view.fleet().timings == {}
    view.apply([timing_row(), Row("groups", b"prod/payments", None)])
    assert view.fleet().timings == {}


# --- Metrics ---


def samples(view: View, name: str, *, limit: int = 9, **settings: bool) -> dict[tuple[str, ...], float]:
    """Return the values of one metric by the labels other than the cluster, in the order of their declaration."""
    exposition = Exposition(limit_groups=limit, version="1", **settings)
    text = exposition.render(view.fleet(), LOADED, READY, NOW_MS, Style.TEXT).decode()
    found = [s for family in text_string_to_metric_families(text) for s in family.samples]
    return {
        tuple(value for label, value in each.labels.items() if label != "cluster"): each.value
        for each in found
        if each.name == f"kafka_rebalance_{name}"
    }


def test_open_findings_are_one_and_those_over_are_zero():
    """Per rule and severity; 1 if any is open."""
    second = finding_row(key=b"prod/payments/poll_overrun/d@/10.0.0.2", state="resolved", resolved_at_ms=NOW_MS)
    view = make_view(group_row(), finding_row(), second, over(rule="member_crash", severity="page"))
    assert samples(view, "finding_active") == {
        ("payments", "poll_overrun", "ticket"): 1,
        ("payments", "member_crash", "page"): 0,
    }
    assert samples(view, "findings_total") == {("payments", "poll_overrun", "ticket"): 1}


DETAILS = ("severity_code", "confidence", "primary", "start_timestamp_seconds", "info")


def test_details_of_findings_are_those_of_open_ones():
    """Of several of one diagnosis: the highest confidence, a cause if any is, the oldest beginning; none resolved."""
    codes = {("page", 3), ("ticket", 2), ("info", 1), ("of the future", 3)}
    kinds = make_view(group_row(), *(finding_row(rule=each, severity=each) for each, _ in codes))
    assert samples(kinds, "finding_severity_code") == {("payments", each, each): code for each, code in codes}
    surer = finding_row(
        key=b"prod/payments/poll_overrun/d@/10.0.0.2", confidence=0.95, primary=False, started_at_ms=NOW_MS - 500_000
    )
    follows = finding_row(rule="rebalance_storm", primary=False, confidence=0.5)
    view = make_view(group_row(), surer, finding_row(), follows, over(rule="member_crash", confidence=1.0))
    overrun, storm = ("payments", "poll_overrun", "ticket"), ("payments", "rebalance_storm", "ticket")
    assert samples(view, "finding_confidence") == {overrun: 0.95, storm: 0.5}
    assert samples(view, "finding_primary") == {overrun: 1, storm: 0}
    started = samples(view, "finding_start_timestamp_seconds")
    assert started == {overrun: (NOW_MS - 500_000) / 1000, storm: OVERRUN.started_at_ms / 1000}
    view.apply([over(), over(rule="rebalance_storm"), finding_row(key=surer.key, state="resolved", resolved_at_ms=1)])
    assert [samples(view, f"finding_{name}") for name in DETAILS] == [{}] * len(DETAILS)


@pytest.mark.parametrize(
    ("subject", "who"),
    [
        (Subject(), ""),
        (Subject(hosts=("/10.0.0.1", "broker-2")), "10.0.0.1, broker-2"),
        (Subject((SubjectMember("c-1", "c", "/10.0.0.1"), SubjectMember("c-2", "c", "/10.0.0.1"))), "c@10.0.0.1"),
        (Subject((SubjectMember("c-1", "c", "h", "static-7"),), hosts=("h",)), "static-7@h"),
        (Subject((SubjectMember("only-an-id"),)), "?@?"),
        (
            Subject(tuple(SubjectMember(None, f"c{n}", "h") for n in range(5))),
            "c0@h, c1@h, c2@h and 2 more",
        ),
        (Subject((SubjectMember(None, "c" * 32_767, "h"),)), "c" * 120 + "..."),
    ],
    ids=["the group", "hosts", "a member that came back", "a static member", "no name", "many", "a name without end"],
)
def test_who_a_finding_is_about_is_named_by_what_lasts(subject: Subject, who: str):
    """Client or instance and host, a few at most, and never a member id."""
    view = make_view(group_row(), finding_row(subject=subject))
    change = ("max.poll.records", "500", "at most 100")
    assert samples(view, "finding_info") == {("payments", "poll_overrun", "ticket", who, *change): 1}


@pytest.mark.parametrize(
    ("advice", "change"),
    [
        ((), ("", "", "")),
        ((Advice("code", None, "poll more often", "-"),), ("code", "", "poll more often")),
        (
            (Advice("code", None, "poll", "-"), Advice("a.b", None, "less", "-"), Advice("c.d", "5", "9", "-")),
            ("c.d", "5", "9"),
        ),
        ((Advice("code", None, "poll", "-"), Advice("a.b", None, "less", "-")), ("a.b", "", "less")),
        ((Advice("a.b", "1", "2", "-"), Advice("c.d", "5", "9", "-")), ("a.b", "1", "2")),
    ],
    ids=["none", "code", "a value that is known", "a setting before code", "the first of two"],
)
def test_what_to_change_is_a_setting_with_its_value_if_any(advice: tuple[Advice, ...], change: tuple[str, ...]):
    """A number that can be set takes precedence over changes of code; otherwise the order of the advice counts."""
    view = make_view(group_row(), finding_row(advice=advice))
    assert list(samples(view, "finding_info")) == [("payments", "poll_overrun", "ticket", "c@10.0.0.1", *change)]


def test_of_several_findings_the_oldest_cause_is_shown():
    """So that the series stays the same while others open and resolve."""
    rows = [
        finding_row(
            key=f"prod/payments/poll_overrun/{n}".encode(),
            primary=primary,
            started_at_ms=NOW_MS - ago,
            subject=Subject((SubjectMember(None, f"c{n}", "h"),)),
        )
        for n, (primary, ago) in enumerate([(True, 5), (True, 9), (False, 20)])
    ]
    [(_, _, _, who, *_)] = samples(make_view(group_row(), *rows), "finding_info")
    assert who == "c1@h"


def test_a_group_without_findings_has_no_series_of_them():
    """A hundred diagnoses for all groups would be far too many zeros."""
    view = make_view(group_row())
    assert samples(view, "finding_active") == {}
    assert samples(view, "findings_total") == {}
    assert [samples(view, f"finding_{name}") for name in DETAILS] == [{}] * len(DETAILS)


def test_findings_of_a_cluster_have_no_group():
    """They are shown although no group of that name is exported; those of unknown or dropped groups are not."""
    wide = finding_row(
        group="", rule="cluster_wide_disturbance", severity="page", key=b"prod//cluster_wide_disturbance/"
    )
    view = make_view(group_row(), wide, finding_row(group="unknown"))
    assert samples(view, "finding_active") == {("", "cluster_wide_disturbance", "page"): 1}
    older = group_row(group="older", first_seen_ms=0)
    limited = make_view(group_row(), older, finding_row(), finding_row(group="older"))
    assert set(samples(limited, "finding_active", limit=1)) == {("older", "poll_overrun", "ticket")}


def test_timing_is_in_seconds_and_shares_and_the_unknown_is_absent():
    """Windows without reports have no series; members only on request."""
    view = make_view(group_row(), diagnosis_row(), timing_row())
    assert samples(view, "window_heartbeat_age_max_seconds") == {("payments", "1m"): 2.5, ("payments", "5m"): 12.0}
    assert samples(view, "window_heartbeat_headroom_ratio") == {("payments", "1m"): 0.75, ("payments", "5m"): -0.2}
    assert samples(view, "window_poll_gap_max_seconds") == {("payments", "1m"): 60.0, ("payments", "5m"): 240.0}
    assert samples(view, "member_heartbeat_age_seconds") == {}
    on_demand = samples(view, "member_heartbeat_age_seconds", collect_members=True)
    assert on_demand == {("payments", "c", "/10.0.0.1"): 2.5}
    assert samples(view, "member_poll_age_seconds", collect_members=True) == {("payments", "c", "/10.0.0.1"): 60.0}


def test_the_response_time_of_heartbeats_is_in_seconds():
    """It is absent for members whose clients do not report it."""
    name, answered = "member_heartbeat_response_max_seconds", replace(TIMING.members[0], heartbeat_response_ms=1_250.0)
    for members, expected in (TIMING.members, {}), ((answered,), {("payments", "c", "/10.0.0.1"): 1.25}):
        view = make_view(group_row(), diagnosis_row(), timing_row(members=members))
        assert samples(view, name, collect_members=True) == expected


# --- The API ---


def ask(view: View, path: str) -> httpx.Response:
    app = make_app(ExportConfig(kafka={"bootstrap.servers": "unused:9092"}), view, lambda: LOADED, lambda: NOW_MS)

    async def get() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://exporter") as client:
            return await client.get(path)

    return asyncio.run(get())


def listed(view: View, query: str = "") -> list[dict[str, Any]]:
    answer = ask(view, f"/api/v1/findings{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found: list[dict[str, Any]] = answer.json()["findings"]
    return found


def test_findings_are_answered_as_the_contract_writes_them():
    """Including evidence, alternatives, missing sources and advice; decoding one gives the same finding."""
    (found,) = listed(make_view(group_row(), query_row(), finding_row()))
    assert decode(json.dumps(found).encode(), Finding) == OVERRUN
    assert found["advice"] == [
        {
            "parameter": "max.poll.records",
            "current": "500",
            "proposed": "at most 100",
            "formula": "max(1, floor(0.5 x R / r))",
            "avoided": None,
            "text": None,
        }
    ]


@pytest.mark.parametrize(
    ("path", "is_reported"),
    [
        ("/api/v1/findings?group=payments", True),
        ("/api/v1/groups/payments/rebalances/0-20", True),
        ("/api/v1/findings", False),
    ],
)
def test_findings_of_a_group_say_what_their_advice_would_have_avoided(path: str, is_reported: bool):
    """By the kept rebalances; not for requests of all groups, whose history would take too long."""
    advice = Advice("max.poll.interval.ms", "60000", "120000, which is also the longest", "2 x longest")
    found = finding_row(advice=(advice,), rebalance_ids=("0-0", "0-20"))
    view = make_view(group_row(), query_row(), found, *(row for past in overrun() for row in past_rows(past)))
    ((reported,),) = [each["advice"] for each in ask(view, path).json()["findings"]]
    if is_reported:
        assert reported["avoided"]["rebalances"]["high"] == 2
        assert re.fullmatch(r"would have avoided .*2 rebalances.* in the last 24 h", reported["text"])
    else:
        assert (reported["avoided"], reported["text"]) == (None, None)


def past_rows(past: PastRebalance) -> list[Row]:
    """Return the rows of a rebalance and of its impact, an hour earlier."""
    times = {
        name: getattr(past.rebalance, name) - HOUR_MS
        for name in ("started_after_ms", "started_before_ms", "join_ended_at_ms", "completed_at_ms")
    }
    rebalance = replace(past.rebalance, **times)
    key = f"{rebalance.cluster}/{rebalance.group}/{rebalance.rebalance_id}".encode()
    cost = [] if past.impact is None else [Row(IMPACT, key, encode(past.impact))]
    return [Row(REBALANCES, key, encode(rebalance)), *cost]


@pytest.mark.parametrize(
    ("query", "rules"),
    [
        ("", ["newest", "poll_overrun", "member_crash"]),
        ("?rule=member_crash", ["member_crash"]),
        ("?state=firing", ["newest", "poll_overrun"]),
        ("?state=resolved", ["member_crash"]),
        ("?severity=page", ["newest"]),
        ("?group=payments", ["poll_overrun", "member_crash"]),
        ("?group=payments&state=firing", ["poll_overrun"]),
        ("?cluster=dev", ["newest"]),
        ("?cluster=dev&group=payments", []),
        ("?group=", []),
    ],
)
def test_findings_are_chosen_by_what_they_are(query: str, rules: list[str]):
    """Newest first; every filter must match, and an empty group means findings about clusters."""
    view = make_view(
        over(rule="member_crash", started_at_ms=NOW_MS - 900_000),
        finding_row(),
        finding_row(cluster="dev", group="other", rule="newest", severity="page", started_at_ms=NOW_MS),
    )
    assert [each["rule"] for each in listed(view, query)] == rules

import json
import tracemalloc
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.api.test_overview import finding_row
from exporters.contract_rows import (
    NOW_MS,
    PAYMENTS,
    diagnosis_row,
    group_row,
    impact_row,
    lag_row,
    make_view,
    probed_lag_row,
    query_row,
    rebalance_row,
    records_row,
    refused,
    totals_row,
)
from rebalance_contract import (
    CommitGap,
    CountedImpact,
    GroupLag,
    GroupSnapshot,
    GroupTiming,
    GroupWindow,
    QueryStatus,
    Rebalance,
    RebalanceImpact,
    RecordCount,
    TopicLag,
    decode,
    encode,
)
from rebalance_contract.api import Readiness
from rebalance_contract.epochs import RowWriter
from rebalance_exporters.metrics.formats import Style
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.kept import room_beside
from rebalance_exporters.state.view import (
    FINDINGS,
    GROUPS,
    HEARTBEATS,
    IMPACT,
    LAG,
    REBALANCES,
    STATUS,
    TOPICS,
    Row,
    View,
)

KEY = ("prod", "payments")
HOUR_MS = 3_600_000

#: The names of the contract's fields, with values that need not be of their type.
_NAMES = sorted({each.name for kind in (GroupLag, GroupSnapshot, Rebalance, QueryStatus) for each in fields(kind)})
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just("prod")
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
json_values = st.dictionaries(st.sampled_from(_NAMES), _values, max_size=12).map(lambda row: json.dumps(row).encode())


def test_rows_overwrite_by_key() -> None:
    """A repeated or newer row replaces the earlier one and nothing is counted twice."""
    view = make_view(group_row(), group_row(), group_row(generation=8), query_row(), query_row(input_rows=5))
    fleet = view.fleet()
    assert fleet.groups == {KEY: replace(PAYMENTS, generation=8)}
    assert [status.input_rows for status in fleet.queries] == [5]


def test_a_snapshot_does_not_change() -> None:
    """A snapshot shows one moment, whatever arrives later."""
    view = make_view(group_row(), lag_row(10))
    before = view.fleet()
    view.apply([group_row(group="other"), group_row(generation=9), lag_row(20), Row(GROUPS, b"prod/payments", None)])
    assert before.groups == {KEY: PAYMENTS}
    assert before.lags[KEY].last_log_offset == 10


def test_a_snapshot_is_taken_once_for_all_who_ask_until_something_is_read() -> None:
    """Every follower requests it twice a second: nothing is copied while there is no new row."""
    view = make_view(group_row())
    before = view.fleet()
    assert view.fleet() is before
    view.apply([lag_row(10)])
    after = view.fleet()
    assert (before.lags, after.lags[KEY].last_log_offset) == ({}, 10)
    assert view.fleet() is after


def test_a_snapshot_shows_what_expired_and_what_was_refused() -> None:
    """Changes without an accepted row lead to a new snapshot too."""
    view = make_view(group_row(state="Deleted", updated_at_ms=NOW_MS - 2 * HOUR_MS))
    assert KEY in view.fleet().groups
    view.forget_expired(NOW_MS)
    assert not view.fleet().groups
    view.apply([Row(GROUPS, b"prod/payments", b"not json")])
    assert sum(view.fleet().refused.values()) == 1


def test_tombstones_forget() -> None:
    """A null value removes the item of its key, in every topic."""
    view = make_view(group_row(), rebalance_row("1"), query_row(), records_row(), lag_row(5))
    view.apply(
        [
            Row(GROUPS, b"prod/payments", None),
            Row(REBALANCES, b"prod/payments/1", None),
            Row(STATUS, b"prod/query/membership", None),
            Row(STATUS, b"prod/records/membership", None),
            Row(LAG, b"prod/payments", None),
        ]
    )
    fleet = view.fleet()
    assert (fleet.groups, fleet.queries, fleet.records, fleet.lags) == ({}, (), (), {})
    assert view.rebalances(KEY) == []
    assert not any(refused(view).values())


@pytest.mark.parametrize(
    "row",
    [
        Row(GROUPS, b"prod/payments", b"not json"),
        Row(GROUPS, b"prod/payments", b"\xff\xfe"),
        Row(GROUPS, b"prod/payments", b'{"cluster": "prod"}'),
        Row(GROUPS, b"prod/payments", b'{"cluster": "prod", "group": "payments", "generation": "seven"}'),
        Row(GROUPS, b"prod/payments", b'{"cluster": "prod", "group": "another"}'),
        Row(GROUPS, None, b"{}"),
        Row(REBALANCES, b"prod/payments/1", b"{}"),
        Row(REBALANCES, b"prod/payments/2", rebalance_row("1").value),
        Row(LAG, b"prod/payments", b"[]"),
        Row(LAG, b"prod/other", lag_row().value),
        Row(IMPACT, b"prod/payments/1", b'{"kind": "from the future"}'),
        Row(IMPACT, b"prod/payments/2", impact_row("1").value),
        Row(IMPACT, b"prod/payments/2", totals_row(CountedImpact()).value),
        Row(STATUS, b"prod/records", b'{"kind": "from the future"}'),
        Row(STATUS, b"prod/records", query_row().value),
        Row(STATUS, b"prod/query/activity", query_row("membership").value),
        Row(STATUS, b"prod/query/diagnosis", diagnosis_row().value),
    ],
)
def test_a_broken_row_is_counted_and_harmless(row: Row) -> None:
    """Rows that violate the contract are counted by topic, and the rows around them are applied."""
    view = make_view(group_row(), row, group_row(group="after"))
    fleet = view.fleet()
    assert refused(view) == {topic: int(topic == row.topic) for topic in TOPICS}
    assert sorted(fleet.groups) == [("prod", "after"), KEY]


def test_who_only_commits_is_a_group() -> None:
    """A simple group is known by its lag row, from its first commit on, and is removed with it."""
    view = make_view(lag_row(group="simple"))
    group = view.fleet().groups["prod", "simple"]
    assert (group.type, group.state, group.first_seen_ms) == ("simple", "Empty", NOW_MS - HOUR_MS)
    view.apply([Row(LAG, b"prod/simple", None)])
    assert view.fleet().groups == {}


def test_lag_of_nobody_is_no_group() -> None:
    """A lag row without members or commits shows no group."""
    assert make_view(lag_row(None, None, group="nobody")).fleet().groups == {}


def test_lag_is_not_shown_while_the_diagnosis_is_silent() -> None:
    """Values without a live diagnosis are unknown; a status from the far future does not count as live."""
    view = make_view(group_row(), probed_lag_row(7))
    assert view.fleet().live_lag(KEY, NOW_MS) is None, "no diagnosis was ever heard of"
    view.apply([diagnosis_row(updated_at_ms=NOW_MS)])
    shown = [view.fleet().live_lag(KEY, NOW_MS + ms) for ms in (0, 30_000, 30_001, -30_001)]
    assert [None if lag is None else lag.total for lag in shown] == [7, 7, None, None]


def test_lag_is_not_shown_while_nobody_probes() -> None:
    """Commits go on, so that a lag up to the last known ends would fall to 0; windows of commits stay."""
    windows = {"1m": GroupWindow(commits=3, lag_max=9, lag_slope=1.5)}
    row = probed_lag_row(7, windows=windows)
    known = diagnosis_row(updated_at_ms=NOW_MS, read_until_ms=NOW_MS, probed_at_ms=NOW_MS - 120_000)
    view = make_view(group_row(), row, known)
    measured = view.fleet().live_lag(KEY, NOW_MS)
    assert measured is not None
    assert measured.total == 7
    view.apply([diagnosis_row(updated_at_ms=NOW_MS, read_until_ms=NOW_MS, probed_at_ms=NOW_MS - 120_001)])
    unmeasured = view.fleet().live_lag(KEY, NOW_MS)
    assert unmeasured is not None
    assert (unmeasured.total, unmeasured.topics, unmeasured.time_lag_ms(NOW_MS)) == (None, {}, None)
    assert unmeasured.windows == {"1m": GroupWindow(commits=3)}
    assert unmeasured.last_commit_ms == measured.last_commit_ms
    assert view.fleet().live_lag(KEY, NOW_MS + 2) is unmeasured, "rendered once"
    view.apply([diagnosis_row(updated_at_ms=NOW_MS, probed_at_ms=None)])
    assert view.fleet().live_lag(KEY, NOW_MS) is unmeasured
    view.apply([known])
    assert view.fleet().live_lag(KEY, NOW_MS) is measured


def test_lag_stays_while_a_restarted_diagnosis_reads_the_past_again() -> None:
    """It knows no probe at first, and then old ones; that nobody probes now is known when it has read so far."""
    view = make_view(group_row(), probed_lag_row(7))
    for read_ms, probed_ms, total in (
        (NOW_MS - 600_000, None, 7),
        (NOW_MS - 600_000, NOW_MS - 601_000, 7),
        (NOW_MS - 300_000, NOW_MS - 601_000, None),
        (NOW_MS - 1_000, NOW_MS - 2_000, 7),
    ):
        view.apply([diagnosis_row(updated_at_ms=NOW_MS, read_until_ms=read_ms, probed_at_ms=probed_ms)])
        shown = view.fleet().live_lag(KEY, NOW_MS)
        assert shown is not None
        assert shown.total == total


def test_timing_is_not_shown_while_the_diagnosis_is_silent() -> None:
    """The worst of the last minute is not that of a minute that ended long ago; other clusters are not concerned."""
    other = ("test", "payments")
    timings = [
        Row(HEARTBEATS, "/".join(key).encode(), encode(GroupTiming(*key, NOW_MS, {}, ()))) for key in (KEY, other)
    ]
    view = make_view(*timings, diagnosis_row(), diagnosis_row(cluster="test", updated_at_ms=NOW_MS - 31_000))
    assert view.fleet().live_timings(NOW_MS).keys() == {KEY}
    assert view.fleet().live_timings(NOW_MS - 2_000) is view.fleet().timings
    assert view.fleet().live_timing(KEY, NOW_MS) is not None
    assert view.fleet().live_timing(other, NOW_MS) is None


def test_costs_outlive_the_series_of_a_deleted_group() -> None:
    """The stream counts on if the group comes back, and publishes the total with the next cost only."""
    view = make_view(
        group_row(state="Deleted", updated_at_ms=NOW_MS - 2 * HOUR_MS), totals_row(CountedImpact(lost_partition_ms=500))
    )
    view.forget_expired(NOW_MS)
    assert view.fleet().groups == {}
    view.apply([group_row()])
    assert view.fleet().cost(KEY).lost_partition_ms == 500
    view.apply([Row(IMPACT, b"prod/payments", None)])
    assert view.fleet().cost(KEY).lost_partition_ms == 0


def documents(view: View) -> list[dict[str, Any]]:
    """The rebalances of PAYMENTS as shown by the API."""
    return [json.loads(kept.document()) for kept in view.rebalances(KEY)]


def test_a_rebalance_is_shown_with_what_it_cost_in_whatever_order_they_come() -> None:
    """Rebalance and impact are in two topics, read in any order; a newer version of either keeps the other."""
    silence = CommitGap("orders", 0, NOW_MS - 9_000, NOW_MS)
    rebalance, impact = rebalance_row("0-1"), impact_row("0-1", silences=(silence,), lost_partition_ms=8_000)
    for rows in ([rebalance, impact], [impact, rebalance], [impact, rebalance, rebalance_row("0-1", NOW_MS + 5)]):
        (document,) = documents(make_view(*rows))
        assert document["impact"]["lost_partition_ms"] == 8_000
        assert decode(json.dumps(document["impact"]).encode(), RebalanceImpact).silences == (silence,)
        assert document["text"]["without_commits"] == "1 partition, 8 s in all at most"
    (alone,) = documents(make_view(rebalance))
    assert (alone["impact"], alone["rebalance_id"]) == (None, "0-1")
    assert alone["text"]["without_commits"] == "not known yet, the diagnosis has not reported"
    (withdrawn,) = documents(make_view(rebalance, impact, Row(IMPACT, impact.key, None)))
    assert withdrawn["impact"] is None


def test_news_of_a_rebalances_cost_is_news_of_the_rebalance() -> None:
    """Followers get it again, once per change, and only if it is kept."""
    view = make_view(rebalance_row("0-1"))
    version = view.version
    view.apply([impact_row("0-1", lag_peak=5), impact_row("0-1", lag_peak=5), impact_row("9-9", lag_peak=5)])
    changes = view.changes(version)
    assert changes.items is not None
    assert [(item.kind, item.name) for _, item in changes.items] == [("rebalance", "0-1")]
    assert changes.version == version + 1


def test_totals_of_cost_are_the_streams() -> None:
    """A rebalance that is judged again replaces its earlier share, so nothing is counted twice."""
    first = totals_row(CountedImpact(1, 0, 500), a=CountedImpact(2, 1, 1_000))
    again = totals_row(CountedImpact(1, 0, 500), a=CountedImpact(3, 1, 2_000))
    assert make_view(group_row(), first, again, again).fleet().cost(KEY) == CountedImpact(4, 1, 2_500)
    assert make_view(group_row()).fleet().cost(KEY) == CountedImpact()


@pytest.mark.parametrize(
    ("deleted_ago_ms", "state", "kept"),
    [
        (HOUR_MS - 1, "Deleted", True),
        (HOUR_MS, "Deleted", False),
        (50 * HOUR_MS, "Empty", True),
        (50 * HOUR_MS, None, True),
    ],
)
def test_deleted_groups_expire(deleted_ago_ms: int, state: str | None, kept: bool) -> None:
    """Only a deletion ends a group's series, and only after the expiry time."""
    view = make_view(group_row(state=state, updated_at_ms=NOW_MS - deleted_ago_ms))
    view.forget_expired(NOW_MS)
    assert bool(view.fleet().groups) == kept


def test_what_claims_to_be_of_the_future_expires_too() -> None:
    """A future time counts from the first look: invented groups and findings do not stay forever."""
    far_ms = NOW_MS + 1_000 * HOUR_MS
    resolved = finding_row(state="resolved", resolved_at_ms=far_ms, updated_at_ms=far_ms)
    view = make_view(group_row(state="Deleted", updated_at_ms=far_ms), resolved)
    for passed_ms, kept in ((0, True), (HOUR_MS - 1, True), (HOUR_MS, False)):
        view.forget_expired(NOW_MS + passed_ms)
        fleet = view.fleet()
        assert (bool(fleet.groups), KEY in fleet.findings) == (kept, kept)


def test_commits_of_a_known_group_are_remembered() -> None:
    """The last commit of a member that stopped long ago is useful, so it is kept."""
    view = make_view(group_row(), lag_row(5, NOW_MS - 50 * HOUR_MS))
    view.forget_expired(NOW_MS)
    assert view.fleet().lags[KEY].last_commit_ms == NOW_MS - 50 * HOUR_MS


def test_invented_groups_are_bounded() -> None:
    """Above the limit new groups are dropped and counted; known ones are still updated."""
    view = View(group_expiry_seconds=3600, keep_rebalances=3, max_groups=2)
    view.apply([group_row(group=f"g{n}") for n in range(4)])
    view.apply([lag_row(group=f"l{n}") for n in range(3)])
    view.apply([group_row(group="g0", generation=9)])
    fleet = view.fleet()
    assert len(fleet.groups) == 4
    assert fleet.groups["prod", "g0"].generation == 9
    assert (fleet.refused[GROUPS, "limit"], fleet.refused[LAG, "limit"]) == (2, 1)


def test_counters_do_not_fall_by_a_stream_that_was_superseded() -> None:
    """Its rows about a group are rejected and counted; rows of older versions have no writer."""
    loser, owner = (RowWriter("prod", "membership", epoch) for epoch in (1, 2))
    view = make_view(
        group_row(generation=5)._replace(writer=loser, at_ms=NOW_MS),
        group_row(generation=6)._replace(writer=owner, at_ms=NOW_MS),
        group_row(generation=5)._replace(writer=loser, at_ms=NOW_MS),
    )
    assert view.fleet().groups[KEY].generation == 6
    assert view.fleet().refused[GROUPS, "superseded"] == 1
    view.apply([group_row(generation=7)])
    assert view.fleet().groups[KEY].generation == 7


def test_impacts_that_wait_are_bounded() -> None:
    """Those without a kept rebalance are dropped in their order of arrival."""
    view = make_view(*(impact_row(f"0-{n}", lag_peak=n) for n in range(40)))
    view.apply([rebalance_row("0-9"), rebalance_row("0-10", NOW_MS + 1)])
    assert [each["impact"] and each["impact"]["lag_peak"] for each in documents(view)] == [10, None]


def test_few_rebalances_leave_room_for_ten_times_as_much_beside_them_and_many_for_little_more() -> None:
    """Impacts that never find their rebalance, of weeks ago for example, must not outnumber the kept ones."""
    assert [room_beside(kept) for kept in (0, 3, 2_000, 20_000)] == [0, 30, 20_000, 40_000]


def test_the_latest_rebalances_are_kept() -> None:
    """At most the limit is kept, and a group's are listed newest first."""
    rows = [rebalance_row(str(n), NOW_MS + n) for n in range(5)]
    kept = make_view(*rows, rows[-1]).rebalances(KEY)
    assert [rebalance.rebalance_id for rebalance in kept] == ["4", "3", "2"]


def test_totals_of_the_stream_are_taken_as_they_are() -> None:
    """Decode totals are cumulative: the last row has everything."""
    first = RecordCount("membership", 2, 3, "decoded", 10)
    (totals,) = make_view(records_row(first), records_row(replace(first, count=11))).fleet().records
    assert [record.count for record in totals.records] == [11]


def test_the_latest_begun_are_kept_in_whatever_order_they_come() -> None:
    """Two exporters that read rebalances in different orders keep the same ones."""
    rows = [rebalance_row(str(n), NOW_MS + n) for n in (4, 0, 3, 1, 2)]
    kept = make_view(*rows, Row(REBALANCES, b"prod/payments/3", None)).rebalances(KEY)
    assert [rebalance.rebalance_id for rebalance in kept] == ["4", "2"]


def test_totals_of_withdrawn_findings_go_with_their_group() -> None:
    """Memory is bounded: nothing is kept of a forgotten group without findings."""
    view = make_view(group_row(), finding_row())
    assert view.fleet().findings[KEY].fired == {("crash_loop", "ticket"): 1}
    view.apply([Row(FINDINGS, b"prod/payments/crash_loop/", None), Row(GROUPS, b"prod/payments", None)])
    view.forget_expired(NOW_MS)
    assert view.fleet().findings == {}


def test_a_finding_fires_once_until_it_fires_again() -> None:
    """A rewritten finding is the same one; one that resolved and reopened counts again."""
    rows = [finding_row(), finding_row(confidence=0.5), finding_row(state="resolved", resolved_at_ms=NOW_MS)]
    view = make_view(*rows, finding_row(), finding_row("another"))
    assert view.fleet().findings[KEY].fired == {("crash_loop", "ticket"): 3}


def group_text(**fields: object) -> bytes:
    """A group's row with fields of any type."""
    return json.dumps({"cluster": "prod", "group": "payments", **fields}).encode()


def lag_text(**topic: object) -> bytes:
    """A lag row with a topic of any type."""
    return json.dumps({"cluster": "prod", "group": "payments", "at_ms": NOW_MS, "topics": {"t": topic}}).encode()


ABSURD = [
    (
        "JSON as deep as a well",
        GROUPS,
        group_text()[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "contract",
    ),
    ("a list as deep", GROUPS, b"[" * 100_000, "contract"),
    ("an offset of 2**70", GROUPS, group_text(log_offset=2**70), "number"),
    ("a generation of 4,000 digits", GROUPS, group_text()[:-1] + b',"generation":' + b"9" * 4_000 + b"}", "number"),
    ("a generation of 9,000 digits", GROUPS, group_text()[:-1] + b',"generation":' + b"9" * 9_000 + b"}", "contract"),
    ("a time that no calendar has", GROUPS, group_text(updated_at_ms=2**62), "time"),
    ("a name of 1 MB", GROUPS, group_text(protocol="x" * 1_100_000), "size"),
    ("half a surrogate", GROUPS, group_text()[:-1] + b',"protocol":"\\ud800"}', "contract"),
    ("no text", GROUPS, group_text()[:-1] + b',"unknown":"\xff"}', "text"),
    ("a lag of 2**70", LAG, lag_text(partitions=[0], committed=[2**70], lags=[1], total=1), "number"),
    ("lists that do not fit together", LAG, lag_text(partitions=[0, 1], committed=[1], lags=[1], total=1), "contract"),
    ("a partition that is no number", LAG, lag_text(partitions=["abc"], committed=[1], lags=[1], total=1), "contract"),
    ("a status of another kind", STATUS, b'{"kind":"log","cluster":"prod"}', "contract"),
    ("an impact of another kind", IMPACT, b'{"kind":"x"}', "contract"),
]


@pytest.mark.parametrize(("topic", "value", "reason"), [row[1:] for row in ABSURD], ids=[row[0] for row in ABSURD])
def test_no_row_stops_the_reader(topic: str, value: bytes, reason: str) -> None:
    """Any row is counted by its reason, and the rows read before and after are shown."""
    key = b"prod/log" if topic == STATUS else b"prod/payments"
    view = make_view(group_row(group="before"), Row(topic, key, value), group_row(group="after"))
    fleet = view.fleet()
    assert {name: count for name, count in fleet.refused.items() if count} == {(topic, reason): 1}
    assert sorted(fleet.groups) == [("prod", "after"), ("prod", "before")]
    view.forget_expired(NOW_MS)


def test_absurd_but_possible_numbers_cost_nothing() -> None:
    """Partition numbers are only names here: 2**31 - 1 and negative ones need no more memory and break nothing."""
    numbers = [2**31 - 1, -5, 2**63 - 1]
    topics = {"t": TopicLag(numbers, [2**63 - 1, -1, 0], [None, -7, 2**63], -1)}
    members = (replace(PAYMENTS.members[0], partitions={"t": numbers}),)
    tracemalloc.start()
    view = make_view(group_row(members=members), lag_row(topics=topics), diagnosis_row())
    text = Exposition(limit_groups=9, version="1", collect_partitions=True).render(
        view.fleet(), ReadProgress(loaded=True), Readiness(True, "ready"), NOW_MS, Style.TEXT
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not any(refused(view).values())
    assert b'partition="-5"} -7\n' in text
    assert peak < 5_000_000


def test_a_defect_of_the_exporter_is_counted_and_not_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception also ends as a rejected row."""
    view = make_view()
    monkeypatch.setattr(view, "_show", lambda _: 1 / 0)
    view.apply([group_row(), query_row()])
    fleet = view.fleet()
    assert fleet.refused[GROUPS, "failed"] == 1
    assert len(fleet.queries) == 1


@pytest.mark.generated
@given(
    st.sampled_from(TOPICS), st.binary(max_size=60) | st.just(b"prod/payments"), st.binary(max_size=200) | json_values
)
def test_anything_at_all_can_be_read(topic: str, key: bytes, value: bytes) -> None:
    """Bytes and JSON of any form are applied or counted, and the snapshot can be shown."""
    view = make_view(Row(topic, key, value), group_row(), diagnosis_row(), lag_row())
    view.forget_expired(NOW_MS)
    assert KEY in view.fleet().groups


def test_truncated_rows_are_counted() -> None:
    """A row that was truncated to fit is applied and counted; omitted members still count."""
    cut = TopicLag([0], [5], [1], 900, is_truncated=True)
    view = make_view(
        group_row(is_truncated=True, member_count=10_000),
        lag_row(topics={"orders": cut}),
        finding_row(is_truncated=True),
        Row(HEARTBEATS, b"prod/payments", encode(GroupTiming("prod", "payments", NOW_MS, {}, (), is_truncated=True))),
    )
    assert view.fleet().truncated == {GROUPS: 1, REBALANCES: 0, LAG: 1, IMPACT: 0, FINDINGS: 1, HEARTBEATS: 1}


def test_lag_that_is_published_again_is_no_news() -> None:
    """Rows of quiet groups come every minute: nothing is rendered again, and nothing is sent to followers."""
    view = make_view(group_row(), lag_row())
    before, version = view.fleet().lags[KEY], view.version
    view.apply([lag_row(at_ms=NOW_MS + 60_000)])
    assert view.fleet().lags[KEY] is before
    assert view.version == version
    view.apply([lag_row(at_ms=NOW_MS + 120_000, commits=11)])
    assert view.fleet().lags[KEY].commits == 11
    assert view.version == version + 1


def test_text_that_is_held_is_bounded() -> None:
    """Large rows use no more memory than small ones; removed rows of any kind make room."""
    large = {"protocol": "x" * 10_000}
    view = View(group_expiry_seconds=3600, keep_rebalances=3, max_bytes=30_000)
    view.apply([group_row(group=f"g{n}", **large) for n in range(5)])
    assert (len(view.fleet().groups), view.fleet().refused[GROUPS, "limit"]) == (2, 3)
    view.apply([group_row(group="g0"), Row(GROUPS, b"prod/g1", None)])
    view.apply([finding_row(str(n), summary="x" * 10_000) for n in range(9)])
    assert len(view.fleet().findings[KEY].findings) == 2
    view.apply([Row(FINDINGS, f"prod/payments/crash_loop/{n}".encode(), None) for n in range(9)])
    view.apply([lag_row(group=f"g{n}", topics={"x" * 10_000: TopicLag([], [], [], 0)}) for n in range(9)])
    assert len(view.fleet().lags) == 2
    view.apply([Row(LAG, f"prod/g{n}".encode(), None) for n in range(9)])
    view.apply([group_row(group="after", **large), group_row(group="last", **large)])
    assert {("prod", "after"), ("prod", "last")} <= view.fleet().groups.keys()


def test_a_refused_finding_leaves_the_room_of_the_one_that_is_kept() -> None:
    """Its key is that of another group's finding, as the names of groups and findings may contain slashes."""
    view = View(group_expiry_seconds=3600, keep_rebalances=3, max_bytes=30_000)
    kept = finding_row("b/crash_loop/1", group="a", summary="x" * 20_000)
    other = finding_row("1", group="a/crash_loop/b", summary="small")
    assert kept.key == other.key
    view.apply([kept, other, finding_row("2", summary="x" * 20_000)])
    assert view.fleet().findings.keys() == {("prod", "a")}
    assert (view.fleet().refused[FINDINGS, "key"], view.fleet().refused[FINDINGS, "limit"]) == (1, 1)

import gzip
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from exporters.contract_rows import (
    NOW_MS,
    PAYMENTS,
    WINDOWS,
    diagnosis_row,
    group_row,
    lag_row,
    log_row,
    make_view,
    probed_lag_row,
    quarantine_row,
    query_row,
    rebalance_row,
    records_row,
    totals_row,
)
from prometheus.rig import run_tool
from rebalance_contract import (
    CountedImpact,
    Counters,
    GroupTiming,
    Member,
    MemberTiming,
    QuarantineCount,
    RebalanceReason,
    RecordCount,
    Settlement,
    TopicLag,
    WatchedTopic,
    encode,
)
from rebalance_contract.api import Readiness
from rebalance_exporters import render
from rebalance_exporters.finding_metrics import FINDING_METRICS, SILENCE_METRICS
from rebalance_exporters.formats import Style, accepts_gzip, choose_style, compress
from rebalance_exporters.group_metrics import GROUP_METRICS, STATE_SECONDS, GroupFacts
from rebalance_exporters.health import ReadProgress
from rebalance_exporters.lag_metrics import COMMIT_AGE, LAG_METRICS, TIME_LAG, WINDOW_METRICS
from rebalance_exporters.monitor_metrics import MONITOR_METRICS, RECORD_TYPES
from rebalance_exporters.render import Exposition
from rebalance_exporters.series import Metric
from rebalance_exporters.timing_metrics import TIMING_METRICS
from rebalance_exporters.view import HEARTBEATS, GroupKey, Row, View

READY = Readiness(True, "ready")
LOADED = ReadProgress(loaded=True)
OPENMETRICS, TEXT = Style.OPENMETRICS, Style.TEXT
ALL_METRICS: tuple[Metric[Any], ...] = (
    *GROUP_METRICS,
    *WINDOW_METRICS,
    *LAG_METRICS,
    *FINDING_METRICS,
    *SILENCE_METRICS,
    *TIMING_METRICS,
    STATE_SECONDS,
    COMMIT_AGE,
    TIME_LAG,
    *MONITOR_METRICS,
)

PAYMENTS_GOLDEN = """\
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="first_join"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="join"} 4
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="departure"} 2
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="replacement"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="swap"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="group_emptied"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="subscription_change"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="topic_metadata_change"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="cooperative_followup"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="rack_change"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="streams_internal"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="connect_internal"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="leader_rejoin"} 0
kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="other"} 0
kafka_rebalance_generations_total{cluster="prod",group="payments",outcome="completed"} 6
kafka_rebalance_generations_total{cluster="prod",group="payments",outcome="aborted"} 1
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="0.1"} 0
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="0.5"} 2
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="1.0"} 2
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="2.5"} 5
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="5.0"} 5
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="10.0"} 5
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="30.0"} 5
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="60.0"} 6
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="300.0"} 6
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="900.0"} 6
kafka_rebalance_duration_seconds_bucket{cluster="prod",group="payments",le="+Inf"} 6
kafka_rebalance_duration_seconds_sum{cluster="prod",group="payments"} 45.25
kafka_rebalance_duration_seconds_count{cluster="prod",group="payments"} 6
kafka_rebalance_lost_partition_seconds_total{cluster="prod",group="payments"} 12.5
kafka_rebalance_moved_partitions_total{cluster="prod",group="payments"} 9
kafka_rebalance_member_changes_total{cluster="prod",group="payments",change="joined"} 5
kafka_rebalance_member_changes_total{cluster="prod",group="payments",change="left"} 4
kafka_rebalance_member_changes_total{cluster="prod",group="payments",change="expired"} 2
kafka_rebalance_member_changes_total{cluster="prod",group="payments",change="poll_timeout"} 1
kafka_rebalance_member_changes_total{cluster="prod",group="payments",change="replaced"} 3
kafka_rebalance_last_rebalance_timestamp_seconds{cluster="prod",group="payments"} 1789999909.5
kafka_rebalance_group_info{cluster="prod",group="payments",protocol_type="consumer",protocol="range",\
assignor="range",coordinator="",owner="",counted_from="log"} 1
kafka_rebalance_group_generation{cluster="prod",group="payments"} 7
kafka_rebalance_group_members{cluster="prod",group="payments"} 3
kafka_rebalance_group_state_code{cluster="prod",group="payments"} 6
kafka_rebalance_group_assigned_partitions{cluster="prod",group="payments"} 4
kafka_rebalance_group_idle_members{cluster="prod",group="payments"} 1
kafka_rebalance_group_static_members{cluster="prod",group="payments"} 0
kafka_rebalance_group_member_partitions_max{cluster="prod",group="payments"} 3
kafka_rebalance_window_generation_changes{cluster="prod",group="payments",window="1m"} 1
kafka_rebalance_window_generation_changes{cluster="prod",group="payments",window="5m"} 4
kafka_rebalance_window_generation_changes{cluster="prod",group="payments",window="15m"} 4
kafka_rebalance_window_rebalances{cluster="prod",group="payments",window="1m"} 1
kafka_rebalance_window_rebalances{cluster="prod",group="payments",window="5m"} 2
kafka_rebalance_window_rebalances{cluster="prod",group="payments",window="15m"} 2
kafka_rebalance_window_rebalancing_ratio{cluster="prod",group="payments",window="1m"} 0.05
kafka_rebalance_window_rebalancing_ratio{cluster="prod",group="payments",window="5m"} 0.03
kafka_rebalance_window_rebalancing_ratio{cluster="prod",group="payments",window="15m"} 0.01
kafka_rebalance_group_lag{cluster="prod",group="payments"} 1000
kafka_rebalance_topic_lag{cluster="prod",group="payments",topic="orders"} 1000
kafka_rebalance_topic_committed_offset{cluster="prod",group="payments",topic="orders"} 5
kafka_rebalance_window_commits{cluster="prod",group="payments",window="1m"} 4
kafka_rebalance_window_commits{cluster="prod",group="payments",window="5m"} 10
kafka_rebalance_window_commits{cluster="prod",group="payments",window="15m"} 10
kafka_rebalance_window_lag_max{cluster="prod",group="payments",window="1m"} 1000
kafka_rebalance_window_lag_max{cluster="prod",group="payments",window="5m"} 1000
kafka_rebalance_window_lag_max{cluster="prod",group="payments",window="15m"} 1000
kafka_rebalance_window_lag_slope{cluster="prod",group="payments",window="1m"} 2.5
kafka_rebalance_window_lag_slope{cluster="prod",group="payments",window="5m"} -0.5
kafka_rebalance_state_seconds_total{cluster="prod",group="payments",state="CompletingRebalance"} 0.0
kafka_rebalance_state_seconds_total{cluster="prod",group="payments",state="Empty"} 0.0
kafka_rebalance_state_seconds_total{cluster="prod",group="payments",state="PreparingRebalance"} 0.0
kafka_rebalance_state_seconds_total{cluster="prod",group="payments",state="Stable"} 90.0
kafka_rebalance_group_commit_age_seconds{cluster="prod",group="payments"} 12.5
kafka_rebalance_group_time_lag_seconds{cluster="prod",group="payments"} 30.0
"""

#: Series of a group without a lag row: no window, no lag, no age of commits.
SERIES = PAYMENTS_GOLDEN.count("\n") - 3 * len(WINDOW_METRICS) - 3 - 8 - 2

HOSTILE_NAMES = [
    'quotes " and more ""',
    "new\nline",
    "carriage\rreturn and\ttab",
    "back\\slash, ends in \\",
    '\\n is not a newline \\"',
    "{braces}, commas = equals",
    "grüße-группа-群组-🚀",
    "# HELP not_a_metric",
    " spaces around ",
    "g" * 249,
]


def expose(
    view: View, style: Style = TEXT, *, exposition: Exposition | None = None, now_ms: int = NOW_MS, limit: int = 100
) -> str:
    """The body of /metrics for a view."""
    exposition = exposition or Exposition(limit_groups=limit, version="1.2.3")
    return exposition.render(view.picture(), LOADED, READY, now_ms, style).decode()


def parse(text: str, style: Style = TEXT) -> list[Family]:
    """The families as prometheus-client's parser reads them."""
    return list(parse_openmetrics(text) if style is OPENMETRICS else parse_text(text))


def samples_of(families: Iterable[Family]) -> list[Sample]:
    """All samples in their order."""
    return [sample for family in families for sample in family.samples]


def value_of(text: str, name: str, **labels: str) -> float | None:
    """The value of the one series of that name with these labels; null when there is none."""
    found = [s.value for s in samples_of(parse(text)) if s.name == name and labels.items() <= s.labels.items()]
    assert len(found) < 2, found
    return found[0] if found else None


def test_a_group_is_written_as_recorded() -> None:
    """Every series of a group, byte by byte: names, labels and their order, values in base units."""
    cost = totals_row(CountedImpact(2, 1, 12_500))
    text = expose(make_view(group_row(), diagnosis_row(), probed_lag_row(last_commit_ms=NOW_MS - 12_500), cost))
    written = [line for line in text.splitlines(keepends=True) if 'group="payments"' in line]
    assert "".join(written) == PAYMENTS_GOLDEN


@pytest.mark.parametrize("style", Style)
def test_official_parsers_read_both_formats_alike(style: Style) -> None:
    """prometheus-client's parsers find the same samples in the text format and in OpenMetrics."""
    view = make_view(group_row(), lag_row(5), diagnosis_row(), records_row(RecordCount("membership", 2, 3, "ok", 7)))
    samples = samples_of(parse(expose(view, style), style))
    reference = samples_of(parse(expose(view)))
    assert [(s.name, s.labels, s.value) for s in samples] == [(s.name, s.labels, s.value) for s in reference]


@pytest.mark.parametrize("style", Style)
def test_each_family_is_declared_once_and_in_one_piece(style: Style) -> None:
    """The format wants a family's samples together behind one HELP and one TYPE, those of the table."""
    view = make_view(group_row(), group_row(group="b"), lag_row(5), lag_row(5, group="b"), query_row())
    families = parse(expose(view, style), style)
    assert [f.name for f in families] == [m.family_name for m in ALL_METRICS]
    assert [(f.type, f.documentation) for f in families] == [(m.type, m.help) for m in ALL_METRICS]
    assert {s.labels["group"] for f in families[:11] for s in f.samples} == {"payments", "b"}


def test_openmetrics_names_counters_without_their_ending_and_says_where_it_ends() -> None:
    """In OpenMetrics the family of a counter lacks _total, and the body ends in EOF once."""
    text = expose(make_view(group_row()), OPENMETRICS)
    assert "# TYPE kafka_rebalance_rebalances counter\n" in text
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_survive(name: str, style: Style) -> None:
    """Whatever a client calls its group comes back from the parser as it was, and breaks no other series."""
    view = make_view(group_row(group=name, protocol=name), lag_row(5, group=name), group_row())
    families = parse(expose(view, style), style)
    samples = samples_of(families)
    assert {s.labels["group"] for s in samples if "group" in s.labels} == {name, "payments"}
    assert {s.labels["protocol"] for s in samples if "protocol" in s.labels} == {name, "range"}
    assert len(families) == len(ALL_METRICS)


def test_every_reason_exists_at_zero() -> None:
    """A group's counters exist before anything happened, because rate() does not see a counter born at 1."""
    text = expose(make_view(group_row(counters=Counters(rebalances={}))))
    for reason in RebalanceReason:
        assert value_of(text, "kafka_rebalance_rebalances_total", reason=reason) == 0
    assert value_of(text, "kafka_rebalance_generations_total", outcome="aborted") == 0
    assert value_of(text, "kafka_rebalance_member_changes_total", change="replaced") == 0


def test_reasons_of_a_newer_stream_are_shown() -> None:
    """A reason this version does not know is exported under its name instead of vanishing."""
    text = expose(make_view(group_row(counters=Counters(rebalances={"solar_flare": 2}))))
    assert value_of(text, "kafka_rebalance_rebalances_total", reason="solar_flare") == 2


def test_the_unknown_is_absent_and_not_zero() -> None:
    """Null means that it cannot be known: such a series is left out while the counters stay."""
    nothing = dict.fromkeys(("type", "state", "protocol_type", "protocol", "generation", "last_rebalance_ms"))
    text = expose(make_view(group_row(**nothing, members=())))
    names = {s.name.removeprefix("kafka_rebalance_") for s in samples_of(parse(text)) if "group" in s.labels}
    counted = {
        "rebalances_total",
        "generations_total",
        "member_changes_total",
        "moved_partitions_total",
        "lost_partition_seconds_total",
    }
    timed = {f"duration_seconds_{part}" for part in ("bucket", "sum", "count")}
    assert names == {*counted, *timed, "group_info"}


def test_lag_is_shown_as_the_diagnosis_tells_it() -> None:
    """Per group and topic, per partition when asked for; gone with the group; absent where no end is known."""
    view = make_view(group_row(), diagnosis_row(), probed_lag_row(1_000_002))
    text = expose(view, exposition=Exposition(limit_groups=9, version="1", collect_partitions=True))
    assert value_of(text, "kafka_rebalance_group_lag") == 1_000_002
    assert value_of(text, "kafka_rebalance_topic_lag", topic="orders") == 1_000_002
    lags = [value_of(text, "kafka_rebalance_partition_lag", partition=str(p)) for p in (0, 1)]
    assert lags == [1_000_002, None], "the second partition's end is not known"
    committed = "kafka_rebalance_topic_committed_offset"
    assert value_of(text, committed, topic="orders") == 5, "nor is it counted in what was committed"
    cut = TopicLag([0], [5], [7], 1_000_002, is_truncated=True)
    shown = expose(make_view(group_row(), diagnosis_row(), probed_lag_row(topics={"orders": cut})))
    assert value_of(shown, committed, topic="orders") is None, "some of its partitions are not in the row"
    view.apply([group_row(state="Deleted")])
    assert "_lag{" not in expose(view)
    unprobed = expose(make_view(group_row(), diagnosis_row(), lag_row()))
    assert value_of(unprobed, "kafka_rebalance_topic_committed_offset", topic="orders") is None
    assert value_of(unprobed, "kafka_rebalance_group_lag") is None
    assert value_of(unprobed, "kafka_rebalance_group_time_lag_seconds") is None
    assert value_of(unprobed, "kafka_rebalance_group_commit_age_seconds") == 0


def test_what_is_unread_grows_older_without_news() -> None:
    """The time lag is that of the moment of the scrape; without lag it is 0."""
    view, exposition = (
        make_view(group_row(), diagnosis_row(), probed_lag_row()),
        Exposition(limit_groups=9, version="1"),
    )
    name = "kafka_rebalance_group_time_lag_seconds"
    ages = [value_of(expose(view, exposition=exposition, now_ms=NOW_MS + ms), name) for ms in (0, 1_500, 20_000)]
    assert ages == [30, 31.5, 50]
    view.apply([probed_lag_row(0, oldest_unread_ms=None)])
    assert value_of(expose(view, exposition=exposition), name) == 0


def test_nothing_pretends_while_the_diagnosis_is_silent() -> None:
    """Its windows, lag and ages end with its last word; counters stay, and all is back with the next one."""
    view, exposition = (
        make_view(group_row(), diagnosis_row(), probed_lag_row()),
        Exposition(limit_groups=9, version="1"),
    )

    def names(now_ms: int) -> set[str]:
        text = expose(view, exposition=exposition, now_ms=now_ms)
        return {sample.name for sample in samples_of(parse(text)) if "group" in sample.labels}

    there, gone = names(NOW_MS), names(NOW_MS + 60_000)
    told = {metric.full_name for metric in (*WINDOW_METRICS, *LAG_METRICS, COMMIT_AGE, TIME_LAG)}
    assert there - gone == told
    view.apply([diagnosis_row(updated_at_ms=NOW_MS + 60_000)])
    assert names(NOW_MS + 60_000) == there


def test_the_latest_rebalance_counts_when_the_log_was_read_past_it() -> None:
    """Its duration and moves are added once nothing more can belong to it, without a new row, and never taken back."""
    due = Settlement(NOW_MS, duration_ms=400, partitions_moved=4)
    view, exposition = make_view(group_row(settlement=due)), Exposition(limit_groups=9, version="1")

    def told(read_until_ms: int) -> tuple[float | None, ...]:
        view.apply([query_row(read_until_ms=read_until_ms)])
        text = expose(view, exposition=exposition, now_ms=NOW_MS + 60_000)
        names = ("moved_partitions_total", "duration_seconds_count", "duration_seconds_sum")
        return tuple(value_of(text, f"kafka_rebalance_{name}") for name in names)

    assert told(NOW_MS - 1) == (9, 6, 45.25)
    assert told(NOW_MS) == (13, 7, 45.65)
    assert told(0) == (13, 7, 45.65), "a query that was started again does not know yet how far it is"
    view.apply([group_row(settlement=due, coordinator=3)])
    assert told(0) == (13, 7, 45.65)


def test_commits_of_a_simple_group_do_not_write_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each commit its time changes, which no series shows."""
    view, exposition = make_view(diagnosis_row(), lag_row(5, group="s")), Exposition(limit_groups=9, version="1")
    assert value_of(expose(view, exposition=exposition), "kafka_rebalance_group_state_code", group="s") == 1
    view.apply([lag_row(6, NOW_MS + 5, group="s")])
    monkeypatch.setattr(render, "render_group", None)
    assert value_of(expose(view, exposition=exposition), "kafka_rebalance_group_state_code", group="s") == 1


def test_invented_reasons_get_no_series_each() -> None:
    """A row may claim thousands of reasons: some are shown as they are, the rest counts as one."""
    invented = {f"r{n:04}": 1 for n in range(1_000)}
    text = expose(make_view(group_row(counters=Counters(rebalances=invented | {"other": 5}))))
    told = {s.labels["reason"]: s.value for s in samples_of(parse(text)) if s.name.endswith("rebalances_total")}
    assert len(told) == len(RebalanceReason) + 16
    assert (told["r0000"], told["other"], sum(told.values())) == (1, 5 + 984, 1_005)


def test_only_windows_with_known_names_are_shown() -> None:
    """Names come with the row: whoever invents some gets no series."""
    view = make_view(group_row(), diagnosis_row(), lag_row(windows={"1m": WINDOWS["1m"], "99y": WINDOWS["5m"]}))
    windows = {s.labels["window"] for s in samples_of(parse(expose(view))) if "window" in s.labels}
    assert windows == {"1m"}


@pytest.mark.parametrize(
    ("members", "assigned", "idle"),
    [
        ((), 0, 0),
        ((Member("a", "a", "h", partitions={"t": [1, 2], "u": []}), Member("b", "b", "h", partitions={"t": []})), 2, 1),
        ((Member("a", "a", "h", partitions={"t": [1]}), Member("b", "b", "h", partitions=None)), None, None),
    ],
)
def test_assignments_are_counted_or_unknown(
    members: tuple[Member, ...], assigned: int | None, idle: int | None
) -> None:
    """One assignment that cannot be read makes the sums unknown; members without any partition are idle."""
    text = expose(make_view(group_row(members=members)))
    assert value_of(text, "kafka_rebalance_group_assigned_partitions") == assigned
    assert value_of(text, "kafka_rebalance_group_idle_members") == idle


@pytest.mark.parametrize(("truncated", "static"), [(False, 1), (True, None)])
def test_static_members_are_counted_or_unknown(truncated: bool, static: int | None) -> None:
    """Those with a name of their own; of a row that was cut nobody knows how many there are."""
    members = (Member("a", "a", "h", group_instance_id="a-1"), Member("b", "b", "h"))
    text = expose(make_view(group_row(members=members, is_truncated=truncated)))
    assert value_of(text, "kafka_rebalance_group_static_members") == static


def test_only_consumers_have_an_assignor() -> None:
    """Connect puts the name of a format where consumers put their assignor's."""
    text = expose(make_view(group_row(protocol_type="connect", protocol="sessioned")))
    assert value_of(text, "kafka_rebalance_group_info", protocol="sessioned", assignor="") == 1


def test_commit_age_grows_without_news() -> None:
    """The age is that of the moment of the scrape, and a clock that is behind never makes it negative."""
    view, exposition = (
        make_view(group_row(), diagnosis_row(), lag_row(5, NOW_MS)),
        Exposition(limit_groups=9, version="1"),
    )
    ages = [
        value_of(
            expose(view, exposition=exposition, now_ms=NOW_MS + wait_ms), "kafka_rebalance_group_commit_age_seconds"
        )
        for wait_ms in (-5_000, 0, 1_500, 20_000)
    ]
    assert ages == [0, 0, 1.5, 20]


def test_a_changed_group_is_rendered_again_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a scrape follows the groups that changed, not all there are."""
    rendered: list[GroupKey] = []
    original = render.render_group

    def note_and_render(key: GroupKey, group: GroupFacts) -> render.GroupBlock:
        rendered.append(key)
        return original(key, group)

    monkeypatch.setattr(render, "render_group", note_and_render)
    view, exposition = make_view(group_row(), group_row(group="b")), Exposition(limit_groups=9, version="1")
    expose(view, exposition=exposition)
    rendered.clear()
    expose(view, OPENMETRICS, exposition=exposition)
    assert rendered == []
    view.apply([group_row(generation=8), group_row(group="b")])
    text = expose(view, exposition=exposition)
    assert rendered == [("prod", "payments")]
    assert value_of(text, "kafka_rebalance_group_generation", group="payments") == 8


def test_a_deleted_groups_series_end() -> None:
    """A deleted group stays at its last counters for a while, without an age of commits, and then is gone."""
    view, exposition = make_view(group_row(), diagnosis_row(), lag_row(5)), Exposition(limit_groups=9, version="1")
    expose(view, exposition=exposition)
    view.apply([group_row(state="Deleted", members=(), updated_at_ms=NOW_MS)])
    text = expose(view, exposition=exposition)
    assert value_of(text, "kafka_rebalance_group_state_code", group="payments") == 0
    assert value_of(text, "kafka_rebalance_generations_total", outcome="completed") == 6
    assert "group_commit_age_seconds{" not in text
    view.forget_expired(NOW_MS + 3_600_000)
    assert 'group="payments"' not in expose(view, exposition=exposition)


def test_no_limit_is_silent() -> None:
    """Beyond the limit the groups known longest keep their series, and what was left out is counted once."""
    rows = [group_row(group=f"g{age}", first_seen_ms=NOW_MS - age) for age in range(5)]
    view, exposition = make_view(*rows), Exposition(limit_groups=3, version="1")
    texts = [expose(view, exposition=exposition) for _ in range(2)]
    for text in texts:
        assert {s.labels["group"] for s in samples_of(parse(text)) if "group" in s.labels} == {"g2", "g3", "g4"}
        assert value_of(text, "kafka_rebalance_monitor_groups", outcome="exported") == 3
        assert value_of(text, "kafka_rebalance_monitor_groups", outcome="dropped") == 2
        assert value_of(text, "kafka_rebalance_monitor_dropped_series_total", limit="groups") == 2 * SERIES
        assert value_of(text, "kafka_rebalance_monitor_series") == 3 * SERIES


def test_records_are_counted_under_readable_names() -> None:
    """Types carry Kafka's names, unknown ones their number; key versions of one type are one series."""
    counts = [
        RecordCount("membership", 2, 3, "decoded", 10),
        RecordCount("commits", 0, 1, "decoded", 4),
        RecordCount("commits", 1, 1, "decoded", 5),
        RecordCount("membership", 99, None, "unsupported", 6),
        RecordCount("membership", None, None, "corrupt", 7),
    ]
    text = expose(make_view(records_row(*counts)))
    values = {
        (s.labels["query"], s.labels["type"], s.labels["version"], s.labels["outcome"]): s.value
        for s in samples_of(parse(text))
        if s.name == "kafka_rebalance_monitor_records_total"
    }
    assert values == {
        ("membership", "group_metadata", "3", "decoded"): 10,
        ("commits", "offset_commit", "1", "decoded"): 9,
        ("membership", "99", "none", "unsupported"): 6,
        ("membership", "none", "none", "corrupt"): 7,
    }


def test_a_querys_status_becomes_series() -> None:
    """What the stream says of a query is exported in base units; what it cannot say is left out."""
    status = query_row(
        source_lag_records=12, event_delay_ms=250, batch_ms=1500, state_rows=3, updated_at_ms=NOW_MS - 4000
    )
    text = expose(make_view(status))
    labels = {"cluster": "prod", "query": "membership"}
    values = {s.name: s.value for s in samples_of(parse(text)) if s.labels == labels}
    assert values == {
        "kafka_rebalance_monitor_caught_up": 1,
        "kafka_rebalance_monitor_restarts_total": 0,
        "kafka_rebalance_monitor_failed": 0,
        "kafka_rebalance_monitor_stalled": 0,
        "kafka_rebalance_monitor_read_ratio": 1,
        "kafka_rebalance_monitor_source_lag_records": 12,
        "kafka_rebalance_monitor_event_delay_seconds": 0.25,
        "kafka_rebalance_monitor_batch_seconds": 1.5,
        "kafka_rebalance_monitor_batch_rows": 0,
        "kafka_rebalance_monitor_trigger_seconds": 0.5,
        "kafka_rebalance_monitor_last_batch_timestamp_seconds": (NOW_MS - 1000) / 1000,
        "kafka_rebalance_monitor_status_age_seconds": 4,
        "kafka_rebalance_monitor_start_timestamp_seconds": (NOW_MS - 60_000) / 1000,
        "kafka_rebalance_monitor_state_rows": 3,
    }


def test_an_empty_picture_is_a_valid_exposition() -> None:
    """Before anything is known, both formats parse and the errors by topic exist at 0."""
    for style in Style:
        assert len(parse(expose(make_view(), style), style)) == len(ALL_METRICS)
    assert (
        value_of(expose(make_view()), "kafka_rebalance_monitor_contract_errors_total", topic="groups", reason="key")
        == 0
    )
    assert value_of(expose(make_view()), "kafka_rebalance_monitor_build_info", version="1.2.3") == 1


def test_the_table_keeps_prometheus_hygiene() -> None:
    """Names are unique, counters and only they end in _total, no label identifies a member, all HELP is a sentence."""
    names = [metric.full_name for metric in ALL_METRICS]
    assert len(set(names)) == len(names)
    for metric in ALL_METRICS:
        assert metric.name.endswith("_total") == (metric.type == "counter")
        assert not {"member_id", "generation", "offset", "rebalance_id"} & set(metric.labels)
        assert metric.help.endswith(".")
        assert "_ms" not in metric.name
    assert len(set(RECORD_TYPES.values())) == len(RECORD_TYPES) - 1


@pytest.mark.parametrize(
    ("accept", "style"),
    [
        (None, TEXT),
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", TEXT),
        ("text/plain", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", OPENMETRICS),
        ('Application/OpenMetrics-Text;version="1.0.0"', OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;q=nonsense", TEXT),
        ("application/openmetrics-text;q=0.3,text/plain;q=0.5", TEXT),
        # Prometheus 2.42 and 3.0 as they ask.
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OPENMETRICS,
        ),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
            "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
            "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            OPENMETRICS,
        ),
    ],
)
def test_the_format_is_negotiated(accept: str | None, style: Style) -> None:
    """OpenMetrics for whoever prefers it in a version we write, the text format for everybody else."""
    assert choose_style(accept) is style


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("*", True),
        ("br", False),
    ],
)
def test_gzip_is_negotiated(header: str | None, accepted: bool) -> None:
    """Compressed only where the header allows it, weights included."""
    assert accepts_gzip(header) is accepted


def test_compression_is_lossless() -> None:
    """What is unpacked is what was packed."""
    assert gzip.decompress(compress(b"series\n" * 999)) == b"series\n" * 999


@pytest.mark.tools
def test_promtool_has_no_complaint() -> None:
    """Prometheus's own linter accepts names, types and HELP."""
    counts = RecordCount("membership", 2, 3, "decoded", 1)
    view = make_view(group_row(PAYMENTS), lag_row(5), query_row(), records_row(counts))
    result = run_tool("promtool", "check", "metrics", text=expose(view))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_exemplars_name_the_latest_rebalance() -> None:
    """OpenMetrics shows by reason, and by bucket of its duration, which rebalance to look at; text cannot."""
    rows = [rebalance_row("3-1", NOW_MS - 9_000), rebalance_row("3-2"), group_row()]
    families = parse(expose(make_view(*rows), OPENMETRICS), OPENMETRICS)
    found = {
        (s.name, s.labels.get("reason") or s.labels.get("le")): s.exemplar for s in samples_of(families) if s.exemplar
    }
    counter, bucket = found.values()
    assert list(found) == [
        ("kafka_rebalance_rebalances_total", "join"),
        ("kafka_rebalance_duration_seconds_bucket", "0.1"),
    ]
    assert (counter.labels, counter.value) == ({"rebalance_id": "3-2"}, 1)
    assert float(counter.timestamp or 0) == NOW_MS / 1000
    assert (bucket.labels, bucket.value) == ({"rebalance_id": "3-2"}, 0.05)
    assert "rebalance_id" not in expose(make_view(*rows))


def test_a_new_exemplar_appears_without_a_new_snapshot() -> None:
    """The rebalance's row may come after the group's: the next scrape shows it."""
    view, exposition = make_view(group_row(), rebalance_row("3-1")), Exposition(limit_groups=9, version="1")
    assert 'rebalance_id="3-1"' in expose(view, OPENMETRICS, exposition=exposition)
    view.apply([rebalance_row("3-2", NOW_MS + 1)])
    text = expose(view, OPENMETRICS, exposition=exposition)
    assert ('rebalance_id="3-1"' in text, 'rebalance_id="3-2"' in text) == (False, True)


def test_time_in_states_grows_and_never_goes_back() -> None:
    """The present state grows with the clock; the stream's late word of its end takes nothing back."""
    view, exposition = make_view(group_row()._replace(at_ms=NOW_MS)), Exposition(limit_groups=9, version="1")

    def seconds(passed_ms: int) -> list[float | None]:
        text = expose(view, exposition=exposition, now_ms=NOW_MS + passed_ms)
        states = ("Stable", "PreparingRebalance", "Empty")
        return [value_of(text, "kafka_rebalance_state_seconds_total", state=state) for state in states]

    assert seconds(10_000) == [10, 0, 0]
    view.apply([group_row(state="PreparingRebalance")._replace(at_ms=NOW_MS + 9_500)])
    assert seconds(12_000) == [10, 2.5, 0]
    view.apply([group_row(state="Stable")._replace(at_ms=NOW_MS + 14_500)])
    assert seconds(16_000) == [11, 5, 0]
    assert seconds(15_000) == [11, 5, 0], "a clock that was set back"
    view.apply([group_row(state="Deleted")._replace(at_ms=NOW_MS + 20_000)])
    assert seconds(99_000) == [15, 5, 0]


def test_states_of_a_type_exist_at_zero() -> None:
    """rate() sees the first second in a state because its series was there before; no group has another type's."""
    text = expose(make_view(group_row(type="consumer", state="Assigning")))
    states = {s.labels["state"]: s.value for s in samples_of(parse(text)) if s.name.endswith("state_seconds_total")}
    assert states == {"Empty": 0, "Assigning": 90, "Reconciling": 0, "Stable": 0}


def timing_row(members: int, at_ms: int = NOW_MS) -> Row:
    """Heartbeats of some members, one of whom tells no poll."""
    told = tuple(
        MemberTiming(None, f"c-{i}", "h", "java", at_ms, 1_000.0 * i, 0.5, poll_age_ms=None if i == 0 else 2_000.0)
        for i in reversed(range(members))
    )
    return Row(HEARTBEATS, b"prod/payments", encode(GroupTiming("prod", "payments", at_ms, {}, told)))


def test_members_beyond_the_limit_are_counted() -> None:
    """The same members keep their series at every scrape, and what the others would have had is counted once."""
    view = make_view(group_row(), timing_row(5))
    exposition = Exposition(limit_groups=9, version="1", collect_members=True, limit_members_per_group=2)
    for text in [expose(view, exposition=exposition) for _ in range(2)]:
        members = {s.labels["client_id"] for s in samples_of(parse(text)) if "client_id" in s.labels}
        assert members == {"c-0", "c-1"}
        assert value_of(text, "kafka_rebalance_monitor_dropped_series_total", limit="members_per_group") == 3 * 3
    view.apply([timing_row(6, NOW_MS + 1)])
    text = expose(view, exposition=exposition)
    assert value_of(text, "kafka_rebalance_monitor_dropped_series_total", limit="members_per_group") == 4 * 3


def test_the_coordinator_is_known_where_somebody_probes() -> None:
    """A label of group_info, empty while nobody has asked."""
    assert value_of(expose(make_view(group_row(coordinator=3))), "kafka_rebalance_group_info", coordinator="3") == 1
    assert value_of(expose(make_view(group_row())), "kafka_rebalance_group_info", coordinator="") == 1


def test_what_no_probe_tells_is_absent() -> None:
    """Of a group counted from probes: generations and lost time are not 0, they are not known."""
    text = expose(make_view(group_row(counted_from="probes")))
    assert value_of(text, "kafka_rebalance_group_info", counted_from="probes") == 1
    assert "kafka_rebalance_generations_total{" not in text
    assert "kafka_rebalance_lost_partition_seconds_total{" not in text
    assert "kafka_rebalance_rebalances_total{" in text


def test_probes_are_told_of() -> None:
    """When the newest one was made; nothing where nobody probes."""
    name = "kafka_rebalance_monitor_last_probe_timestamp_seconds"
    assert value_of(expose(make_view(diagnosis_row(probed_at_ms=NOW_MS + 1_000))), name) == NOW_MS / 1000 + 1
    assert value_of(expose(make_view(diagnosis_row(probed_at_ms=None))), name) is None


def test_what_the_diagnosis_has_in_hand_becomes_series() -> None:
    """Its groups by what is known of them, what it set aside, how old it is; all by cluster."""
    aside = (QuarantineCount("rules", "KeyError", 2), QuarantineCount("rules", "KeyError", 1))
    text = expose(make_view(diagnosis_row(groups=9, committing_groups=7, groups_with_lag=5, quarantined=aside)))
    own = [s for s in samples_of(parse(text)) if "diagnosis" in s.name or "quarantined" in s.name]
    assert [
        (
            s.name.rpartition("monitor_")[2],
            *(s.labels[name] for name in ("cluster", "kind", "stage", "reason") if name in s.labels),
            s.value,
        )
        for s in own
    ] == [
        ("diagnosis_age_seconds", "prod", 1),
        ("diagnosis_delay_seconds", "prod", 2),
        ("diagnosis_groups", "prod", "known", 9),
        ("diagnosis_groups", "prod", "committing", 7),
        ("diagnosis_groups", "prod", "with_lag", 5),
        ("diagnosis_groups", "prod", "awaiting_ends", 0),
        ("quarantined_total", "prod", "rules", "KeyError", 3),
    ]


def test_what_any_part_of_the_stream_set_aside_is_added_up() -> None:
    """Every part of a query's state counts, beside what the diagnosis tells."""
    rows = (
        quarantine_row(QuarantineCount("record", "KeyError", 2), QuarantineCount("group", "ValueError", 5)),
        quarantine_row(QuarantineCount("record", "KeyError", 4), part=11),
        diagnosis_row(quarantined=(QuarantineCount("rules", "KeyError", 1),)),
    )
    own = [s for s in samples_of(parse(expose(make_view(*rows)))) if "quarantined" in s.name]
    told = {(s.labels["cluster"], s.labels["stage"], s.labels["reason"]): s.value for s in own}
    assert told == {
        ("prod", "group", "ValueError"): 5,
        ("prod", "record", "KeyError"): 6,
        ("prod", "rules", "KeyError"): 1,
    }


def test_what_befell_the_inputs_is_told_by_query_and_topic() -> None:
    """Each total of a topic has its series, 0 included, so that the first loss is a rise."""
    calm = WatchedTopic("probes", 1)
    torn = WatchedTopic(
        "log",
        50,
        skipped_records=7,
        lost_positions=6,
        rewinds=5,
        recreations=4,
        added_partitions=3,
        removed_partitions=2,
    )
    text = expose(make_view(log_row(torn, calm), log_row(torn, query="activity")))
    prefix = "kafka_rebalance_monitor_log_"
    told = {
        (s.name.removeprefix(prefix), s.labels["query"], s.labels["topic"]): s.value
        for s in samples_of(parse(text))
        if s.name.startswith(prefix)
    }
    totals = {
        "skipped_positions_total": 7,
        "lost_positions_total": 6,
        "rewinds_total": 5,
        "recreations_total": 4,
        "partitions_added_total": 3,
        "partitions_removed_total": 2,
    }
    assert told == {
        **{(name, query, "log"): count for name, count in totals.items() for query in ("membership", "activity")},
        **{(name, "membership", "probes"): 0 for name in totals},
    }


def test_a_query_in_trouble_is_told_of() -> None:
    """Restarts, a failure, a batch that hangs and the share that was read each have a series."""
    text = expose(make_view(query_row(restarts=4, error="boom", is_stalled=True, read_records=30, wanted_records=40)))
    told = {name: value_of(text, f"kafka_rebalance_monitor_{name}") for name in ("failed", "stalled", "read_ratio")}
    assert told == {"failed": 1, "stalled": 1, "read_ratio": 0.75}
    assert value_of(text, "kafka_rebalance_monitor_restarts_total", query="membership") == 4


def test_many_series_are_counted_as_they_are() -> None:
    """The monitor's count of series is the number of lines of groups."""
    view = make_view(group_row(), diagnosis_row(), lag_row(5), timing_row(3), query_row(), rebalance_row("1"))
    text = expose(view, exposition=Exposition(limit_groups=9, version="1", collect_members=True))
    lines = [line for line in text.splitlines() if 'group="' in line]
    assert value_of(text, "kafka_rebalance_monitor_series") == len(lines)

"""The exposition: its formats, its golden file, and when it is rendered."""

import gzip
from typing import Any

import pytest

from exporters.contract_rows import (
    NOW_MS,
    PAYMENTS,
    diagnosis_row,
    group_row,
    lag_row,
    make_view,
    probed_lag_row,
    query_row,
    rebalance_row,
    records_row,
    totals_row,
)
from exporters.rendering import OPENMETRICS, TEXT, expose, parse, samples_of, timing_row, value_of
from prometheus.rig import run_tool
from rebalance_contract import (
    CountedImpact,
    Member,
    RecordCount,
)
from rebalance_exporters.metrics import render
from rebalance_exporters.metrics.findings import FINDING_METRICS, SILENCE_METRICS
from rebalance_exporters.metrics.formats import Style, accepts_gzip, choose_style, compress
from rebalance_exporters.metrics.groups import GROUP_METRICS, STATE_SECONDS, GroupFacts
from rebalance_exporters.metrics.lag import COMMIT_AGE, LAG_METRICS, TIME_LAG, WINDOW_METRICS
from rebalance_exporters.metrics.monitor import MONITOR_METRICS, RECORD_TYPES
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.metrics.series import Metric
from rebalance_exporters.metrics.timings import TIMING_METRICS
from rebalance_exporters.state.view import GroupKey

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
    """The format requires a family's samples to be together after one HELP and one TYPE, as in the table."""
    view = make_view(group_row(), group_row(group="b"), lag_row(5), lag_row(5, group="b"), query_row())
    families = parse(expose(view, style), style)
    assert [f.name for f in families] == [m.family_name for m in ALL_METRICS]
    assert [(f.type, f.documentation) for f in families] == [(m.type, m.help) for m in ALL_METRICS]
    assert {s.labels["group"] for f in families[:11] for s in f.samples} == {"payments", "b"}


def test_openmetrics_names_counters_without_their_ending_and_says_where_it_ends() -> None:
    """In OpenMetrics the family of a counter lacks _total, and the body ends with one EOF."""
    text = expose(make_view(group_row()), OPENMETRICS)
    assert "# TYPE kafka_rebalance_rebalances counter\n" in text
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_survive(name: str, style: Style) -> None:
    """Any group id is parsed unchanged, and breaks no other series."""
    view = make_view(group_row(group=name, protocol=name), lag_row(5, group=name), group_row())
    families = parse(expose(view, style), style)
    samples = samples_of(families)
    assert {s.labels["group"] for s in samples if "group" in s.labels} == {name, "payments"}
    assert {s.labels["protocol"] for s in samples if "protocol" in s.labels} == {name, "range"}
    assert len(families) == len(ALL_METRICS)


@pytest.mark.parametrize(("truncated", "static"), [(False, 1), (True, None)])
def test_static_members_are_counted_or_unknown(truncated: bool, static: int | None) -> None:
    """Those with an instance id; in a truncated row their number is unknown."""
    members = (Member("a", "a", "h", group_instance_id="a-1"), Member("b", "b", "h"))
    text = expose(make_view(group_row(members=members, is_truncated=truncated)))
    assert value_of(text, "kafka_rebalance_group_static_members") == static


def test_a_changed_group_is_rendered_again_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a scrape depends on the number of changed groups, not on that of all groups."""
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
    """A deleted group keeps its last counters for a while, without an age of commits, and is then removed."""
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
    """Above the limit the oldest groups keep their series, and the omitted ones are counted once."""
    rows = [group_row(group=f"g{age}", first_seen_ms=NOW_MS - age) for age in range(5)]
    view, exposition = make_view(*rows), Exposition(limit_groups=3, version="1")
    texts = [expose(view, exposition=exposition) for _ in range(2)]
    for text in texts:
        assert {s.labels["group"] for s in samples_of(parse(text)) if "group" in s.labels} == {"g2", "g3", "g4"}
        assert value_of(text, "kafka_rebalance_monitor_groups", outcome="exported") == 3
        assert value_of(text, "kafka_rebalance_monitor_groups", outcome="dropped") == 2
        assert value_of(text, "kafka_rebalance_monitor_dropped_series_total", limit="groups") == 2 * SERIES
        assert value_of(text, "kafka_rebalance_monitor_series") == 3 * SERIES


def test_an_empty_fleet_is_a_valid_exposition() -> None:
    """Without any data both formats parse and the errors by topic are 0."""
    for style in Style:
        assert len(parse(expose(make_view(), style), style)) == len(ALL_METRICS)
    assert (
        value_of(expose(make_view()), "kafka_rebalance_monitor_contract_errors_total", topic="groups", reason="key")
        == 0
    )
    assert value_of(expose(make_view()), "kafka_rebalance_monitor_build_info", version="1.2.3") == 1


def test_the_table_keeps_prometheus_hygiene() -> None:
    """Names are unique, only counters end in _total, no label identifies a member, every HELP is a sentence."""
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
        # The Accept headers of Prometheus 2.42 and 3.0.
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
    """OpenMetrics for clients that prefer it in a supported version, the text format for all others."""
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
    """Compressed only if the header allows it, weights included."""
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


def test_many_series_are_counted_as_they_are() -> None:
    """The monitor's count of series equals the number of lines about groups."""
    view = make_view(group_row(), diagnosis_row(), lag_row(5), timing_row(3), query_row(), rebalance_row("1"))
    text = expose(view, exposition=Exposition(limit_groups=9, version="1", collect_members=True))
    lines = [line for line in text.splitlines() if 'group="' in line]
    assert value_of(text, "kafka_rebalance_monitor_series") == len(lines)

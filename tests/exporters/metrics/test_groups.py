"""The metrics of one group: counts, lag, times, members, exemplars; unknown values are absent."""

import pytest

from exporters.contract_rows import (
    NOW_MS,
    WINDOWS,
    diagnosis_row,
    group_row,
    lag_row,
    make_view,
    probed_lag_row,
    query_row,
    rebalance_row,
)
from exporters.rendering import OPENMETRICS, expose, parse, samples_of, timing_row, value_of
from rebalance_contract import (
    Counters,
    Member,
    RebalanceReason,
    Settlement,
    TopicLag,
)
from rebalance_exporters.metrics import render
from rebalance_exporters.metrics.lag import COMMIT_AGE, LAG_METRICS, TIME_LAG, WINDOW_METRICS
from rebalance_exporters.metrics.render import Exposition


def test_every_reason_exists_at_zero() -> None:
    """A group's counters exist before the first event, because rate() misses the start of a counter at 1."""
    text = expose(make_view(group_row(counters=Counters(rebalances={}))))
    for reason in RebalanceReason:
        assert value_of(text, "kafka_rebalance_rebalances_total", reason=reason) == 0
    assert value_of(text, "kafka_rebalance_generations_total", outcome="aborted") == 0
    assert value_of(text, "kafka_rebalance_member_changes_total", change="replaced") == 0


def test_reasons_of_a_newer_stream_are_shown() -> None:
    """An unknown reason is exported under its name."""
    text = expose(make_view(group_row(counters=Counters(rebalances={"solar_flare": 2}))))
    assert value_of(text, "kafka_rebalance_rebalances_total", reason="solar_flare") == 2


def test_the_unknown_is_absent_and_not_zero() -> None:
    """Null means unknown: the series is left out while the counters stay."""
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


def test_lag_is_shown_as_the_diagnosis_reports_it() -> None:
    """Per group and topic, optionally per partition; removed with the group; absent without a known end."""
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
    """The time lag is as of the scrape; without lag it is 0."""
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
    """Its windows, lag and ages are removed when its last row expires; counters stay, all return with the next."""
    view, exposition = (
        make_view(group_row(), diagnosis_row(), probed_lag_row()),
        Exposition(limit_groups=9, version="1"),
    )

    def names(now_ms: int) -> set[str]:
        text = expose(view, exposition=exposition, now_ms=now_ms)
        return {sample.name for sample in samples_of(parse(text)) if "group" in sample.labels}

    there, gone = names(NOW_MS), names(NOW_MS + 60_000)
    reported = {metric.full_name for metric in (*WINDOW_METRICS, *LAG_METRICS, COMMIT_AGE, TIME_LAG)}
    assert there - gone == reported
    view.apply([diagnosis_row(updated_at_ms=NOW_MS + 60_000)])
    assert names(NOW_MS + 60_000) == there


def test_the_latest_rebalance_counts_when_the_log_was_read_past_it() -> None:
    """Its duration and moves are added once it is settled, without a new row, and never removed."""
    due = Settlement(NOW_MS, duration_ms=400, partitions_moved=4)
    view, exposition = make_view(group_row(settlement=due)), Exposition(limit_groups=9, version="1")

    def reported(read_until_ms: int) -> tuple[float | None, ...]:
        view.apply([query_row(read_until_ms=read_until_ms)])
        text = expose(view, exposition=exposition, now_ms=NOW_MS + 60_000)
        names = ("moved_partitions_total", "duration_seconds_count", "duration_seconds_sum")
        return tuple(value_of(text, f"kafka_rebalance_{name}") for name in names)

    assert reported(NOW_MS - 1) == (9, 6, 45.25)
    assert reported(NOW_MS) == (13, 7, 45.65)
    assert reported(0) == (13, 7, 45.65), "a query that was started again does not know yet how far it is"
    view.apply([group_row(settlement=due, coordinator=3)])
    assert reported(0) == (13, 7, 45.65)


def test_commits_of_a_simple_group_do_not_write_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit changes its time, which no series shows."""
    view, exposition = make_view(diagnosis_row(), lag_row(5, group="s")), Exposition(limit_groups=9, version="1")
    assert value_of(expose(view, exposition=exposition), "kafka_rebalance_group_state_code", group="s") == 1
    view.apply([lag_row(6, NOW_MS + 5, group="s")])
    monkeypatch.setattr(render, "render_group", None)
    assert value_of(expose(view, exposition=exposition), "kafka_rebalance_group_state_code", group="s") == 1


def test_invented_reasons_get_no_series_each() -> None:
    """A row may have thousands of reasons: some are exported by name, the others are added up."""
    invented = {f"r{n:04}": 1 for n in range(1_000)}
    text = expose(make_view(group_row(counters=Counters(rebalances=invented | {"other": 5}))))
    reported = {s.labels["reason"]: s.value for s in samples_of(parse(text)) if s.name.endswith("rebalances_total")}
    assert len(reported) == len(RebalanceReason) + 16
    assert (reported["r0000"], reported["other"], sum(reported.values())) == (1, 5 + 984, 1_005)


def test_only_windows_with_known_names_are_shown() -> None:
    """Names come from the row: invented ones get no series."""
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
    """One unreadable assignment makes the sums unknown; members without partitions are idle."""
    text = expose(make_view(group_row(members=members)))
    assert value_of(text, "kafka_rebalance_group_assigned_partitions") == assigned
    assert value_of(text, "kafka_rebalance_group_idle_members") == idle


def test_only_consumers_have_an_assignor() -> None:
    """Connect has the name of a format in the place of the assignor."""
    text = expose(make_view(group_row(protocol_type="connect", protocol="sessioned")))
    assert value_of(text, "kafka_rebalance_group_info", protocol="sessioned", assignor="") == 1


def test_commit_age_grows_without_news() -> None:
    """The age is as of the scrape, and never negative, even if a clock is behind."""
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


def test_exemplars_name_the_latest_rebalance() -> None:
    """In OpenMetrics an exemplar names a rebalance by reason and by bucket of its duration; text has none."""
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
    """The rebalance's row may arrive after the group's: the next scrape shows it."""
    view, exposition = make_view(group_row(), rebalance_row("3-1")), Exposition(limit_groups=9, version="1")
    assert 'rebalance_id="3-1"' in expose(view, OPENMETRICS, exposition=exposition)
    view.apply([rebalance_row("3-2", NOW_MS + 1)])
    text = expose(view, OPENMETRICS, exposition=exposition)
    assert ('rebalance_id="3-1"' in text, 'rebalance_id="3-2"' in text) == (False, True)


def test_time_in_states_grows_and_never_goes_back() -> None:
    """The current state grows with the clock; the stream's later correction of its end does not reduce it."""
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


def test_time_before_the_exporter_read_is_not_counted() -> None:
    """After a restart the counter begins at 0; otherwise the previous exporter's time would be added again."""
    hours = [group_row(state=state)._replace(at_ms=at) for state, at in (("Empty", 0), ("Stable", 3_600_000))]
    there = [row._replace(at_ms=NOW_MS - 7_200_000 + (row.at_ms or 0), was_there=True) for row in hours]
    view = make_view(*(row._replace(read_since_ms=NOW_MS) for row in there))

    def seconds(passed_ms: int) -> list[float | None]:
        text = expose(view, now_ms=NOW_MS + passed_ms)
        return [
            value_of(text, "kafka_rebalance_state_seconds_total", state=each)
            for each in ("Empty", "Stable", "PreparingRebalance")
        ]

    assert seconds(0) == [0, 0, 0]
    assert seconds(15_000) == [0, 15, 0]
    change = group_row(state="PreparingRebalance")._replace(at_ms=NOW_MS + 20_000, read_since_ms=NOW_MS)
    view.apply([change, group_row(group="new", state="Empty")._replace(at_ms=NOW_MS + 20_000, read_since_ms=NOW_MS)])
    text = expose(view, now_ms=NOW_MS + 22_000)
    reported = {(s.labels["group"], s.labels["state"]): s.value for s in samples_of(parse(text)) if "state" in s.labels}
    assert {each: value for each, value in reported.items() if value} == {
        ("payments", "Stable"): 20,
        ("payments", "PreparingRebalance"): 2,
        ("new", "Empty"): 2,
    }


def test_states_of_a_type_exist_at_zero() -> None:
    """rate() sees the first second in a state because its series existed; no group has states of another type."""
    text = expose(make_view(group_row(type="consumer", state="Assigning")))
    states = {s.labels["state"]: s.value for s in samples_of(parse(text)) if s.name.endswith("state_seconds_total")}
    assert states == {"Empty": 0, "Assigning": 90, "Reconciling": 0, "Stable": 0}


def test_members_beyond_the_limit_are_counted() -> None:
    """The same members keep their series at every scrape, and the omitted ones are counted once."""
    view = make_view(group_row(), diagnosis_row(), timing_row(5))
    exposition = Exposition(limit_groups=9, version="1", collect_members=True, limit_members_per_group=2)
    for text in [expose(view, exposition=exposition) for _ in range(2)]:
        members = {s.labels["client_id"] for s in samples_of(parse(text)) if "client_id" in s.labels}
        assert members == {"c-0", "c-1"}
        assert value_of(text, "kafka_rebalance_monitor_dropped_series_total", limit="members_per_group") == 3 * 3
    view.apply([timing_row(6, NOW_MS + 1)])
    text = expose(view, exposition=exposition)
    assert value_of(text, "kafka_rebalance_monitor_dropped_series_total", limit="members_per_group") == 4 * 3


def test_the_coordinator_is_known_where_somebody_probes() -> None:
    """A label of group_info, empty without a prober."""
    assert value_of(expose(make_view(group_row(coordinator=3))), "kafka_rebalance_group_info", coordinator="3") == 1
    assert value_of(expose(make_view(group_row())), "kafka_rebalance_group_info", coordinator="") == 1


def test_what_no_probe_reports_is_absent() -> None:
    """For a group counted from probes, generations and lost time are unknown, not 0."""
    text = expose(make_view(group_row(counted_from="probes")))
    assert value_of(text, "kafka_rebalance_group_info", counted_from="probes") == 1
    assert "kafka_rebalance_generations_total{" not in text
    assert "kafka_rebalance_lost_partition_seconds_total{" not in text
    assert "kafka_rebalance_rebalances_total{" in text


def test_probes_are_reported() -> None:
    """The time of the latest probe; absent without a prober."""
    name = "kafka_rebalance_monitor_last_probe_timestamp_seconds"
    assert value_of(expose(make_view(diagnosis_row(probed_at_ms=NOW_MS + 1_000))), name) == NOW_MS / 1000 + 1
    assert value_of(expose(make_view(diagnosis_row(probed_at_ms=None))), name) is None

"""The monitor's metrics about itself: records, queries, inputs, quarantined rows."""

from dataclasses import replace

from exporters.contract_rows import (
    NOW_MS,
    PAYMENTS,
    diagnosis_row,
    group_row,
    log_row,
    make_view,
    quarantine_row,
    query_row,
    records_row,
)
from exporters.rendering import expose, parse, samples_of, value_of
from rebalance_contract import (
    Panes,
    QuarantineCount,
    RecordCount,
    WatchedTopic,
)
from rebalance_exporters.state.late_events import LateEvents
from rebalance_exporters.state.view import GROUPS, Row, View


def test_records_are_counted_under_readable_names() -> None:
    """Types have Kafka's names, unknown ones their number; key versions of one type are one series."""
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
    """A query's status is exported in base units; unknown values are left out."""
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


def test_what_the_diagnosis_has_in_hand_becomes_series() -> None:
    """Its groups by state, quarantined rows, its age; all by cluster."""
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
    """Every part of a query's state counts, in addition to the diagnosis."""
    rows = (
        quarantine_row(QuarantineCount("record", "KeyError", 2), QuarantineCount("group", "ValueError", 5)),
        quarantine_row(QuarantineCount("record", "KeyError", 4), part=11),
        diagnosis_row(quarantined=(QuarantineCount("rules", "KeyError", 1),)),
    )
    own = [s for s in samples_of(parse(expose(make_view(*rows)))) if "quarantined" in s.name]
    reported = {(s.labels["cluster"], s.labels["stage"], s.labels["reason"]): s.value for s in own}
    assert reported == {
        ("prod", "group", "ValueError"): 5,
        ("prod", "record", "KeyError"): 6,
        ("prod", "rules", "KeyError"): 1,
    }


def test_what_happened_to_the_inputs_is_counted_by_query_and_topic() -> None:
    """Each total of a topic has a series, including 0, so that the first loss is an increase."""
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
    reported = {
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
    assert reported == {
        **{(name, query, "log"): count for name, count in totals.items() for query in ("membership", "activity")},
        **{(name, "membership", "probes"): 0 for name in totals},
    }


def test_a_query_in_trouble_is_reported() -> None:
    """Restarts, a failure, a hanging batch and the share of the input that was read each have a series."""
    text = expose(make_view(query_row(restarts=4, error="boom", is_stalled=True, read_records=30, wanted_records=40)))
    reported = {name: value_of(text, f"kafka_rebalance_monitor_{name}") for name in ("failed", "stalled", "read_ratio")}
    assert reported == {"failed": 1, "stalled": 1, "read_ratio": 0.75}
    assert value_of(text, "kafka_rebalance_monitor_restarts_total", query="membership") == 4


def late_row(late: int, future: int, group: str = "payments", **fields: bool) -> Row:
    """A snapshot of a group with this many events with a wrong time."""
    return group_row(group=group, windows=Panes(late=late, future=future))._replace(**fields)


def late_events(view: View) -> list[float | None]:
    text = expose(view)
    return [value_of(text, "kafka_rebalance_monitor_late_events_total", kind=kind) for kind in ("late", "future")]


def test_events_at_wrong_times_stay_counted_when_their_group_is_gone() -> None:
    """A decreasing counter would be taken for a restart, and its value added again."""
    view = make_view(late_row(3, 1), late_row(2, 0, "other"))
    assert late_events(view) == [5, 1]
    view.apply([late_row(4, 1), Row(GROUPS, b"prod/payments", None)])
    assert late_events(view) == [6, 1]
    view.apply([late_row(1, 0), late_row(0, 0, "other"), late_row(1, 2, "other")])
    assert late_events(view) == [8, 3], "groups that were made anew, or whose windows were"


def test_events_of_before_the_start_are_not_counted() -> None:
    """The previous exporter has counted them."""
    view = make_view(late_row(3, 1, was_there=True), late_row(5, 1, was_there=True))
    assert late_events(view) == [0, 0]
    view.apply([late_row(6, 1)])
    assert late_events(view) == [1, 0]


def test_clusters_without_end_fill_no_memory() -> None:
    """Producers with access to the topics may invent cluster names."""
    events = LateEvents()
    for number in range(1_500):
        events.note(None, replace(PAYMENTS, cluster=str(number)), is_new=True)
    assert len(events.totals) == 2_000

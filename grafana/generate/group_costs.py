"""Rows of the group dashboard: costs of rebalances, headroom of time-outs, and what to change."""

from __future__ import annotations

from grafana.generate.board import BoardRow
from grafana.generate.panels import (
    BAD,
    CLEAR,
    PER_MINUTE,
    PER_SECOND,
    WORSE,
    About,
    Query,
    TableColumn,
    show_lines,
    show_table,
)
from grafana.generate.queries import gauge, growth, increase, of_groups, or_unknown, per_group, rate, window
from grafana.generate.sdk import dashboard, units
from grafana.generate.texts import ASSIGNORS, GROUP_NAME, NO_GROUP, NO_PROBE, NO_TIMING

_TOPIC = 'topic=~"$topic"'


def make_rows() -> tuple[BoardRow, ...]:
    """Return the rows that are always visible."""
    return (
        BoardRow(
            "What it costs",
            8,
            (
                (8, _show_throughput()),
                (8, _show_lag()),
                (8, _show_growth()),
                (12, _show_topics()),
                (12, _show_lost()),
            ),
        ),
    )


def make_details() -> tuple[BoardRow, ...]:
    """Return the rows with details."""
    return (
        BoardRow("Headroom", 8, ((12, _show_headroom()), (12, _show_ages())), collapsed=True),
        BoardRow("Settings", 8, ((24, _show_settings()),), collapsed=True),
        BoardRow("Partitions", 8, ((24, _show_partitions()),), collapsed=True),
    )


def _show_lag() -> dashboard.Panel:
    return show_lines(
        "Lag beside commits",
        About(
            "Lag, the largest of 5 min, and on the right the commits of each minute.",
            "lag flat, commits steady.",
            "commits stop while lag climbs: nothing gets on. They go on while lag climbs: too slow, not a rebalance.",
        ),
        (
            Query(gauge("group_lag"), f"{GROUP_NAME}: lag", colours="orange"),
            Query(window("lag_max", "5m"), f"{GROUP_NAME}: largest of 5 min", colours="yellow"),
            Query(window("commits", "1m"), f"{GROUP_NAME}: commits", unit=PER_MINUTE, colours="green"),
        ),
        unit=units.Short,
        empty=NO_PROBE,
    )


def _show_throughput() -> dashboard.Panel:
    done = f"sum by (cluster, group) ({growth('topic_committed_offset', 'topic', where=_TOPIC)})"
    grown = f"sum by (cluster, group) ({growth('topic_lag', 'topic', where=_TOPIC)})"
    return show_lines(
        "Records in and records done",
        About(
            "Records per second that producers write to the group's topics, and that the group commits, of the topics "
            "chosen at the top.",
            "the two lines on each other.",
            "done below in: the group falls behind. Done at 0 during rebalances and above in afterwards: it catches "
            "up. Done falls below 0 where somebody resets offsets.",
        ),
        (
            Query(f"({done}) + ({grown})", f"{GROUP_NAME}: in", colours="blue"),
            Query(done, f"{GROUP_NAME}: done", colours="green"),
        ),
        unit=PER_SECOND,
        empty=NO_PROBE,
        lowest=None,
    )


def _show_growth() -> dashboard.Panel:
    return show_lines(
        "Growth of lag",
        About(
            "Records per second by which the lag rises, or falls below 0.",
            "around 0.",
            "above 0 over 15 min: the group falls behind. Members needed = members now x (rate in / rate done).",
        ),
        (
            Query(window("lag_slope", "15m"), f"{GROUP_NAME}: 15 min", colours="orange"),
            Query(window("lag_slope", "5m"), f"{GROUP_NAME}: 5 min", colours="blue"),
        ),
        unit=PER_SECOND,
        empty=NO_PROBE,
        lowest=None,
        limit=(0, WORSE),
    )


def _show_topics() -> dashboard.Panel:
    return show_lines(
        "Lag by topic, largest ten",
        About(
            "Lag of the ten topics that have most of it at each moment, among those chosen at the top.",
            "small everywhere.",
            "one topic only: its traffic, its partitions or one of its records, not the group.",
        ),
        (Query(f"topk(10, {gauge('topic_lag', 'topic', where=_TOPIC)})", f"{GROUP_NAME} / {{{{topic}}}}"),),
        unit=units.Short,
        empty=NO_PROBE,
    )


def _show_lost() -> dashboard.Panel:
    return show_lines(
        "Partitions that stood still",
        About(
            "Partitions that on average went without a commit because of a rebalance: partition-seconds per second.",
            "0.",
            "all partitions of the group: everybody stops (eager assignor). A few: only what moves.",
        ),
        (Query(rate("lost_partition_seconds_total"), GROUP_NAME),),
        unit=units.Short,
        empty=NO_GROUP,
    )


def _show_headroom() -> dashboard.Panel:
    return show_lines(
        "What is left of session and poll interval",
        About(
            "Smallest share of the session timeout and of max.poll.interval.ms that any member had left within 1 min; "
            "below 0 it is overdue. Clients that do not report the ages, such as librdkafka, are not in it.",
            "heartbeats near 100 %, polls above 50 %.",
            "heartbeats below 33 %: something holds up the heartbeat thread or the host. Polls below 20 %: smaller "
            "batches (max.poll.records), or the next slow one costs a rebalance.",
        ),
        (
            Query(window("heartbeat_headroom_ratio", "1m", by="min"), f"{GROUP_NAME}: session", colours="blue"),
            Query(window("poll_headroom_ratio", "1m", by="min"), f"{GROUP_NAME}: poll interval", colours="purple"),
        ),
        unit=units.PercentUnit,
        empty=NO_TIMING,
        lowest=None,
        highest=1,
    )


def _show_ages() -> dashboard.Panel:
    return show_lines(
        "Oldest heartbeat and longest poll gap",
        About(
            "Oldest last heartbeat and longest time between two polls of any member within 1 min.",
            "heartbeats a few times heartbeat.interval.ms; polls as long as a batch takes.",
            "compare with session.timeout.ms and max.poll.interval.ms in the client's settings.",
        ),
        (
            Query(window("heartbeat_age_max_seconds", "1m"), f"{GROUP_NAME}: heartbeat", colours="blue"),
            Query(window("poll_gap_max_seconds", "1m"), f"{GROUP_NAME}: poll", colours="purple"),
        ),
        unit=units.Seconds,
        empty=NO_TIMING,
    )


def _show_settings() -> dashboard.Panel:
    labels = ("protocol_type", "protocol", "assignor", "coordinator", "owner", "counted_from")
    known = per_group(of_groups("group_info"), *labels)
    return show_table(
        "Settings and what to change",
        About(
            "What the group agreed on, what its members have left of their timeouts in 15 min, and the slowest "
            "rebalance of the time shown (p99).",
            "nothing to gain by another assignor; session left above 67 %, poll interval left above 50 %.",
            "little session left: session.timeout.ms=45000, heartbeat.interval.ms=3000. Little poll interval left: "
            "max.poll.interval.ms to twice the time of a batch (p99), or fewer max.poll.records.",
        ),
        (
            TableColumn("Group", label="group", width=150),
            TableColumn("Type", label="protocol_type", width=90),
            TableColumn("Protocol", label="protocol", width=130),
            TableColumn("Assignor", label="assignor", width=130),
            TableColumn("Broker", label="coordinator", width=60),
            TableColumn("Owner", label="owner", width=90),
            TableColumn("Counted from", label="counted_from", width=110),
            TableColumn(
                "Session left",
                or_unknown(window("heartbeat_headroom_ratio", "15m", by="min")),
                units.PercentUnit,
                steps=((None, BAD), (0.34, WORSE), (0.67, CLEAR)),
                width=95,
            ),
            TableColumn(
                "Poll left",
                or_unknown(window("poll_headroom_ratio", "15m", by="min")),
                units.PercentUnit,
                steps=((None, BAD), (0.2, WORSE), (0.5, CLEAR)),
                width=75,
            ),
            TableColumn(
                "Slowest",
                or_unknown(f"histogram_quantile(0.99, {increase('duration_seconds_bucket', 'le')})"),
                units.Seconds,
                width=75,
            ),
            TableColumn("What to change", label="what_to_change", texts=ASSIGNORS, wrap=True),
            TableColumn("Cluster", label="cluster", width=75),
            TableColumn("Known", f'label_replace({known}, "what_to_change", "$1", "assignor", "(.*)")', hidden=True),
        ),
        empty=NO_GROUP,
        sort="Group",
    )


def _show_partitions() -> dashboard.Panel:
    return show_lines(
        "Lag by partition, largest ten",
        About(
            "Lag of the ten partitions that have most of it at each moment.",
            "all alike.",
            "one far above the others: its owner, a hot key, or a record that cannot be processed.",
        ),
        (
            Query(
                f"topk(10, {gauge('partition_lag', 'topic', 'partition', where=_TOPIC)})",
                f"{GROUP_NAME} / {{{{topic}}}}-{{{{partition}}}}",
            ),
        ),
        unit=units.Short,
        empty="off: set export.collect_partitions; it needs the prober too",
    )

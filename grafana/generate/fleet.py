"""The dashboard of all groups: which group, since when, why, who, what to change, and shared coordinators."""

from __future__ import annotations

from grafana.generate import colours, found
from grafana.generate.board import Board, BoardRow, choose_groups, side_by_side
from grafana.generate.links import FLEET, MONITOR, ROW, SERIES, to_board, to_group, to_live_page, to_readiness
from grafana.generate.panels import (
    BAD,
    CLEAR,
    GOOD,
    PER_MINUTE,
    WORSE,
    About,
    Query,
    TableColumn,
    show_heatmap,
    show_lines,
    show_stat,
    show_table,
)
from grafana.generate.queries import (
    gauge,
    increase,
    leading_per_group,
    of_exporters,
    of_groups,
    or_none_known,
    or_unknown,
    per_group,
    rate,
    window,
    with_coordinator,
)
from grafana.generate.sdk import dashboard, units
from grafana.generate.texts import ASKING, NO_EXPORTER, NO_PROBE, NO_REBALANCE

_NOBODY = "no group is known: see the dashboard Monitor"


def make() -> Board:
    """Return the dashboard."""
    return Board(
        uid=FLEET,
        description=(
            "All consumer groups: which one is worst, why, who, what to change, and whether groups share a cause. "
            "Rebalances are counted by the monitor as they happen, not sampled."
        ),
        rows=(
            BoardRow("", 3, found.show_leading(to_group(*SERIES), to_live_page(*SERIES), group=True)),
            BoardRow("", 7, ((24, found.show_open(to_group(*ROW), to_live_page(*ROW))),)),
            BoardRow("", 3, side_by_side(3, *_show_counts())),
            BoardRow("", 9, ((24, _show_worst()),)),
            BoardRow(
                "Over time",
                9,
                side_by_side(12, _show_by_reason(), _show_shares(), _show_by_coordinator(), _show_durations()),
            ),
        ),
        variables=(choose_groups(),),
    )


def _show_counts() -> tuple[dashboard.Panel, ...]:
    return (
        _show_ready(),
        _show_groups(),
        _show_storming(),
        _show_not_consuming(),
        _show_asking(),
        _show_lagging(),
        _show_lost(),
        _show_happened(),
    )


def _show_ready() -> dashboard.Panel:
    return show_stat(
        "Monitor",
        About(
            "Whether what is exported is complete and fresh.",
            "ready.",
            "trust no other panel before it is; the dashboard Monitor and /-/ready say what is awaited.",
        ),
        f"max({of_exporters('monitor_ready')})",
        unit=units.Number,
        empty=NO_EXPORTER,
        steps=((None, BAD), (1, GOOD)),
        texts={"0": "not ready", "1": "ready"},
        links=(to_board(MONITOR, "Dashboard Monitor"), to_readiness()),
    )


def _show_groups() -> dashboard.Panel:
    return show_stat(
        "Groups",
        About(
            "Consumer groups that the monitor knows, empty ones too.",
            "about as many as you have.",
            "fewer: are they on another cluster, or left out because of a limit (dashboard Monitor, dropped series)?",
        ),
        f"count({per_group(of_groups('group_info'), by='group')})",
        unit=units.Short,
        empty=_NOBODY,
    )


def _show_storming() -> dashboard.Panel:
    often, lately = window("rebalances", "15m"), window("rebalances", "5m")
    over = f"time() - {gauge('last_rebalance_timestamp_seconds')} > 180 unless {window('rebalancing_ratio', '1m')} > 0"
    return show_stat(
        "Storming now",
        About(
            "Groups with more than 5 rebalances in 15 min and more than one in 5 min, the last one less than 3 min "
            "ago, as KafkaRebalanceStorm counts.",
            "0.",
            "one: open it in the table below. Many: look at Rebalances by coordinator before any consumer.",
        ),
        f"sum(({often} > bool 5) * on (cluster, group) ({lately} > bool 1) unless on (cluster, group) ({over}))"
        f" or 0 * sum({often})",
        unit=units.Short,
        empty=_NOBODY,
        steps=((None, GOOD), (1, WORSE), (5, BAD)),
        trend=True,
    )


def _show_not_consuming() -> dashboard.Panel:
    return show_stat(
        "Share > 25 %",
        About(
            "Groups that spent more than a quarter of the last 5 min in rebalances.",
            "0.",
            "sort the table below by Share, 5 min: these groups hardly consume.",
        ),
        f"sum({window('rebalancing_ratio', '5m')} > bool 0.25)",
        unit=units.Short,
        empty=_NOBODY,
        steps=((None, GOOD), (1, BAD)),
        trend=True,
    )


def _show_asking() -> dashboard.Panel:
    asking = gauge("finding_active", "rule", where=f'severity=~"{ASKING}"')
    return show_stat(
        "Open findings",
        About(
            "Diagnoses that are open and ask for somebody: severity page or ticket. Those of silenced groups ask "
            "nobody, and are on the live page.",
            "0.",
            "read the table above: it says what to do.",
        ),
        or_none_known(f"sum({asking})"),
        unit=units.Short,
        empty=NO_EXPORTER,
        steps=((None, GOOD), (1, WORSE)),
    )


def _show_lagging() -> dashboard.Panel:
    grows, still = window("lag_slope", "15m"), window("lag_slope", "5m")
    behind = gauge("group_time_lag_seconds")
    return show_stat(
        "Falling behind",
        About(
            "Groups more than a minute behind whose lag has grown over 15 min and over 5 min.",
            "0.",
            "that is harm: begin with these. The table below sorts by lag.",
        ),
        f"sum(({grows} > bool 0) * on (cluster, group) ({still} > bool 0) * on (cluster, group) ({behind} > bool 60))",
        unit=units.Short,
        empty=NO_PROBE,
        steps=((None, GOOD), (1, BAD)),
        trend=True,
    )


def _show_lost() -> dashboard.Panel:
    return show_stat(
        "Time lost",
        About(
            "Time that partitions went without a commit because of rebalances, added up over partitions and groups, "
            "in the time shown. Gaps below 7.5 s do not count.",
            "small beside the time shown, times the partitions.",
            "the table below is sorted by it.",
        ),
        f"sum({increase('lost_partition_seconds_total')})",
        unit=units.Seconds,
        empty=_NOBODY,
    )


def _show_happened() -> dashboard.Panel:
    return show_stat(
        "Rebalances",
        About(
            "Logical rebalances in the time shown: generations that follow each other before a group settles are one. "
            "At least so many where groups are counted from probes.",
            "about as many as deploys and scalings account for.",
            "see Rebalances by reason.",
        ),
        f"round(sum({increase('rebalances_total', 'reason')}))",
        unit=units.Short,
        empty=_NOBODY,
    )


def _show_worst() -> dashboard.Panel:
    links = (to_group(*ROW), to_live_page(*ROW))
    info = per_group(of_groups("group_info"), "coordinator", "owner")
    return show_table(
        "Worst groups",
        About(
            "Groups by partition time lost in the time shown, with the share of the last 5 min that they spent "
            "rebalancing. Why is the finding to read first. Click a name for its dashboard or the live page. Groups "
            "counted from probes (see their dashboard) rebalanced at least so often, and their time lost is not known.",
            "no coloured cell.",
            "open the first row. Several bad rows with one coordinator: look at that broker.",
        ),
        (
            TableColumn("Group", label="group", links=links),
            TableColumn("Why", label="rule"),
            TableColumn("Time lost", increase("lost_partition_seconds_total"), units.Seconds, width=80),
            TableColumn(
                "Rebalances, 15 min",
                window("rebalances", "15m"),
                units.Short,
                steps=((None, CLEAR), (3, WORSE), (6, BAD)),
                width=155,
            ),
            TableColumn(
                "Share, 5 min",
                window("rebalancing_ratio", "5m"),
                units.PercentUnit,
                steps=((None, CLEAR), (0.1, WORSE), (0.25, BAD)),
                width=110,
            ),
            TableColumn(
                "Behind",
                f"ceil({gauge('group_time_lag_seconds')})",
                units.Seconds,
                steps=((None, CLEAR), (300, WORSE)),
                width=65,
            ),
            TableColumn("Lag", gauge("group_lag"), units.Short, width=60),
            TableColumn("Members", gauge("group_members"), units.Short, width=80),
            TableColumn(
                "Last rebalance",
                or_unknown(f"1000 * {gauge('last_rebalance_timestamp_seconds')}"),
                units.DateTimeFromNow,
                width=150,
            ),
            TableColumn("Broker", label="coordinator", width=60),
            TableColumn("Owner", label="owner", width=95),
            TableColumn("Cluster", label="cluster", links=links, width=75),
            # Hidden, because only their labels are shown.
            TableColumn("Known", info, hidden=True),
            TableColumn("First finding", leading_per_group(), hidden=True),
        ),
        empty=_NOBODY,
        sort="Time lost",
    )


def _show_by_reason() -> dashboard.Panel:
    return show_lines(
        "Rebalances by reason",
        About(
            "Rebalances per minute by what set them off in the log; of groups counted from probes at least so many.",
            "quiet, with bars of join and departure at deploys.",
            "departure again and again: members are lost, see the group. topic_metadata_change or leader_rejoin: the "
            "client asks for it. Why a member came or went is in Open findings.",
        ),
        (
            Query(
                f"60 * sum by (reason) ({rate('rebalances_total', 'reason')}) > 0",
                "{{reason}}",
                colours=colours.REASONS,
            ),
        ),
        unit=PER_MINUTE,
        empty=NO_REBALANCE,
        stacked=True,
    )


def _show_shares() -> dashboard.Panel:
    return show_lines(
        "Share of time rebalancing, worst ten groups",
        About(
            "Share of the last 5 min spent rebalancing, of the ten worst groups at each moment that did.",
            "nothing here but single peaks.",
            "above the line for more than minutes, a group hardly consumes: click its line.",
        ),
        (Query(f"topk(10, {window('rebalancing_ratio', '5m')} > 0)", "{{cluster}} / {{group}}"),),
        unit=units.PercentUnit,
        empty=NO_REBALANCE,
        highest=1,
        limit=(0.25, BAD),
        links=(to_group(*SERIES), to_live_page(*SERIES)),
    )


def _show_by_coordinator() -> dashboard.Panel:
    # Reasons are summed first, so that there is one series per group to join.
    rates = f"sum by (cluster, group) ({rate('rebalances_total', 'reason')})"
    return show_lines(
        "Rebalances by coordinator",
        About(
            "Rebalances per minute by the broker that coordinates the groups; of groups counted from probes at least "
            "so many.",
            "brokers differ as the number of their groups does.",
            "one broker far above the others: look at its load, disk and network before any consumer.",
        ),
        (
            Query(
                f"60 * sum by (cluster, coordinator) ({with_coordinator(rates)}) > 0", "{{cluster}} / {{coordinator}}"
            ),
        ),
        unit=PER_MINUTE,
        empty=f"{NO_REBALANCE}, or {NO_PROBE}",
        stacked=True,
    )


def _show_durations() -> dashboard.Panel:
    return show_heatmap(
        "Durations",
        About(
            "How long rebalances took, start to stable; what stands out most from the background is where most were. "
            "Counted 20 s after their end. Of groups counted from probes, short ones are missing.",
            "seconds.",
            "a band at a minute or more: everybody waits for somebody, at most for max.poll.interval.ms.",
        ),
        f"sum by (le) ({increase('duration_seconds_bucket', 'le', over='$__interval')})",
        unit=units.Seconds,
        empty=_NOBODY,
    )

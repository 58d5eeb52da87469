"""Rows of the dashboard of a group: how long rebalances take, who causes them, how partitions are shared out."""

from __future__ import annotations

from grafana.generate.board import BoardRow
from grafana.generate.panels import (
    BAD,
    CLEAR,
    About,
    Query,
    TableColumn,
    show_heatmap,
    show_lines,
    show_table,
)
from grafana.generate.queries import gauge, increase, rate
from grafana.generate.sdk import dashboard, units
from grafana.generate.texts import GROUP_NAME, NO_GROUP, NO_MEMBERS


def make_rows() -> tuple[BoardRow, ...]:
    """Return the rows."""
    return (
        BoardRow("How long it takes", 8, ((12, _show_quantiles()), (12, _show_durations()))),
        BoardRow(
            "Who causes it",
            8,
            ((12, _show_members()), (12, _show_changes()), (12, _show_findings()), (12, _show_late())),
        ),
        BoardRow("Assignment", 8, ((8, _show_generations()), (8, _show_moved()), (8, _show_spread()))),
    )


def _show_quantiles() -> dashboard.Panel:
    buckets = f"sum by (le) ({increase('duration_seconds_bucket', 'le', over='30m')})"
    total = f"sum({increase('duration_seconds_sum', over='30m')})"
    count = f"sum({increase('duration_seconds_count', over='30m')})"
    return show_lines(
        "Durations, 30 min",
        About(
            "Mean, median and p95 of the durations of rebalances within 30 min, start to stable. Dots are single "
            "rebalances with their id, where Prometheus stores exemplars.",
            "seconds.",
            "about max.poll.interval.ms: everybody waits for a member that does not poll. About the session time-out: "
            "for one that is gone.",
        ),
        (
            Query(f"histogram_quantile(0.95, {buckets})", "p95", exemplars=True),
            Query(f"histogram_quantile(0.5, {buckets})", "median"),
            Query(f"{total} / {count}", "mean"),
        ),
        unit=units.Seconds,
        empty="no rebalance in 30 min",
        limit=(60, BAD),
    )


def _show_durations() -> dashboard.Panel:
    return show_heatmap(
        "Durations",
        About(
            "How long rebalances took; darker where there were more. Counted 20 s after their end.",
            "seconds.",
            "bands tell causes: one at the session time-out, one at max.poll.interval.ms.",
        ),
        f"sum by (le) ({increase('duration_seconds_bucket', 'le', over='$__rate_interval')})",
        unit=units.Seconds,
        empty=NO_GROUP,
    )


def _show_members() -> dashboard.Panel:
    return show_lines(
        "Members and generation",
        About(
            "Members after the last rebalance, and the group's generation on the right.",
            "members flat, generation flat.",
            "a generation that climbs with members flat: the same ones come back. Saw-teeth: one is lost and returns.",
        ),
        (
            Query(gauge("group_members"), f"{GROUP_NAME}: members"),
            Query(gauge("group_generation"), f"{GROUP_NAME}: generation", unit=units.Short),
        ),
        unit=units.Short,
        empty=NO_GROUP,
    )


def _show_changes() -> dashboard.Panel:
    return show_lines(
        "Members that came and went",
        About(
            "Members per minute that joined, left or were replaced. Of the latter two, those whose session or poll "
            "limit was over are shown once more, as soon as the diagnosis knows.",
            "bars at deploys only.",
            "left and joined in pairs: the same process returns under a new id. What was found tells why it went.",
        ),
        (Query(f"60 * sum by (change) ({rate('member_changes_total', 'change')})", "{{change}}"),),
        unit=units.CountsPerMinute,
        empty=NO_GROUP,
    )


def _show_findings() -> dashboard.Panel:
    # Not the rate of findings_total: a diagnosis has no series before its first finding, which no rate would show.
    return show_lines(
        "Findings over time",
        About(
            "Open findings by diagnosis.",
            "nothing here.",
            "the one that begins with each rebalance is the cause to work on; others follow from it.",
        ),
        (Query(f"sum by (rule) ({gauge('finding_active', 'rule')})", "{{rule}}"),),
        unit=units.Short,
        empty="nothing was found",
        stacked=True,
    )


def _show_late() -> dashboard.Panel:
    by_member = ("client_id", "host")
    return show_table(
        "Members by age of their last heartbeat",
        About(
            "Members as they last reported: age of the last heartbeat, what is left of the session, time since "
            "the last poll.",
            "ages of seconds; sessions nearly whole.",
            "one member far from the others: that process or its host. All alike: their settings or their work.",
        ),
        (
            TableColumn("cluster"),
            TableColumn("group"),
            TableColumn("client_id", width=240),
            TableColumn("host"),
            TableColumn("Last heartbeat", gauge("member_heartbeat_age_seconds", *by_member), units.Seconds),
            TableColumn(
                "Session left",
                gauge("member_heartbeat_headroom_ratio", *by_member),
                units.PercentUnit,
                ((None, BAD), (0.34, CLEAR)),
            ),
            TableColumn("Last poll", gauge("member_poll_age_seconds", *by_member), units.Seconds),
        ),
        empty=NO_MEMBERS,
        sort="Last heartbeat",
    )


def _show_generations() -> dashboard.Panel:
    return show_lines(
        "Generations",
        About(
            "Generations per minute: completed ones got an assignment, aborted ones were overtaken by the next round.",
            "one per rebalance, two with a cooperative assignor.",
            "aborted ones: members come or go faster than the group can settle.",
        ),
        (Query(f"60 * sum by (outcome) ({rate('generations_total', 'outcome')})", "{{outcome}}"),),
        unit=units.CountsPerMinute,
        empty=NO_GROUP,
        stacked=True,
    )


def _show_moved() -> dashboard.Panel:
    return show_lines(
        "Partitions moved",
        About(
            "Partitions per minute that changed from one member to another; a restarted member is the same one.",
            "few, even when there are rebalances.",
            "all of them each time: take a sticky or cooperative assignor.",
        ),
        (Query(f"60 * {rate('moved_partitions_total')}", GROUP_NAME),),
        unit=units.CountsPerMinute,
        empty=NO_GROUP,
        stacked=True,
    )


def _show_spread() -> dashboard.Panel:
    return show_lines(
        "Partitions per member",
        About(
            "Partitions of the member that has most, the mean, and members without any.",
            "most and mean close together, nobody idle.",
            "idle members: fewer members or more partitions. Most at twice the mean: another assignor.",
        ),
        (
            Query(gauge("group_member_partitions_max"), f"{GROUP_NAME}: most"),
            Query(f"{gauge('group_assigned_partitions')} / {gauge('group_members')}", f"{GROUP_NAME}: mean"),
            Query(gauge("group_idle_members"), f"{GROUP_NAME}: idle members"),
        ),
        unit=units.Short,
        empty="assignments cannot be read, or there are none",
    )

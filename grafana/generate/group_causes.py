"""Rows of the group dashboard: members that cause rebalances, durations, and the assignment of partitions."""

from __future__ import annotations

from grafana.generate import colours
from grafana.generate.board import BoardRow
from grafana.generate.panels import (
    BAD,
    CLEAR,
    PER_MINUTE,
    About,
    Query,
    TableColumn,
    show_heatmap,
    show_lines,
    show_table,
)
from grafana.generate.queries import gauge, increase, of_groups, per_group, rate
from grafana.generate.sdk import dashboard, units
from grafana.generate.texts import GROUP_NAME, NO_GROUP, NO_MEMBERS, NO_REBALANCE


def make_rows() -> tuple[BoardRow, ...]:
    """Return the rows that are always visible."""
    return (BoardRow("Who causes it", 8, ((7, _show_changes()), (7, _show_members()), (10, _show_late()))),)


def make_details() -> tuple[BoardRow, ...]:
    """Return the rows with details."""
    return (
        BoardRow("How long it takes", 8, ((8, _show_quantiles()), (8, _show_durations()), (8, _show_state_shares()))),
        BoardRow("Assignment", 8, ((8, _show_generations()), (8, _show_moved()), (8, _show_spread())), collapsed=True),
    )


def _show_quantiles() -> dashboard.Panel:
    buckets = f"sum by (le) ({increase('duration_seconds_bucket', 'le', over='30m')})"
    total = f"sum({increase('duration_seconds_sum', over='30m')})"
    count = f"sum({increase('duration_seconds_count', over='30m')})"
    return show_lines(
        "Durations, 30 min",
        About(
            "Mean, median and p95 of the durations of rebalances within 30 min, start to stable. Dots are single "
            "rebalances with their id, where Prometheus stores exemplars. Counted from probes, short ones are missing.",
            "seconds.",
            "about max.poll.interval.ms: everybody waits for a member that does not poll. About the session timeout: "
            "for one that is gone.",
        ),
        (
            Query(f"histogram_quantile(0.95, {buckets})", "p95", exemplars=True, colours="red"),
            Query(f"histogram_quantile(0.5, {buckets})", "median", colours="green"),
            Query(f"{total} / {count}", "mean", colours="blue"),
        ),
        unit=units.Seconds,
        empty="no rebalance in 30 min",
        limit=(60, BAD),
    )


def _show_durations() -> dashboard.Panel:
    return show_heatmap(
        "Durations",
        About(
            "How long rebalances took; what stands out most is where most were. Counted 20 s after their end. Counted "
            "from probes, short ones are missing.",
            "seconds.",
            "bands show causes: one at the session timeout, one at max.poll.interval.ms.",
        ),
        f"sum by (le) ({increase('duration_seconds_bucket', 'le', over='$__interval')})",
        unit=units.Seconds,
        empty=NO_GROUP,
    )


def _show_state_shares() -> dashboard.Panel:
    # Divided by the number of all groups: groups of other types have other states, so averages per state would add up
    # to more than 100 %.
    groups = f"scalar(count({per_group(of_groups('group_info'), by='group')}))"
    return show_lines(
        "Time by state, as probed",
        About(
            "Share of the time in each state that a prober saw. A state that begins and ends between two probes is not "
            "in it, so it shows less than Share of time rebalancing, which counts from the log: take that one for how "
            "much, this one for which phase.",
            "all Stable.",
            "PreparingRebalance: members are waited for. CompletingRebalance: the leader computes. Reconciling: "
            "somebody does not give partitions up.",
        ),
        (
            Query(
                f"sum by (state) ({rate('state_seconds_total', 'state')}) / {groups} > 0",
                "{{state}}",
                colours=colours.STATES,
            ),
        ),
        unit=units.PercentUnit,
        empty=NO_GROUP,
        stacked=True,
        highest=1,
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
            Query(gauge("group_members"), f"{GROUP_NAME}: members", colours="green"),
            Query(gauge("group_generation"), f"{GROUP_NAME}: generation", unit=units.Short, colours="purple"),
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
            "left and joined in pairs: the same process returns under a new id. Open findings says why it went.",
        ),
        (
            Query(
                f"60 * sum by (change) ({rate('member_changes_total', 'change')}) > 0",
                "{{change}}",
                colours=colours.CHANGES,
            ),
        ),
        unit=PER_MINUTE,
        empty="no member came or went in the time shown",
    )


def _show_late() -> dashboard.Panel:
    by_member = ("client_id", "host")
    poll = f"ceil({gauge('member_poll_age_seconds', *by_member)})"
    beat = f"ceil({gauge('member_heartbeat_age_seconds', *by_member)})"
    left = gauge("member_heartbeat_headroom_ratio", *by_member)
    # A library may report only one of them; with a single non-empty result Grafana would name its values differently.
    unknown = f"NaN * ({poll} or {beat})"
    return show_table(
        "Members by age of their last heartbeat",
        About(
            "Members as they last reported: age of the last heartbeat, what is left of the session, time since "
            "the last poll.",
            "ages of seconds; sessions nearly whole.",
            "one member far from the others: that process or its host. All alike: their settings or their work.",
        ),
        (
            TableColumn("Client", label="client_id"),
            TableColumn("Host", label="host", width=100),
            TableColumn("Heartbeat", f"{beat} or {unknown}", units.Seconds, width=85),
            TableColumn(
                "Session left",
                f"{left} or {unknown}",
                units.PercentUnit,
                steps=((None, BAD), (0.34, CLEAR)),
                width=95,
            ),
            TableColumn("Poll", f"{poll} or {unknown}", units.Seconds, width=60),
        ),
        empty=NO_MEMBERS,
        sort="Heartbeat",
    )


def _show_generations() -> dashboard.Panel:
    return show_lines(
        "Generations",
        About(
            "Generations per minute: completed ones got an assignment, aborted ones were overtaken by the next round.",
            "one per rebalance, two with a cooperative assignor.",
            "aborted ones: members come or go faster than the group can settle.",
        ),
        (
            Query(
                f"60 * sum by (outcome) ({rate('generations_total', 'outcome')}) > 0",
                "{{outcome}}",
                colours=colours.GENERATIONS,
            ),
        ),
        unit=PER_MINUTE,
        empty=NO_REBALANCE,
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
        (Query(f"60 * {rate('moved_partitions_total')} > 0", GROUP_NAME, colours="blue"),),
        unit=PER_MINUTE,
        empty="no partition moved in the time shown",
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
            Query(gauge("group_member_partitions_max"), f"{GROUP_NAME}: most", colours="orange"),
            Query(
                f"{gauge('group_assigned_partitions')} / {gauge('group_members')}",
                f"{GROUP_NAME}: mean",
                colours="green",
            ),
            Query(gauge("group_idle_members"), f"{GROUP_NAME}: idle members", colours="red"),
        ),
        unit=units.Short,
        empty="assignments cannot be read, or there are none",
    )

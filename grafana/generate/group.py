"""The dashboard of one or a few groups: rebalances, their causes, the members involved, costs, and what to change."""

from __future__ import annotations

from grafana.generate import colours, found, group_causes, group_costs
from grafana.generate.board import Board, BoardRow, choose_group, choose_topics, side_by_side
from grafana.generate.links import GROUP, ROW, SERIES, to_live_page
from grafana.generate.panels import (
    BAD,
    GOOD,
    PER_MINUTE,
    WORSE,
    About,
    Query,
    show_lines,
    show_stat,
    show_timeline,
)
from grafana.generate.queries import gauge, increase, or_none_known, rate, severity_codes, window
from grafana.generate.sdk import dashboard, units
from grafana.generate.texts import (
    ASKING,
    GROUP_NAME,
    NO_EXPORTER,
    NO_GROUP,
    NO_PROBE,
    NO_REBALANCE,
    SEVERITIES,
    STATES,
)

_STATES, _SHARES = "State over time", "Share of time rebalancing"


def make() -> Board:
    """Return the dashboard."""
    return Board(
        uid=GROUP,
        description=(
            "One consumer group: what is wrong, who, since when, what it costs, what to change. Purple marks stand at "
            "the moments of rebalances, those within one step of the panel together; the live page explains each."
        ),
        rows=(
            BoardRow(
                "", 3, (*found.show_leading(to_live_page(*SERIES), group=False), (4, _show_share()), (4, _show_often()))
            ),
            BoardRow("", 3, side_by_side(3, *_show_costs())),
            BoardRow("", 7, ((24, found.show_open(to_live_page(*ROW), of_one=True)),)),
            BoardRow(
                "What happens",
                8,
                side_by_side(12, _show_states(), _show_shares(), _show_by_reason(), _show_findings()),
            ),
            *group_causes.make_rows(),
            *group_costs.make_rows(),
            *group_causes.make_details(),
            *group_costs.make_details(),
        ),
        variables=(choose_group(), choose_topics()),
        since="now-1h",
        marked=(_STATES, _SHARES),
    )


def _show_costs() -> tuple[dashboard.Panel, ...]:
    return (
        _show_lost_time(),
        _show_behind(),
        _show_lag_now(),
        _show_last_commit(),
        _show_members_now(),
        _show_asking(),
        _show_last(),
        _show_state(),
    )


def _show_lost_time() -> dashboard.Panel:
    return show_stat(
        "Time lost",
        About(
            "Time that partitions went without a commit because of rebalances, added up over the group's partitions, "
            "in the time shown. Gaps below 7.5 s do not count.",
            "small beside the time shown, times the partitions.",
            "see What it costs.",
        ),
        increase("lost_partition_seconds_total"),
        unit=units.Seconds,
        empty=NO_GROUP,
        links=(to_live_page(*SERIES),),
        legend="{{group}}",
    )


def _show_members_now() -> dashboard.Panel:
    return show_stat(
        "Members",
        About("Members after the last rebalance.", "as many as you run.", "fewer: see Members that came and went."),
        gauge("group_members"),
        unit=units.Short,
        empty=NO_GROUP,
        links=(to_live_page(*SERIES),),
        legend="{{group}}",
    )


def _show_state() -> dashboard.Panel:
    page = (to_live_page(*SERIES),)
    return show_stat(
        "State",
        About(
            "The group's last known state. Decoration: sampled, it misses most rebalances.",
            "Stable, or Empty on purpose.",
            "any other one for minutes: somebody is waited for. The live page names the member.",
        ),
        gauge("group_state_code"),
        unit=units.Number,
        empty=NO_GROUP,
        texts=STATES,
        links=page,
        legend="{{group}}",
    )


def _show_last() -> dashboard.Panel:
    page = (to_live_page(*SERIES),)
    return show_stat(
        "Last rebalance",
        About(
            "When the last rebalance was completed, or began if it goes on.",
            "days ago, or at the last deploy.",
            "minutes ago again and again: see Rebalances by reason.",
        ),
        f"1000 * {gauge('last_rebalance_timestamp_seconds')}",
        unit=units.DateTimeFromNow,
        empty="no rebalance was seen",
        links=page,
        legend="{{group}}",
    )


def _show_often() -> dashboard.Panel:
    page = (to_live_page(*SERIES),)
    return show_stat(
        "Rebalances, 15 min",
        About(
            "Logical rebalances of the last 15 min, summed up by the stream. Counted from probes, at least so many.",
            "0.",
            "more than 5 are a storm: the table below says of which kind.",
        ),
        window("rebalances", "15m"),
        unit=units.Short,
        empty=NO_GROUP,
        steps=((None, GOOD), (3, WORSE), (6, BAD)),
        links=page,
        legend="{{group}}",
        trend=True,
    )


def _show_share() -> dashboard.Panel:
    page = (to_live_page(*SERIES),)
    return show_stat(
        "Rebalancing, 5 min",
        About(
            "Share of the last 5 min spent rebalancing.",
            "0 %.",
            "above 25 % the group hardly consumes: act on the table below.",
        ),
        window("rebalancing_ratio", "5m"),
        unit=units.PercentUnit,
        empty=NO_GROUP,
        steps=((None, GOOD), (0.1, WORSE), (0.25, BAD)),
        links=page,
        legend="{{group}}",
        trend=True,
    )


def _show_lag_now() -> dashboard.Panel:
    page = (to_live_page(*SERIES),)
    return show_stat(
        "Lag",
        About(
            "Records between what is committed and the end of the partitions; for groups that read committed "
            "records, the last stable offset.",
            "what this group usually has.",
            "look whether it grows: Growth of lag.",
        ),
        gauge("group_lag"),
        unit=units.Short,
        empty=NO_PROBE,
        links=page,
        legend="{{group}}",
    )


def _show_behind() -> dashboard.Panel:
    page = (to_live_page(*SERIES),)
    return show_stat(
        "Behind",
        About(
            "How long the oldest record that is not committed has been there.",
            "seconds.",
            "minutes: somebody reads old data. Beside rebalances, they are why; without, the work is too slow.",
        ),
        f"ceil({gauge('group_time_lag_seconds')})",
        unit=units.Seconds,
        empty=NO_PROBE,
        steps=((None, GOOD), (60, WORSE), (300, BAD)),
        links=page,
        legend="{{group}}",
        trend=True,
    )


def _show_last_commit() -> dashboard.Panel:
    page = (to_live_page(*SERIES),)
    return show_stat(
        "Last commit",
        About(
            "Time since the group's last offset commit.",
            "its commit interval, while there is work.",
            "it grows with lag: nothing gets on. It grows without lag: there is nothing to do.",
        ),
        f"ceil({gauge('group_commit_age_seconds')})",
        unit=units.Seconds,
        empty="no commit was read",
        links=page,
        legend="{{group}}",
    )


def _show_asking() -> dashboard.Panel:
    return show_stat(
        "Open findings",
        About(
            "Diagnoses that are open and ask for somebody: severity page or ticket. Those of silenced groups ask "
            "nobody, and are on the live page.",
            "0.",
            "the table below says what to do.",
        ),
        or_none_known("sum(" + gauge("finding_active", "rule", where=f'severity=~"{ASKING}"') + ")"),
        unit=units.Short,
        empty=NO_EXPORTER,
        steps=((None, GOOD), (1, WORSE)),
    )


def _show_states() -> dashboard.Panel:
    return show_timeline(
        _STATES,
        About(
            "The last known state at each scrape. Short rebalances fall between scrapes; the purple marks have them.",
            "one green band.",
            "long parts of another colour: everybody waits for one member. Open the live page, which names it.",
        ),
        Query(gauge("group_state_code"), GROUP_NAME),
        empty="not known",
        texts=STATES,
        links=(to_live_page(*SERIES),),
    )


def _show_findings() -> dashboard.Panel:
    return show_timeline(
        "Findings over time",
        About(
            "When which diagnosis was open, coloured by its severity.",
            "nothing here.",
            "the one that begins with each rebalance is the cause to work on; others follow from it.",
        ),
        Query(f"max by (rule) ({severity_codes()})", "{{rule}}"),
        empty="none open",
        texts=SEVERITIES,
    )


def _show_by_reason() -> dashboard.Panel:
    return show_lines(
        "Rebalances by reason",
        About(
            "Rebalances per minute by what set them off in the log. Counted from probes, they are at least so many.",
            "bars at deploys only.",
            "departure: members are lost, see Who causes it. join without departure: somebody scales or restarts. "
            "subscription_change, topic_metadata_change, leader_rejoin: the client asks for it.",
        ),
        (
            Query(
                f"60 * sum by (reason) ({rate('rebalances_total', 'reason')}) > 0",
                "{{reason}}",
                exemplars=True,
                colours=colours.REASONS,
            ),
        ),
        unit=PER_MINUTE,
        empty=NO_REBALANCE,
        stacked=True,
    )


def _show_shares() -> dashboard.Panel:
    return show_lines(
        _SHARES,
        About(
            "Share of the last 5 min and of the last minute spent rebalancing, from the first sign of it to the new "
            "assignment, as the stream sums it up from the log. It needs no prober.",
            "0 with single peaks.",
            "above the line for more than minutes, the group hardly consumes.",
        ),
        (
            Query(window("rebalancing_ratio", "5m"), f"{GROUP_NAME}: 5 min", colours="orange"),
            Query(window("rebalancing_ratio", "1m"), f"{GROUP_NAME}: 1 min", colours="blue"),
        ),
        unit=units.PercentUnit,
        empty=NO_GROUP,
        highest=1,
        limit=(0.25, BAD),
    )

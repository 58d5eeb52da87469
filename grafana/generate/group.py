"""The dashboard of one group, or a few: what happens to it, what set it off, who, what it costs, what to change."""

from __future__ import annotations

from grafana.generate import group_causes, group_costs
from grafana.generate.board import Board, BoardRow, annotate_rebalances
from grafana.generate.links import GROUP, ROW, SERIES, to_live_page
from grafana.generate.panels import (
    BAD,
    GOOD,
    WORSE,
    About,
    Query,
    TableColumn,
    show_lines,
    show_stat,
    show_table,
    show_timeline,
)
from grafana.generate.queries import gauge, of_groups, or_none_known, per_group, rate, window
from grafana.generate.sdk import dashboard, units
from grafana.generate.texts import ACTIONS, ASKING, GROUP_NAME, NO_EXPORTER, NO_GROUP, NO_PROBE, SEVERITIES, STATES


def make() -> Board:
    """Return the dashboard."""
    return Board(
        uid=GROUP,
        description=(
            "One consumer group: its rebalances, what set them off, who caused them, what they cost, what to change. "
            "Purple marks are the exact moments of rebalances; the live page explains each of them."
        ),
        rows=(
            BoardRow("Verdict", 4, tuple((3, panel) for panel in _show_verdict())),
            BoardRow("What was found", 8, ((24, _show_found()),)),
            BoardRow(
                "What happens",
                8,
                ((12, _show_states()), (12, _show_state_shares()), (12, _show_by_reason()), (12, _show_shares())),
            ),
            *group_causes.make_rows(),
            *group_costs.make_rows(),
        ),
        by_group=True,
        since="now-1h",
        annotations=(annotate_rebalances(),),
    )


def _show_verdict() -> tuple[dashboard.Panel, ...]:
    return (
        _show_state(),
        _show_last(),
        _show_often(),
        _show_share(),
        _show_lag_now(),
        _show_behind(),
        _show_last_commit(),
        _show_open(),
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
            "Logical rebalances of the last 15 min, summed up by the stream.",
            "0.",
            "more than 5 are a storm: What was found says of which kind.",
        ),
        window("rebalances", "15m"),
        unit=units.Short,
        empty=NO_GROUP,
        steps=((None, GOOD), (3, WORSE), (6, BAD)),
        links=page,
        legend="{{group}}",
    )


def _show_share() -> dashboard.Panel:
    page = (to_live_page(*SERIES),)
    return show_stat(
        "Rebalancing, 15 min",
        About(
            "Share of the last 15 min spent rebalancing.",
            "0 %.",
            "above 25 % the group hardly consumes: act on What was found.",
        ),
        window("rebalancing_ratio", "15m"),
        unit=units.PercentUnit,
        empty=NO_GROUP,
        steps=((None, GOOD), (0.1, WORSE), (0.25, BAD)),
        links=page,
        legend="{{group}}",
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
        gauge("group_time_lag_seconds"),
        unit=units.DurationSeconds,
        empty=NO_PROBE,
        steps=((None, GOOD), (60, WORSE), (300, BAD)),
        links=page,
        legend="{{group}}",
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
        gauge("group_commit_age_seconds"),
        unit=units.DurationSeconds,
        empty="no commit was read",
        links=page,
        legend="{{group}}",
    )


def _show_open() -> dashboard.Panel:
    return show_stat(
        "Open findings",
        About(
            "Diagnoses that are open and ask for somebody: severity page or ticket. Those of silenced groups ask "
            "nobody, and are on the live page.",
            "0.",
            "What was found says what to do.",
        ),
        or_none_known("sum(" + gauge("finding_active", "rule", where=f'severity=~"{ASKING}"') + ")"),
        unit=units.Short,
        empty=NO_EXPORTER,
        steps=((None, GOOD), (1, WORSE)),
    )


def _show_found() -> dashboard.Panel:
    advised = f'label_replace({gauge("finding_active", "rule", "severity")}, "what_to_do", "$1", "rule", "(.*)")'
    return show_table(
        "Findings and what to do",
        About(
            "Diagnoses that are open, and for a while those that were. Evidence, numbers and what was ruled out are on "
            "the live page.",
            "nothing here, or severity info only.",
            "do what the last column says; docs/diagnoses.md has the reasons.",
        ),
        (
            TableColumn("severity", texts=SEVERITIES, width=90),
            TableColumn("cluster", links=(to_live_page(*ROW),), width=140),
            TableColumn("group", links=(to_live_page(*ROW),), width=260),
            TableColumn("rule", width=240),
            TableColumn("what_to_do", texts=ACTIONS, wrap=True),
            TableColumn("Open", advised, units.Number, texts={"0": "was", "1": ("open", WORSE)}, width=90),
        ),
        empty="nothing was found",
        sort="Open",
    )


def _show_states() -> dashboard.Panel:
    return show_timeline(
        "State over time",
        About(
            "The last known state at each scrape. Short rebalances fall between scrapes: the purple marks are exact.",
            "one green band.",
            "long orange parts: everybody waits for one member. Hover the mark, then open the live page.",
        ),
        Query(gauge("group_state_code"), GROUP_NAME),
        empty=NO_GROUP,
        texts=STATES,
        links=(to_live_page(*SERIES),),
    )


def _show_state_shares() -> dashboard.Panel:
    # Groups of other types have other states, so an average per state would add up to more than all.
    groups = f"scalar(count({per_group(of_groups('group_info'), by='group')}))"
    return show_lines(
        "Time by state",
        About(
            "Share of the time spent per state, added up at the source, so short states count too. Of a classic group "
            "only a prober sees the states between Empty and Stable.",
            "all Stable.",
            "PreparingRebalance: members are waited for. CompletingRebalance: the leader computes. Reconciling: "
            "somebody does not give partitions up.",
        ),
        (Query(f"sum by (state) ({rate('state_seconds_total', 'state')}) / {groups}", "{{state}}"),),
        unit=units.PercentUnit,
        empty=NO_GROUP,
        stacked=True,
    )


def _show_by_reason() -> dashboard.Panel:
    return show_lines(
        "Rebalances by reason",
        About(
            "Rebalances per minute by what set them off in the log.",
            "bars at deploys only.",
            "departure: members are lost, see Who causes it. join without departure: somebody scales or restarts. "
            "subscription_change, topic_metadata_change, leader_rejoin: the client asks for it.",
        ),
        (Query(f"60 * sum by (reason) ({rate('rebalances_total', 'reason')})", "{{reason}}", exemplars=True),),
        unit=units.CountsPerMinute,
        empty=NO_GROUP,
        stacked=True,
    )


def _show_shares() -> dashboard.Panel:
    return show_lines(
        "Share of time rebalancing",
        About(
            "Share of the last 5 min and of the last minute spent rebalancing, as the stream sums it up.",
            "0 with single peaks.",
            "above the line for more than minutes, the group hardly consumes.",
        ),
        (
            Query(window("rebalancing_ratio", "5m"), f"{GROUP_NAME}: 5 min"),
            Query(window("rebalancing_ratio", "1m"), f"{GROUP_NAME}: 1 min"),
        ),
        unit=units.PercentUnit,
        empty=NO_GROUP,
        highest=1,
        limit=(0.25, BAD),
    )

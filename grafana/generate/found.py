"""Panels for the findings, at the top of the fleet and group dashboards: the most important one, then all others."""

from __future__ import annotations

from collections.abc import Mapping

from grafana.generate.panels import (
    BAD,
    GOOD,
    WORSE,
    About,
    Steps,
    TableColumn,
    show_stat,
    show_table,
)
from grafana.generate.queries import gravest, leading, named, of_findings, or_nobody, severity_codes, with_details
from grafana.generate.sdk import dashboard, units
from grafana.generate.texts import ACTIONS, NO_EXPORTER, NO_FINDING, SEVERITIES

_Link = Mapping[str, object]

#: Texts for no finding above severity info; those of severity info are still in the table.
_CALM, _NEVER = "nothing to act on", "-"

#: Colours by the value of `leading`: a ticket is 20 or more, a page 30 or more. Below 0 no exporter is scraped, see
#: `queries.or_nobody`.
_BY_SEVERITY: Steps = ((None, BAD), (0, GOOD), (19, WORSE), (29, BAD))


def show_leading(*links: _Link, group: bool) -> tuple[tuple[int, dashboard.Panel], ...]:
    """Return panels, with widths, about the most important finding; with `group` also one for its group."""
    if group:
        panels = (_show_group(*links), _show_rule("Why", *links), _show_who(*links), _show_since(*links))
        return tuple(zip((7, 6, 6, 5), panels, strict=True))
    panels_of_one = (_show_rule("What is wrong", *links), _show_who(*links), _show_since(*links))
    return tuple(zip((6, 6, 4), panels_of_one, strict=True))


def _show_group(*links: _Link) -> dashboard.Panel:
    return show_stat(
        "Which group",
        About(
            "The group of the gravest open finding that asks for somebody: severity first, then causes, then how sure "
            "the diagnosis is. Red is page, orange is ticket.",
            "none.",
            "read on to the right, then the first row below: it says what to change.",
        ),
        or_nobody(named(leading(), "group", "the whole cluster"), "none"),
        unit=units.Number,
        empty=NO_EXPORTER,
        steps=_BY_SEVERITY,
        links=links,
        legend="{{name}}",
        named=True,
    )


def _show_rule(title: str, *links: _Link) -> dashboard.Panel:
    return show_stat(
        title,
        About(
            "The diagnosis that is to be read first; docs/diagnoses.md explains it.",
            _CALM + ".",
            "the table below has what to change, the live page the evidence.",
        ),
        or_nobody(named(leading(), "rule", "-"), _CALM),
        unit=units.Number,
        empty=NO_EXPORTER,
        steps=_BY_SEVERITY,
        links=links,
        legend="{{name}}",
        named=True,
    )


def _show_who(*links: _Link) -> dashboard.Panel:
    return show_stat(
        "Who",
        About(
            "The client and host that this finding is about.",
            "nobody.",
            "look there first: its log, its settings, its host.",
        ),
        or_nobody(named(with_details(leading(), "who"), "who", "the group as a whole"), "nobody"),
        unit=units.Number,
        empty=NO_EXPORTER,
        steps=_BY_SEVERITY,
        links=links,
        legend="{{name}}",
        named=True,
    )


def _show_since(*links: _Link) -> dashboard.Panel:
    start = of_findings("start_timestamp_seconds")
    return show_stat(
        "Since",
        About(
            "Since when this finding is open.",
            "nothing here.",
            "what was deployed or changed just before?",
        ),
        f"1000 * ({start} and {leading()})",
        unit=units.DateTimeFromNow,
        empty=_NEVER,
        links=links,
    )


def show_open(*links: _Link, of_one: bool = False) -> dashboard.Panel:
    """Return the table of open findings and what to change, most important first.

    `of_one`: usually only one group is chosen, so its name is in the last column.
    """
    open_for = f"time() - {of_findings('start_timestamp_seconds')}"
    named_group = TableColumn("Group", label="group", links=links, width=150)
    return show_table(
        "Open findings and what to change",
        About(
            "Diagnoses that are open, first what to read first: by severity, then causes before what follows from "
            "them, then how sure the diagnosis is. An empty group means the whole cluster, nobody under Who the group "
            "as a whole. Evidence and further advice are on the live page.",
            "nothing here, or severity info only.",
            "do what the last columns say; docs/diagnoses.md has the reasons.",
        ),
        (
            TableColumn("Severity", severity_codes(), units.Number, texts=SEVERITIES, width=75),
            *(() if of_one else (named_group,)),
            TableColumn("Diagnosis", label="rule", width=205),
            TableColumn("Sure", of_findings("confidence"), units.PercentUnit, decimals=0, width=55),
            TableColumn("Open for", open_for, units.Seconds, decimals=0, width=75),
            TableColumn("Who", label="who", width=170),
            TableColumn("What to set or do", label="change", texts=ACTIONS, wrap=True),
            *((named_group,) if of_one else ()),
            TableColumn("Cluster", label="cluster", links=links, width=75),
            # Hidden: the sort key, and the query that the labels come from.
            TableColumn("Order", gravest(), hidden=True),
            TableColumn("Known", _advised(), hidden=True),
        ),
        empty=NO_FINDING,
        sort="Order",
    )


def _advised() -> str:
    """Return the query of findings with their subject and, as label `change`, the advice.

    The advice is `max.poll.interval.ms: 6000 → 60000`, without the current value if it is unknown. For a finding
    without its own advice, its rule stands for the action in the catalogue.
    """

    def advice(where: str) -> str:
        found = of_findings("info", "who", "parameter", "current", "proposed", where=where)
        # Only the number is kept; the live page has the full text.
        return f'label_replace({found}, "proposed", "$1", "proposed", "([0-9]+), which is .*")'

    replaced = f"""label_join({advice('current!="",proposed!=""')}, "change", " → ", "current", "proposed")"""
    set_anew = advice('current="",proposed!="",parameter!="code"')
    settings = f"""{replaced} or label_join({set_anew}, "change", "", "proposed")"""
    code = f"""label_join({advice('proposed!="",parameter="code"')}, "change", "", "proposed")"""
    unadvised = f"""label_replace({of_findings("info", "who", where='proposed=""')}, "change", "$1", "rule", "(.*)")"""
    return f"""label_join({settings}, "change", ": ", "parameter", "change") or {code} or {unadvised}"""

"""`report --html`: the report as one self-contained file, for light and dark screens and for paper. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import resources
from urllib.parse import quote

from rebalance_contract.api_reports import PeriodGroup, PeriodReport, PeriodSetting, PeriodSums, PeriodWorth
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.markup import Markup, element, join, name_of
from rebalance_exporters.terminal.period import (
    SHOWN_CAUSES,
    SHOWN_CHANGES,
    SHOWN_GROUPS,
    SHOWN_WORTH,
    causes_of,
    change,
    change_of_count,
    dates,
    explained,
    explained_by,
    gravest_change,
    groups_of,
    lost,
    notes,
    other_settings,
    verdict,
    worth_groups,
    worth_title,
)
from rebalance_exporters.text.avoided import saved
from rebalance_exporters.text.figures import UNKNOWN, amount, length, plural, span

_STYLE = "report.css"
#: The page loads nothing and runs no scripts, whatever the names in it contain.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_CHART_HEIGHT, _BAR, _BAR_GAP = 120, 14, 4

#: Returns the name of a group (cluster, group), as a link to its page if others can reach the exporter's address.
_Linker = Callable[[str, str], Markup]


def write_html(report: PeriodReport, clock: Clock, access: Access) -> str:
    """Return the document."""
    name_group = _linker(report, access)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"Rebalances, {dates(report, clock)}"),
        Markup(f"<style>{_read_style()}</style>"),
    )
    body = element("body", element("main", *_sections(report, clock, name_group)))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _read_style() -> str:
    return resources.files(__package__).joinpath(_STYLE).read_text(encoding="utf-8")


def _linker(report: PeriodReport, access: Access) -> _Linker:
    """Return a function that names a group, with a link to its page unless the exporter's address is local."""
    many = len({each.cluster for each in (*report.groups, *report.changed)}) > 1

    def name_group(cluster: str, group: str) -> Markup:
        named = join(name_of(group), *([element("span", f" {cluster}", class_="quiet")] if many else []))
        if access.is_local:
            return named
        where = f"{access.url.rstrip('/')}/#/groups/{quote(cluster, safe='')}/{quote(group, safe='')}"
        return element("a", named, href=where)

    return name_group


def _sections(report: PeriodReport, clock: Clock, name_group: _Linker) -> Iterator[Markup]:
    yield element("p", f"Rebalances, {dates(report, clock)}", class_="eyebrow")
    yield element("h1", verdict(report))
    yield element("div", *_tiles(report), class_="tiles")
    others = other_settings(report)
    left = [_section("What to set, by what it would have avoided", *_worth(report))]
    if others:
        left.append(_section("What else findings advise, by the time lost that it explains", *_settings(others)))
    right = (
        _section("What changed most", *_changes(report, name_group)),
        _section("When it was lost", _chart(report, clock)),
    )
    yield element("div", element("div", *left, class_="stack"), element("div", *right, class_="stack"), class_="pair")
    yield _section("Groups by time lost", *_groups(report, name_group))
    yield _section("Causes", *_causes(report))
    said = (f"{each[0].upper()}{each[1:]}." for each in notes(report, clock))
    yield element("footer", *(element("p", each) for each in (*said, *_reading(report, clock))))


def _section(title: str, *content: Markup) -> Markup:
    return element("section", element("h2", title), *content)


def _tiles(report: PeriodReport) -> Iterator[Markup]:
    now, before = report.sums, report.before
    groups = f"of {plural(report.rebalanced_groups, 'group')}; {amount(report.known_groups)} are known now"
    tiles = [
        ("Time lost", lost(now), "of partitions without commits"),
        ("Rebalances", amount(now.rebalances), groups),
        ("Spent rebalancing", length(now.rebalancing_ms), "all groups together, at least"),
    ]
    changes: list[tuple[str, str] | None] = [None] * len(tiles)
    if before is not None:
        changes = [
            (lost(before), change(now.lost_partition_ms, before.lost_partition_ms)),
            (amount(before.rebalances), change_of_count(now.rebalances, before.rebalances)),
            (length(before.rebalancing_ms), change(now.rebalancing_ms, before.rebalancing_ms)),
        ]
    for tile, changed in zip(tiles, changes, strict=True):
        yield _tile(*tile, changed)
    known = explained(report)
    what = "of the time lost has a cause" if now.lost_partition_ms else "of the time rebalancing has a cause"
    yield _tile("Explained", UNKNOWN if known is None else f"{known:.0%}", what, None)


def _tile(title: str, figure: str, what: str, before: tuple[str, str] | None) -> Markup:
    """Return a number with its title; `before` is the previous number and the change, null if not known."""
    below = []
    if before is not None:
        changed = element("span", f"({before[1]})", class_=_tone(before[1]))
        below.append(element("p", f"before: {before[0]} ", changed, class_="quiet"))
    return element(
        "div",
        element("p", title, class_="label"),
        element("p", figure, class_="figure"),
        element("p", what, class_="quiet"),
        *below,
        class_="tile",
    )


def _tone(changed: str) -> str:
    return {"+": "worse", "-": "better"}.get(changed[0], "")


def _worth(report: PeriodReport) -> Iterator[Markup]:
    if not report.worth:
        yield element("p", "No setting would have avoided any of these rebalances, by what is known.", class_="quiet")
        return
    shown = report.worth[:SHOWN_WORTH]
    # Not by the time lost: a setting may avoid many rebalances that cost no commits.
    most = max(each.avoided.rebalances.high for each in shown)
    items = (_worth_item(each, most) for each in shown)
    yield element("ol", *items, class_="settings")
    said = (
        "A range runs from what the rebalances prove to what they leave open. Do not add the lines up: several "
        "settings may avoid the same rebalance. What each costs: rebalance-monitor advise GROUP."
    )
    yield element("p", said, class_="quiet small")


def _worth_item(worth: PeriodWorth, most: int) -> Markup:
    return element(
        "li",
        element("code", worth_title(worth)),
        _bar(worth.avoided.rebalances.high, most),
        element("p", element("strong", saved(worth.avoided)), " in ", name_of(worth_groups(worth)), class_="small"),
    )


def _settings(others: Sequence[PeriodSetting]) -> Iterator[Markup]:
    most = max(each.sums.lost_partition_ms for each in others)
    yield element("ol", *(_setting(each, most) for each in others), class_="settings")
    yield element("p", "Several may be advised against the same rebalances: do not add them up.", class_="quiet small")


def _setting(setting: PeriodSetting, most_ms: int) -> Markup:
    now = [] if setting.current is None else [element("span", setting.current, class_="now"), " → "]
    return element(
        "li",
        element("code", setting.parameter),
        ": ",
        *now,
        element("strong", setting.proposed),
        _bar(setting.sums.lost_partition_ms, most_ms),
        element("p", "in ", name_of(groups_of(setting)), f": {explained_by(setting)}", class_="quiet small"),
    )


def _bar(part: int, whole: int) -> Markup:
    width = f"width:{100 * part / whole if whole else 0:.1f}%"
    return element("span", element("span", style=width), class_="bar", aria_hidden="true")


def _chart(report: PeriodReport, clock: Clock) -> Markup:
    """Return one bar per part of the period, of the time lost, or of the rebalances if no time was lost."""
    by_time = report.sums.lost_partition_ms > 0

    def size(sums: PeriodSums) -> int:
        return sums.lost_partition_ms if by_time else sums.rebalances

    parts = report.parts
    most = max((size(each.sums) for each in parts), default=0)
    bars = []
    for place, part in enumerate(parts):
        height = _CHART_HEIGHT * size(part.sums) / most if most else 0.0
        said = f"{clock.moment(part.from_ms)}: {plural(part.sums.rebalances, 'rebalance')}, {lost(part.sums)} lost"
        x, top = place * (_BAR + _BAR_GAP), _CHART_HEIGHT - height
        tall = element("rect", x=x, y=0, width=_BAR, height=_CHART_HEIGHT, class_="ground")
        bar = element("rect", x=x, y=f"{top:.1f}", width=_BAR, height=f"{height:.1f}", class_="value")
        bars.append(element("g", element("title", said), tall, bar))
    width = len(parts) * (_BAR + _BAR_GAP) - _BAR_GAP
    label = f"{'time lost' if by_time else 'rebalances'}, in {len(parts)} parts of the period"
    drawn = element(
        "svg", *bars, viewBox=f"0 0 {width} {_CHART_HEIGHT}", preserveAspectRatio="none", role="img", aria_label=label
    )
    days = element("div", *(element("span", each) for each in _ticks(report, clock)), class_="ticks")
    part_ms = (report.until_ms - report.since_ms) // len(parts) if parts else 0
    most_text = length(most) if by_time else plural(most, "rebalance")
    said = f"A bar is {span(part_ms)}; the highest is {most_text}."
    return element("figure", drawn, days, element("figcaption", said, class_="quiet small"))


def _ticks(report: PeriodReport, clock: Clock) -> Iterator[str]:
    """Yield the starts of seven equal parts of the period: days, or for less than three days the time too."""
    long = report.until_ms - report.since_ms >= 3 * 86_400_000
    for place in range(7):
        at = clock.at(report.since_ms + (report.until_ms - report.since_ms) * place // 7)
        yield f"{at:%a %d}" if long else f"{at:%a %H:%M}"


def _groups(report: PeriodReport, name_group: _Linker) -> Iterator[Markup]:
    if not report.groups:
        yield element("p", "No group rebalanced.", class_="quiet")
        return
    most = max(each.sums.lost_partition_ms for each in report.groups)
    compared = report.before is not None
    heads = ["Group", "Owner", "Lost", "", *(["Before"] if compared else []), "Rebalances", "Rebalancing", "Slowest"]
    if not any(each.owner for each in report.groups):
        heads.remove("Owner")
    shown = report.groups[:SHOWN_GROUPS]
    rows = (_group_cells(each, name_group, most, heads) for each in shown)
    yield _table((*heads, "Causes"), rows)
    more = report.rebalanced_groups - len(shown)
    if more:
        yield element("p", f"And {plural(more, 'group')} more that rebalanced.", class_="quiet small")


def _group_cells(group: PeriodGroup, name_group: _Linker, most: int, heads: Sequence[str]) -> tuple[str, ...]:
    cells = {
        "Group": name_group(group.cluster, group.group),
        "Owner": name_of(group.owner or UNKNOWN),
        "Lost": lost(group.sums),
        "": _bar(group.sums.lost_partition_ms, most),
        "Before": UNKNOWN if group.before is None else lost(group.before),
        "Rebalances": amount(group.sums.rebalances),
        "Rebalancing": length(group.sums.rebalancing_ms),
        "Slowest": span(group.slowest_ms),
    }
    return (*(cells[head] for head in heads), causes_of(group))


def _causes(report: PeriodReport) -> Iterator[Markup]:
    if not report.causes and not report.unexplained.rebalances:
        yield element("p", "None: nothing rebalanced.", class_="quiet")
        return
    compared = report.before is not None
    rows = [
        (
            each.rule,
            lost(each.sums),
            *([UNKNOWN if each.before is None else lost(each.before)] if compared else []),
            amount(each.sums.rebalances),
            amount(each.groups),
        )
        for each in report.causes[:SHOWN_CAUSES]
    ]
    if report.unexplained.rebalances:
        none = report.unexplained
        rest = [UNKNOWN] if compared else []
        rows.append(("no finding that is kept", lost(none), *rest, amount(none.rebalances), UNKNOWN))
    yield _table(("Cause", "Lost", *(["Before"] if compared else []), "Rebalances", "Groups"), rows)


def _changes(report: PeriodReport, name_group: _Linker) -> Iterator[Markup]:
    if report.before is None:
        yield element("p", "The period before is not known: see below.", class_="quiet")
    elif not report.changed:
        yield element("p", "Nothing.", class_="quiet")
    else:
        yield _table(("Group", "Lost", "Before", "Change"), _change_rows(report.changed[:SHOWN_CHANGES], name_group))


def _change_rows(groups: Iterable[PeriodGroup], name_group: _Linker) -> Iterator[tuple[str, ...]]:
    for each in groups:
        before = each.before or PeriodSums()
        changed = gravest_change(each.sums, before)
        change = element("span", changed, class_=_tone(changed))
        yield name_group(each.cluster, each.group), lost(each.sums), lost(before), change


def _reading(report: PeriodReport, clock: Clock) -> Iterator[str]:
    yield (
        "Time lost is how long partitions were without commits because of rebalances, added up over partitions, at "
        "most. A rebalance belongs to the period in which it began; its cause is the primary finding about it."
    )
    yield f"Made by rebalance-monitor {report.version}, {clock.moment(report.at_ms)}."


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table; columns are right-aligned except those with words or bars."""
    kinds = ["words" if each in _WORDS else "number" for each in heads]
    return element(
        "table",
        element(
            "thead", element("tr", *(element("th", head, class_=kind) for head, kind in zip(heads, kinds, strict=True)))
        ),
        element(
            "tbody",
            *(
                element("tr", *(element("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)))
                for row in rows
            ),
        ),
    )


_WORDS = frozenset({"Group", "Owner", "", "Causes", "Cause"})

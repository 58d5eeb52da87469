"""`why`: the meaning of a message, or the messages in a log, as a report.

Receives the answers of the index and, if available, of the exporter's API; returns a report. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rebalance_contract import Finding, FindingState
from rebalance_contract.api import reading_order
from rebalance_contract.api_messages import MessageMatch, MessageRow, MessagesAnswer
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.messages.index import Meaning
from rebalance_exporters.messages.tally import Entry, LineTally
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.client import Api, NotFoundError
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.report import Column, Grid, Hint, Passage, TextReport
from rebalance_exporters.terminal.words import verdict
from rebalance_exporters.text.figures import UNKNOWN, amount, plural

_FINDINGS, _ROWS, _EXPLAINED, _GROUPS = 3, 40, 3, 3


@dataclass(frozen=True, slots=True)
class MonitoredGroup:
    """What the monitor currently knows of a group. `trouble` says why there is no answer, null if there is one."""

    group: str
    findings: tuple[Finding, ...] = ()
    trouble: str | None = None
    is_unreachable: bool = False
    clock: Clock = field(default_factory=Clock)

    def about(self, causes: Sequence[str]) -> list[Finding]:
        """Return the findings: first possible causes of the message, then other firing ones, most severe first."""
        found = [each for each in self.findings if each.rule in causes or each.state == FindingState.FIRING]
        found.sort(
            key=lambda each: (
                each.rule not in causes,
                each.state != FindingState.FIRING,
                reading_order(each),
            )
        )
        return found


def ask(api: Api, group: str, cluster: str | None, clock: Clock) -> MonitoredGroup:
    """Query the monitor about a group; a missing answer or an unknown group is part of the result."""
    try:
        of_cluster = api.group(group, cluster).cluster
        return MonitoredGroup(group, api.findings(of_cluster, group), clock=clock)
    except NotFoundError:
        return MonitoredGroup(group, trouble=f"the monitor at {api.access.url} knows no group {group}", clock=clock)
    except ExporterError as error:
        return MonitoredGroup(group, trouble=str(error), is_unreachable=True, clock=clock)


def explain_message(answer: MessagesAnswer, known: MonitoredGroup | None, access: Access) -> TextReport:
    """Return the report about one text."""
    if answer.match is MessageMatch.NONE:
        return _not_known(answer)
    if answer.match is MessageMatch.PART and len({each.title for each in answer.messages}) > 1:
        return _ambiguous(answer, known, access)
    row, *others = answer.messages
    causes = [each.diagnosis for each in row.causes]
    passages = (
        Passage("Message", (row.text, f"printed by {_describe_printers(row)}")),
        Passage("Means", (row.meaning, *(["Healthy groups print it too."] if row.ordinary else []))),
        *_describe_known(known, causes),
        Passage("May be", tuple(_describe_causes(row, known))),
        Passage("Look at", row.look_at),
        Passage("Change", tuple(f"{' or '.join(each.names)}: {each.proposed}" for each in row.settings), numbered=True),
        Passage(
            "Also in it" if answer.match is MessageMatch.WHOLE else "Or part of",
            tuple(f"{each.text} - {each.title}" for each in others),
        ),
    )
    return TextReport(
        row.title, None, tuple(each for each in passages if each.lines), hints=tuple(_hints(known, access))
    )


def _ambiguous(answer: MessagesAnswer, known: MonitoredGroup | None, access: Access) -> TextReport:
    """Return the report about a piece that several messages contain: one passage for each, and no conclusion."""
    causes = [cause.diagnosis for row in answer.messages for cause in row.causes]
    passages = [
        Passage(
            f"{number})",
            (
                row.text,
                row.title,
                *([f"may be {', '.join(each.diagnosis for each in row.causes)}"] if row.causes else []),
            ),
        )
        for number, row in enumerate(answer.messages, 1)
    ]
    passages += _describe_known(known, causes)
    passages.append(
        Passage("Next", ("paste more of the line, to see which it is and how its causes are distinguished",))
    )
    return TextReport(
        "part of several messages, the likeliest first", None, tuple(passages), hints=tuple(_hints(known, access))
    )


def _not_known(answer: MessagesAnswer) -> TextReport:
    near = tuple(f"{each.text} - {each.title}" for each in answer.messages)
    passages = (
        Passage("Known", ("no message of the index has this text, whole or in part; docs/messages.md lists all",)),
        Passage("Nearest", near),
        Passage("Next", ("try a shorter part of the line, without names and numbers",)),
    )
    return TextReport("not known", None, tuple(each for each in passages if each.lines))


def _describe_printers(row: MessageRow) -> str:
    return "; ".join(f"{each.name} {each.versions} ({each.source})" for each in row.printed)


def _describe_causes(row: MessageRow, known: MonitoredGroup | None) -> Iterator[str]:
    found = set() if known is None else {each.rule for each in known.findings}
    for cause in sorted(row.causes, key=lambda each: each.diagnosis not in found):
        mark = "" if known is None or cause.diagnosis not in found else f" [found for {known.group}]"
        yield f"{cause.diagnosis}{mark}: {cause.when}"


def _describe_known(known: MonitoredGroup | None, causes: Sequence[str]) -> Iterator[Passage]:
    if known is None:
        return
    if known.trouble is not None:
        yield Passage("Monitor", (known.trouble,))
        return
    described = [_describe_finding(each, known.clock) for each in known.about(causes)[:_FINDINGS]]
    yield Passage(
        "Monitor", (f"of {known.group}:", *described) if described else (f"nothing is found about {known.group} now",)
    )


def _describe_finding(finding: Finding, clock: Clock) -> str:
    since = f"{finding.state} since {clock.moment(finding.started_at_ms)}"
    return f"[{finding.severity.upper()}] {verdict(finding)}, {since}: {finding.summary}"


def _hints(known: MonitoredGroup | None, access: Access) -> Iterator[Hint]:
    if known is not None and known.trouble is None:
        yield Hint("why it rebalanced last", access.command_line("explain", known.group))


def list_messages(tally: LineTally) -> TextReport:
    """Return the report that lists the messages of a log."""
    count = sum(each.count for each in tally.entries)
    if not count:
        return TextReport(f"no message about consumer groups in {plural(tally.lines, 'line')}", None, ())
    title = f"{plural(count, 'message')} about consumer groups in {plural(tally.lines, 'line')}"
    return TextReport(title, None, (), (_table(tally),))


def explain_log(tally: LineTally, knowns: Sequence[MonitoredGroup], access: Access) -> TextReport:
    """Return the report that explains the messages of a log, the important ones first."""
    meanings = _meanings(tally.entries)
    explained = [each for each in meanings if not each[0].ordinary][:_EXPLAINED] or meanings[:1]
    passages = [Passage(f"{amount(number)} x", tuple(_describe_meaning(each))) for each, number in explained]
    causes = [each.diagnosis for meaning, _ in explained for each in meaning.causes]
    passages += [passage for known in knowns for passage in _describe_known(known, causes)]
    hints = [hint for known in knowns for hint in _hints(known, access)]
    return TextReport("What they mean", None, tuple(passages), hints=tuple(hints))


def groups_of(tally: LineTally) -> list[str]:
    """Return the groups of a log to query: those with the most messages that are not ordinary."""
    counts: dict[str, int] = {}
    for entry in tally.entries:
        if entry.group is not None:
            counts[entry.group] = counts.get(entry.group, 0) + entry.count * (not entry.message.meaning.ordinary)
    return sorted(counts, key=lambda each: (-counts[each], each))[:_GROUPS]


def log_json(tally: LineTally, knowns: Sequence[MonitoredGroup]) -> dict[str, object]:
    """Return the content of both reports for programs."""
    messages = [
        {
            "message": each.message.row(),
            "group": each.group,
            "client": each.client,
            "count": each.count,
            "first_line": each.first_line,
            "last_line": each.last_line,
            "first_at": each.first_at,
            "last_at": each.last_at,
        }
        for each in tally.entries
    ]
    return {
        "lines": tally.lines,
        "is_merged": tally.is_merged,
        "messages": messages,
        "monitor": [known_json(each) for each in knowns],
    }


def known_json(known: MonitoredGroup) -> dict[str, object]:
    """Return the monitor's answer for programs."""
    return {"group": known.group, "findings": known.findings, "trouble": known.trouble}


def _meanings(entries: Sequence[Entry]) -> list[tuple[Meaning, int]]:
    """Return the meanings of messages with their counts: important ones first, then by frequency."""
    counts: dict[str, int] = {}
    meanings: dict[str, Meaning] = {}
    for entry in entries:
        meaning = entry.message.meaning
        meanings[meaning.id] = meaning
        counts[meaning.id] = counts.get(meaning.id, 0) + entry.count
    ranked = sorted(meanings.values(), key=lambda each: (each.ordinary, -counts[each.id]))
    return [(each, counts[each.id]) for each in ranked]


def _describe_meaning(meaning: Meaning) -> Iterator[str]:
    yield f"{meaning.title}. {meaning.meaning}"
    for cause in meaning.causes:
        yield f"  {cause.diagnosis}: {cause.when}"
    yield f"Look at: {' '.join(meaning.look_at)}"


def _table(tally: LineTally) -> Grid:
    columns = (
        Column("COUNT", right=True),
        Column("MESSAGE", may_shrink=True),
        Column("GROUP", may_shrink=True),
        Column("CLIENT", may_shrink=True),
        Column("FIRST"),
        Column("LAST"),
    )
    rows = tuple(
        (
            amount(each.count),
            each.message.text,
            each.group or UNKNOWN,
            each.client or UNKNOWN,
            each.first_at or f"line {each.first_line}",
            each.last_at or f"line {each.last_line}",
        )
        for each in tally.entries[:_ROWS]
    )
    more = len(tally.entries) - len(rows)
    notes = [
        f"and {more} more rows: --json has all of them" if more > 0 else "",
        "there were more clients than are counted separately" if tally.is_merged else "",
    ]
    return Grid("", columns, rows, "; ".join(filter(None, notes)))

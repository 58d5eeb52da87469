"""`explain`: why a group rebalanced, what it cost and what to change, as a report.

Receives the API's answers about a group and one of its rebalances; returns a report. Pure: the facts include `now`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rebalance_contract import (
    UNDETERMINED,
    Advice,
    CoordinatorEvent,
    Finding,
    GroupSnapshot,
    RebalanceOutcome,
    display,
    severity_rank,
)
from rebalance_contract.api import AdviceRow, OverviewRow, RebalanceRow, reading_order
from rebalance_contract.display import listed
from rebalance_exporters.terminal import coordinator_log
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.assignments import compare_assignments, list_members
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.phases import describe_phases
from rebalance_exporters.terminal.report import Grid, Hint, Passage, TextReport
from rebalance_exporters.terminal.silences import describe_mark
from rebalance_exporters.terminal.words import because, change, verdict, why, why_not
from rebalance_exporters.text.figures import TIGHT_MS, amount, plural, span
from rebalance_exporters.text.rebalances import ABORTED, JUDGED_AFTER_MS, NO_CAUSE, describe_rebalance, name

_WINDOW, _WINDOW_MS = "15m", 900_000
COUNTED_FROM_PROBES = "counted from probes: the log is not read, so more rebalances may have happened than are reported"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Facts:
    """The data of a report.

    `rows` are the groups of the same cluster, including this one. `rebalance` is null if the exporter keeps none.
    `findings` are about the rebalance, the primary one first, `standing` those that fire for the group now. `choice`
    says how the rebalance was chosen if that is not obvious; `trouble` why the data is not reliable, else null. `lines`
    are those of the group's coordinators in the given broker logs, null if no logs were given.
    """

    now_ms: int
    snapshot: GroupSnapshot
    rows: tuple[OverviewRow, ...]
    rebalance: RebalanceRow | None
    findings: tuple[Finding, ...] = ()
    standing: tuple[Finding, ...] = ()
    choice: str | None = None
    trouble: str | None = None
    lines: tuple[CoordinatorEvent, ...] | None = None
    clock: Clock = field(default_factory=Clock)

    @property
    def row(self) -> OverviewRow | None:
        """The group's own row; null if the group appeared or disappeared between two answers."""
        return next((each for each in self.rows if each.group == self.snapshot.group), None)


def choose_rebalance(rebalances: Sequence[RebalanceRow], at_ms: int) -> RebalanceRow:
    """Return the rebalance in progress at a time, or the nearest one; of several the newest."""
    return min(rebalances, key=lambda each: (distance_ms(each, at_ms), -each.started_before_ms))


def distance_ms(rebalance: RebalanceRow, at_ms: int) -> int:
    """Return the distance in milliseconds of a time from a rebalance; one without an end is still in progress."""
    started_ms = began_ms(rebalance)
    if at_ms < started_ms:
        return started_ms - at_ms
    return 0 if rebalance.completed_at_ms is None else max(0, at_ms - rebalance.completed_at_ms)


def began_ms(rebalance: RebalanceRow) -> int:
    """Return the latest time at which the rebalance can have begun."""
    return rebalance.started_before_ms


def explain(facts: Facts, access: Access) -> TextReport:
    """Return the report: about the rebalance if there is one, else about the current state of the group."""
    cause = _cause_of(facts)
    leading = cause or _cause_before(facts)
    passages = (
        *_note(facts),
        *_describe_silence(facts),
        *_describe_cause(facts, cause, leading),
        *_describe_rebalance(facts),
        *_describe_lines(facts),
        *_describe_advice(facts, leading),
        Passage("State", (_describe_state(facts),)),
        *_describe_reasons(leading),
        *_describe_others(facts, leading),
    )
    return TextReport(
        _title(facts),
        None if leading is None else leading.severity,
        tuple(each for each in passages if each.lines),
        tuple(_grids(facts)),
        tuple(_next_commands(facts, access)),
    )


def _describe_silence(facts: Facts) -> Iterator[Passage]:
    row = facts.row
    if row is not None and row.silence is not None:
        yield Passage("Silenced" if row.is_silenced else "Deploy", (describe_mark(row.silence, facts.clock),))


def _cause_of(facts: Facts) -> Finding | None:
    """Return the main finding: the primary one of the rebalance, or without a rebalance the most severe that fires."""
    if facts.rebalance is not None:
        return next((each for each in facts.findings if each.primary), None)
    return min(facts.standing, key=reading_order, default=None)


def _cause_before(facts: Facts) -> Finding | None:
    """Return the most severe firing cause while the rebalance is not judged yet, null if there is none.

    If a group rebalances faster than a judgement takes, its latest rebalance never has one.
    """
    if facts.rebalance is None or not _is_young(facts):
        return None
    causes = [each for each in facts.standing if each.primary and severity_rank(each.severity) > 0]
    return min(causes, key=reading_order, default=None)


def _is_young(facts: Facts) -> bool:
    ended_ms = None if facts.rebalance is None else facts.rebalance.completed_at_ms
    return ended_ms is None or facts.now_ms - ended_ms < JUDGED_AFTER_MS


def _title(facts: Facts) -> str:
    group, rebalance = facts.snapshot.group, facts.rebalance
    if rebalance is None:
        return f"{group}: no rebalance{_since_when(facts)}"
    if rebalance.completed_at_ms is None:
        took = f"rebalancing since {facts.clock.moment(began_ms(rebalance))}"
        return f"{group}: {took}, {span(max(0, facts.now_ms - began_ms(rebalance)))} so far"
    ended = facts.clock.moment(rebalance.completed_at_ms)
    aborted = f", {ABORTED}" if rebalance.outcome == RebalanceOutcome.ABORTED else ""
    return f"{group}: rebalance of {ended}, took {describe_rebalance(rebalance, rebalance.impact).took}{aborted}"


def _since_when(facts: Facts) -> str:
    counted = sum(facts.snapshot.counters.rebalances.values())
    if counted:
        return f" is kept by the exporter any more ({plural(counted, 'rebalance')} counted)"
    if facts.snapshot.first_seen_ms is None:
        return " seen"
    return f" since the monitor first saw it, {facts.clock.moment(facts.snapshot.first_seen_ms)}"


def _note(facts: Facts) -> Iterator[Passage]:
    counted = COUNTED_FROM_PROBES if facts.snapshot.is_at_least else None
    yield Passage("Note", tuple(filter(None, (facts.trouble, facts.choice, counted))))


def _describe_cause(facts: Facts, cause: Finding | None, leading: Finding | None) -> Iterator[Passage]:
    if cause is None:
        if facts.rebalance is not None:
            before = () if leading is None else (f"of those before it: {leading.summary}", verdict(leading))
            yield Passage("Cause", (_unjudged(facts, facts.rebalance), *before))
        return
    undetermined = f"{UNDETERMINED}: " if cause.rule == UNDETERMINED else ""
    yield Passage("Cause", (f"{undetermined}{cause.summary}", verdict(cause)))


def _unjudged(facts: Facts, rebalance: RebalanceRow) -> str:
    if rebalance.completed_at_ms is None:
        return NO_CAUSE["not_ended"]
    if _is_young(facts):
        return f"{NO_CAUSE['young']}; ask again in a minute"
    return NO_CAUSE["none_kept"]


def _describe_rebalance(facts: Facts) -> Iterator[Passage]:
    rebalance = facts.rebalance
    if rebalance is None:
        return
    text = describe_rebalance(rebalance, rebalance.impact, rebalance.deploys)
    steps = "" if text.steps is None else f" ({text.steps})"
    since = f"{_since(rebalance, facts.clock)}: {why(text)}"
    yield Passage("Since", (since, f"members {text.members}; generation {text.generations}{steps}"))
    lag = () if text.lag is None else (f"lag {text.lag}",)
    yield Passage("Impact", (f"partitions: {text.partitions}", f"without commits: {text.without_commits}", *lag))
    if rebalance.completed_at_ms is None or facts.now_ms - rebalance.completed_at_ms <= _WINDOW_MS:
        yield Passage("Scope", tuple(filter(None, [_describe_scope(facts)])))


def _describe_lines(facts: Facts) -> Iterator[Passage]:
    if facts.lines is not None:
        yield Passage("Broker log", tuple(coordinator_log.describe(facts.lines, facts.rebalance, facts.clock)))


def _since(rebalance: RebalanceRow, clock: Clock) -> str:
    if rebalance.impact is not None and rebalance.impact.prepared_at_ms is not None:
        return f"{clock.moment(rebalance.impact.prepared_at_ms)}, as its coordinator wrote"
    latest, earliest = rebalance.started_before_ms, rebalance.started_after_ms
    if earliest == latest:
        return clock.moment(latest)
    if earliest is None or latest - earliest > TIGHT_MS:
        return f"{clock.moment(latest)} at the latest"
    return f"between {clock.moment(earliest)} and {clock.time(latest)}"


def _describe_scope(facts: Facts) -> str | None:
    row = facts.row
    if row is None or row.coordinator is None:
        return None
    beside = [each for each in facts.rows if each.coordinator == row.coordinator and each.group != row.group]
    restless = sorted(each.group for each in beside if each.rebalances_in(_WINDOW))
    broker = f"coordinator broker {row.coordinator}"
    if not beside:
        return f"{broker} serves no other group"
    if not restless:
        return f"only this group: {broker} serves {len(beside)} more, none rebalanced in the last 15 min"
    named = listed(restless[:_NAMED], len(restless))
    return f"{len(restless)} of {len(beside)} more groups of {broker} rebalanced in the last 15 min: {named}"


def _describe_advice(facts: Facts, cause: Finding | None) -> Iterator[Passage]:
    # Other firing findings have their own causes and rebalances: their advice would not have prevented this rebalance.
    about = facts.standing if facts.rebalance is None else facts.findings
    advice = [advice for each in dict.fromkeys(filter(None, (cause, *about))) for advice in each.advice]
    # Several findings may advise the same change.
    yield Passage("Now", tuple(dict.fromkeys(map(_advise, advice))), numbered=True)


def _advise(advice: Advice) -> str:
    formula = advice.formula.strip()
    text = change(advice) if formula in {"", "-"} else f"{change(advice)} (from: {formula})"
    # Findings that were judged without an exporter have no estimate.
    return text if not isinstance(advice, AdviceRow) or advice.text is None else f"{text}; {advice.text}"


def _describe_state(facts: Facts) -> str:
    row, snapshot = facts.row, facts.snapshot
    parts = [_state(facts), f"generation {'-' if snapshot.generation is None else snapshot.generation}"]
    counted = snapshot.member_count
    parts.append(plural(len(snapshot.members) if counted is None else counted, "member"))
    if row is not None:
        if row.assigned_partitions is not None:
            parts.append(plural(row.assigned_partitions, "partition"))
        if row.idle_members:
            parts.append(f"{plural(row.idle_members, 'member')} without any")
        if row.lag is not None:
            parts.append(f"lag {amount(row.lag)}")
        parts.append(_last_quarter(row))
        if row.owner is not None:
            parts.append(f"owner {row.owner}")
    return ", ".join(parts)


def _state(facts: Facts) -> str:
    row = facts.row
    state = (facts.snapshot.state if row is None else row.state) or "state not known"
    if row is None or row.state_since_ms is None:
        return f"now {state}"
    return f"now {state} for {span(max(0, facts.now_ms - row.state_since_ms))}"


def _last_quarter(row: OverviewRow) -> str:
    window = row.windows.get(_WINDOW)
    if window is None:
        return "rebalances in the last 15 min not known"
    share = "" if not window.rebalancing_ratio else f" ({window.rebalancing_ratio:.0%} of the time)"
    return f"{plural(window.rebalances, 'rebalance')} in the last 15 min{share}"


def _describe_reasons(cause: Finding | None) -> Iterator[Passage]:
    if cause is None:
        return
    yield Passage(
        "Because",
        tuple(f"{because(each)} [{display.SOURCES.get(each.source, each.source)}]" for each in cause.evidence),
    )
    yield Passage("Not", tuple(map(why_not, cause.alternatives)))
    yield Passage("Unknown", cause.missing)
    named = [name(each) for each in cause.subject.members]
    if len(named) > 1:
        # A member that came back has several ids but one name.
        yield Passage("Who", (", ".join(dict.fromkeys(named)),))


def _describe_others(facts: Facts, cause: Finding | None) -> Iterator[Passage]:
    found = sorted(_others(facts, cause), key=reading_order)
    yield Passage("Also", tuple(_describe_other(facts, each) for each in found))


def _describe_other(facts: Facts, finding: Finding) -> str:
    elsewhere = finding not in facts.findings and finding.rebalance_ids
    where = f" (see rebalance {finding.rebalance_ids[-1]})" if elsewhere else ""
    return f"[{finding.severity.upper()}] {finding.rule}: {finding.summary}{where}"


def _others(facts: Facts, cause: Finding | None) -> list[Finding]:
    """Return the other findings to report: about the rebalance, and those that fire for the group and need action."""
    known = {None if cause is None else cause.finding_id}
    found = []
    for each in (*facts.findings, *(each for each in facts.standing if severity_rank(each.severity) > 0)):
        if each.finding_id not in known:
            known.add(each.finding_id)
            found.append(each)
    return found


def _grids(facts: Facts) -> Iterator[Grid]:
    if facts.rebalance is None:
        if facts.snapshot.members:
            yield list_members(facts.snapshot.members)
        return
    yield describe_phases(describe_rebalance(facts.rebalance, facts.rebalance.impact).phases, facts.clock)
    yield compare_assignments(facts.rebalance)


def _next_commands(facts: Facts, access: Access) -> Iterator[Hint]:
    group = facts.snapshot.group
    if facts.rebalance is None:
        yield Hint("see what happens next", access.command_line("tail", "--group", group))
        return
    rebalance_id = facts.rebalance.rebalance_id
    yield Hint("this rebalance again", access.command_line("explain", group, "--rebalance", rebalance_id))
    yield Hint("those before it", access.command_line("history", group, "--since", "24h"))
    yield Hint("which settings would have avoided them", access.command_line("advise", group, "--since", "24h"))

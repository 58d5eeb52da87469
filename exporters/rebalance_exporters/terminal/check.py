"""`check`: one line and an exit code for cron, CI and Nagios. Pure: receives answers, returns a result."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from rebalance_contract import SEVERITY_RANKS, Finding, Severity, severity_rank
from rebalance_contract.api import FindingMark, Overview, OverviewRow
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.text.figures import plural

_NAMED = 3


class Status(IntEnum):
    """The plug-in exit codes of Nagios and compatible tools."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


#: A known critical state comes before an unknown one, and that before a warning.
_WORST_FIRST = (Status.CRITICAL, Status.UNKNOWN, Status.WARNING, Status.OK)

_SEVERITY_STATUS: Mapping[str, Status] = {Severity.INFO: Status.OK, Severity.TICKET: Status.WARNING}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what counts as OK: rebalances per window (null: any number), and the highest severity of findings."""

    max_rebalances: int | None = None
    window: str = "15m"
    max_severity: str = Severity.INFO


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """The result for one group; `cluster` is null if the group does not exist, `group` is null for a whole cluster."""

    cluster: str | None
    group: str | None
    status: Status
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result: `text` without the status in front, `figures` in Nagios' format for performance data."""

    status: Status
    text: str
    figures: str
    judgements: tuple[GroupCheck, ...] = ()

    @property
    def line(self) -> str:
        """Return the one line to print."""
        # Nagios reads text after a bar as performance data, so a name must not contain one.
        text = safe(f"REBALANCES {self.status.name} - {self.text}").replace("|", "\\x7c")
        return f"{text} | {self.figures}" if self.figures else text

    def as_json(self) -> dict[str, object]:
        """Return the result for programs."""
        judged = [
            {"cluster": each.cluster, "group": each.group, "status": each.status.name, "reasons": each.reasons}
            for each in self.judgements
        ]
        return {"status": self.status.name, "exit_code": int(self.status), "text": self.text, "judgements": judged}


def unknown(text: str) -> CheckResult:
    """Return the result if nothing can be checked."""
    return CheckResult(Status.UNKNOWN, text, "")


def judge(
    overview: Overview, cluster_findings: Sequence[Finding], groups: Sequence[str], limits: Limits, access: Access
) -> CheckResult:
    """Return the result for the named groups, or for all groups and their clusters if none is named."""
    rows = [row for row in overview.groups if not groups or row.group in groups]
    judged = [judge_group(row, limits) for row in rows]
    if not groups:
        judged += [_judge_cluster(each, limits) for each in cluster_findings if not each.group]
    known = {row.group for row in rows}
    judged += [_judge_missing(group, overview) for group in dict.fromkeys(groups) if group not in known]
    judged.sort(key=lambda each: (_WORST_FIRST.index(each.status), each.group or "", each.cluster or ""))
    status = judged[0].status if judged else Status.OK
    text, figures = _describe(judged, rows, limits, access), _figures(rows, limits)
    if not overview.ready:
        # The data is old: neither good nor bad results are reliable.
        text, status = (
            f"the data is not up to date: {overview.ready_text}; last known: {status.name} - {text}",
            Status.UNKNOWN,
        )
    return CheckResult(status, text, figures, tuple(judged))


def judge_group(row: OverviewRow, limits: Limits) -> GroupCheck:
    """Return the result for one group by its firing findings and number of rebalances; a silenced group is OK.

    Rebalances are not counted during an announced deploy, which causes some.
    """
    if row.is_silenced:
        return GroupCheck(row.cluster, row.group, Status.OK, ())
    beyond = [each for each in row.findings if severity_rank(each.severity) > severity_rank(limits.max_severity)]
    statuses = [_SEVERITY_STATUS.get(each.severity, Status.CRITICAL) for each in beyond]
    reasons = [_describe_finding(each) for each in beyond[:1]] + [
        f"{each.rule} ({each.severity})" for each in beyond[1:]
    ]
    count = row.rebalances_in(limits.window) if row.silence is None else None
    if limits.max_rebalances is not None and count is not None and count > limits.max_rebalances:
        statuses.append(Status.WARNING)
        reasons.insert(0, f"{plural(count, 'rebalance')} in {limits.window}, allowed {limits.max_rebalances}")
    return GroupCheck(row.cluster, row.group, max(statuses, default=Status.OK), tuple(reasons))


def _describe_finding(finding: FindingMark | Finding) -> str:
    return f"{finding.rule} ({finding.severity}): {finding.summary.rstrip('.')}"


def _judge_cluster(finding: Finding, limits: Limits) -> GroupCheck:
    beyond = severity_rank(finding.severity) > severity_rank(limits.max_severity)
    status = _SEVERITY_STATUS.get(finding.severity, Status.CRITICAL) if beyond else Status.OK
    reasons = (_describe_finding(finding),) if beyond else ()
    return GroupCheck(finding.cluster, None, status, reasons)


def _judge_missing(group: str, overview: Overview) -> GroupCheck:
    near = difflib.get_close_matches(group, {row.group for row in overview.groups}, n=1)
    hint = f", did you mean {near[0]}" if near else ""
    return GroupCheck(None, group, Status.UNKNOWN, (f"no such group{hint}",))


def _describe(judged: Sequence[GroupCheck], rows: Sequence[OverviewRow], limits: Limits, access: Access) -> str:
    bad = [each for each in judged if each.status is not Status.OK]
    if not bad:
        total = sum(_rebalances(rows, limits))
        above = f"no finding above {limits.max_severity}"
        return f"{plural(len(rows), 'group')}, {plural(total, 'rebalance')} in {limits.window}, {above}"
    named = ". ".join(f"{each.group or f'cluster {each.cluster}'}: {'; '.join(each.reasons)}" for each in bad[:_NAMED])
    more = f". And {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return f"{named}{more}. {_next(bad, access)}"


def _next(bad: Sequence[GroupCheck], access: Access) -> str:
    known = next((each.group for each in bad if each.group is not None and each.cluster is not None), None)
    return f"See {access.suggest('top') if known is None else access.suggest('explain', known)}"


def _rebalances(rows: Sequence[OverviewRow], limits: Limits) -> list[int]:
    """Return the number of rebalances of each group for which it is known."""
    counts = (row.rebalances_in(limits.window) for row in rows)
    return [count for count in counts if count is not None]


def _figures(rows: Sequence[OverviewRow], limits: Limits) -> str:
    most = max(_rebalances(rows, limits), default=0)
    allowed = "" if limits.max_rebalances is None else limits.max_rebalances
    findings = [each for row in rows for each in row.findings]
    pages = sum(severity_rank(each.severity) == SEVERITY_RANKS[Severity.PAGE] for each in findings)
    tickets = sum(each.severity == Severity.TICKET for each in findings)
    return f"groups={len(rows)} most_rebalances_{limits.window}={most};{allowed} pages={pages} tickets={tickets}"

"""The metrics of the findings of a group, and of silences, which hold back their alerts."""

from __future__ import annotations

from collections.abc import Callable

from rebalance_contract import AlertSilence, Finding, FindingState, severity_rank
from rebalance_exporters.metrics.series import Metric, Samples
from rebalance_exporters.state.kept import GroupFindings

_ReadFindings = Callable[[GroupFindings], Samples]
#: Maximum number and length of the names in the label `who`. If a problem affects hundreds of members, no single one is
#: the culprit; clients choose the length of their names.
_MAX_NAMES, _MAX_NAME_LENGTH = 3, 120


def _read_active(of: GroupFindings) -> Samples:
    active: dict[tuple[str, str], int] = {}
    for finding in of.findings:
        kind = (finding.rule, finding.severity)
        active[kind] = max(active.get(kind, 0), int(finding.state == FindingState.FIRING))
    return sorted(active.items())


def _per_open_finding(read: Callable[[Finding], float], choose: Callable[[float, float], float]) -> _ReadFindings:
    """Turn a reader of one finding into a reader of all open ones; `choose` picks a value per rule and severity."""

    def read_all(of: GroupFindings) -> Samples:
        values: dict[tuple[str, ...], float] = {}
        for finding in of.firing():
            kind, value = (finding.rule, finding.severity), read(finding)
            values[kind] = choose(value, values.get(kind, value))
        return sorted(values.items())

    return read_all


def _read_finding_info(of: GroupFindings) -> Samples:
    infos: dict[tuple[str, str], tuple[str, ...]] = {}
    for finding in of.firing():
        infos.setdefault((finding.rule, finding.severity), (_name_subject(finding), *_first_change(finding)))
    return [((*kind, *labels), 1) for kind, labels in sorted(infos.items())]


def _name_subject(finding: Finding) -> str:
    """Return the names of the clients or hosts a finding is about, which outlive member ids; empty: the whole group."""
    members = [
        f"{each.group_instance_id or each.client_id or '?'}@{(each.host or '?').removeprefix('/')}"
        for each in finding.subject.members
    ]
    names = list(dict.fromkeys(members or [host.removeprefix("/") for host in finding.subject.hosts]))
    more = len(names) - _MAX_NAMES
    shown = [name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH]}..." for name in names[:_MAX_NAMES]]
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _first_change(finding: Finding) -> tuple[str, str, str]:
    """Return parameter, present value and proposed value of the first change: if any, a setting with a known value."""
    advice = sorted(finding.advice, key=lambda each: (each.current is None, "." not in each.parameter))
    return (advice[0].parameter, advice[0].current or "", advice[0].proposed) if advice else ("", "", "")


_FINDING = ("rule", "severity")

#: Rendered once per change of a group's findings.
FINDING_METRICS: tuple[Metric[GroupFindings], ...] = (
    Metric(
        "finding_active",
        "gauge",
        "1 while a finding of this diagnosis is open for the group and nobody has silenced it, 0 for a while after. "
        "`rule` is explained in docs/diagnoses.md; /api/v1/findings has evidence and advice. Group is empty where it "
        "is about the cluster.",
        _FINDING,
        _read_active,
    ),
    Metric(
        "findings_total",
        "counter",
        "How often a finding of this diagnosis began to fire, counted by each exporter from its own start: findings "
        "that fired before count 0.",
        _FINDING,
        lambda of: sorted(of.fired.items()),
    ),
    Metric(
        "finding_severity_code",
        "gauge",
        "The highest severity of the open findings of this diagnosis as a number, for sorting tables: 3 page, 2 "
        "ticket, 1 info. A severity that this version does not know counts as the highest. Absent while none is open.",
        _FINDING,
        _per_open_finding(lambda finding: severity_rank(finding.severity) + 1, max),
    ),
    Metric(
        "finding_confidence",
        "gauge",
        "Probability, 0 to 1, that the diagnosis is right; the largest of its open findings. Absent while none is "
        "open.",
        _FINDING,
        _per_open_finding(lambda finding: finding.confidence, max),
    ),
    Metric(
        "finding_primary",
        "gauge",
        "1 if an open finding of this diagnosis is the cause given for rebalances, or of a problem without a "
        "rebalance; 0 if it follows from a cause, or is a setting worth changing. Absent while none is open.",
        _FINDING,
        _per_open_finding(lambda finding: int(finding.primary), max),
    ),
    Metric(
        "finding_start_timestamp_seconds",
        "gauge",
        "When the oldest open finding of this diagnosis began, in seconds since 1970. Absent while none is open.",
        _FINDING,
        _per_open_finding(lambda finding: finding.started_at_ms / 1000, min),
    ),
    Metric(
        "finding_info",
        "gauge",
        "Always 1 while a finding of this diagnosis is open: join it on cluster, group, rule and severity to name who "
        "it is about and what to change first. `who` has clients as name@host, three at most, and is empty where it is "
        "the group; `parameter` is a setting, or code, operation or upgrade; `current` is empty where it is not known. "
        "With several findings: a cause first, then the highest confidence, then the oldest.",
        (*_FINDING, "who", "parameter", "current", "proposed"),
        _read_finding_info,
    ),
)

#: Rendered once per silence that comes into force.
SILENCE_METRICS: tuple[Metric[AlertSilence], ...] = (
    Metric(
        "group_silenced",
        "gauge",
        "1 while the group's alerts are silenced (`kind` silence): finding_active is 0 then, and no alert of the rules "
        "fires; or while a deploy of it is announced (`kind` deploy): findings fire unchanged, and alerts do where a "
        "person has to act. Counts and lag are unchanged. Absent otherwise. Group is empty for what is about the "
        "cluster; /api/v1/silences says who, why and until when.",
        ("kind",),
        lambda silence: [((silence.kind,), 1)],
    ),
)

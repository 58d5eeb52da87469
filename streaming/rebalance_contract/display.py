"""How the terminal, the page and the dashboards show the values of the closed sets, and lists of names.

Each of them maps the tones to its own colours. A mark is a shape, so that values can be told apart without colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rebalance_contract.sets import EvidenceSource, GroupState, Severity, SilenceKind


class Tone(StrEnum):
    """The meaning of a colour, in order: healthy, neutral, idle without members, information, warning, critical."""

    GOOD = "good"
    PLAIN = "plain"
    OFF = "off"
    NOTE = "note"
    WORSE = "worse"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Display:
    """How one value is shown."""

    tone: Tone
    mark: str


_MOVING = Display(Tone.WORSE, "◐")

STATES: Mapping[str, Display] = {
    GroupState.DELETED: Display(Tone.PLAIN, "○"),
    GroupState.EMPTY: Display(Tone.OFF, "○"),
    GroupState.PREPARING_REBALANCE: _MOVING,
    GroupState.COMPLETING_REBALANCE: _MOVING,
    GroupState.ASSIGNING: _MOVING,
    GroupState.RECONCILING: _MOVING,
    GroupState.STABLE: Display(Tone.GOOD, "●"),
    GroupState.NOT_READY: Display(Tone.BAD, "◐"),
    GroupState.DEAD: Display(Tone.PLAIN, "○"),
}
#: A state that this version does not know is shown as an unsettled one.
UNKNOWN_STATE = _MOVING

SEVERITIES: Mapping[str, Display] = {
    Severity.PAGE: Display(Tone.BAD, "▲"),
    Severity.TICKET: Display(Tone.WORSE, "◆"),
    Severity.INFO: Display(Tone.NOTE, "●"),
}
#: A severity that this version does not know is shown as the gravest.
UNKNOWN_SEVERITY = SEVERITIES[Severity.PAGE]

#: Display names of the sources of evidence.
SOURCES: Mapping[str, str] = {
    EvidenceSource.LOG: "group log",
    EvidenceSource.COMMITS: "commits",
    EvidenceSource.PROBES: "probes",
    EvidenceSource.CLIENT_METRICS: "client metrics",
    EvidenceSource.ZOOKEEPER: "ZooKeeper",
    EvidenceSource.BROKER_LOG: "broker log",
    EvidenceSource.ANNOUNCEMENT: "announced deploy",
}


#: Labels of a group whose alerts are silenced, or with an announced deploy.
SILENCES: Mapping[str, str] = {SilenceKind.SILENCE: "silenced", SilenceKind.DEPLOY: "deploy announced"}


def asked_by(created_by: str, on_behalf_of: str | None) -> str:
    """Return the author of a silence: the user who logged in, after the person on whose behalf they acted, if any."""
    return created_by if on_behalf_of is None else f"{on_behalf_of} (as {created_by})"


def listed(first: Sequence[str], of: int) -> str:
    """Return the first names, comma-separated, and how many more of the `of` names there are."""
    return ", ".join(first) + (f" and {of - len(first)} more" if of > len(first) else "")


def state_display(state: str) -> Display:
    """Return how a state is shown."""
    return STATES.get(state, UNKNOWN_STATE)


def severity_display(severity: str) -> Display:
    """Return how a severity is shown."""
    return SEVERITIES.get(severity, UNKNOWN_SEVERITY)

"""The output of a detector: findings that changed or were withdrawn, and members that timed out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalance_contract import Finding


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Ids of the members that left a group in one rebalance because of a timeout: of the session, or of max.poll.

    `at_ms` is when the rebalance ended (epoch ms).
    """

    group: str
    rebalance_id: str
    at_ms: int
    expired: tuple[str, ...] = ()
    poll_timeout: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """Everything that changed.

    `findings`: those that are new, changed or resolved; findings of the whole cluster have the group "". `withdrawn`:
    those that a better explanation replaced, or whose group is gone. `timed_out`: members that left because of a
    timeout.
    """

    findings: tuple[Finding, ...] = ()
    withdrawn: tuple[Finding, ...] = ()
    timed_out: tuple[TimedOut, ...] = ()


@dataclass(slots=True)
class Unpublished:
    """Withdrawn findings and timed-out members since the last judgement was returned."""

    withdrawn: list[Finding] = field(default_factory=list)
    timed_out: list[TimedOut] = field(default_factory=list)

    def take(self, findings: Iterable[Finding]) -> Judgement:
        """Return a judgement with the findings that changed, and clear what was collected."""
        judgement = Judgement(tuple(findings), tuple(self.withdrawn), tuple(self.timed_out))
        self.withdrawn.clear()
        self.timed_out.clear()
        return judgement

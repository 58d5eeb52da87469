"""What a detector hands on: findings that changed or were withdrawn, and members that timed out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalance_contract import Finding


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Members, by id, that left a group in one rebalance because a timeout was over: the session, or max.poll.

    `at_ms` is when the rebalance ended.
    """

    group: str
    rebalance_id: str
    at_ms: int
    expired: tuple[str, ...] = ()
    poll_timeout: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """Everything that changed.

    `findings`: each that is new, another or over, those of the whole cluster under the group "". `withdrawn`: those
    that a better explanation replaced, or whose group is gone. `timed_out`: members that left because a timeout was
    over.
    """

    findings: tuple[Finding, ...] = ()
    withdrawn: tuple[Finding, ...] = ()
    timed_out: tuple[TimedOut, ...] = ()


@dataclass(slots=True)
class Unpublished:
    """What was withdrawn, and which members were found to have timed out, since the last judgement was handed on."""

    withdrawn: list[Finding] = field(default_factory=list)
    timed_out: list[TimedOut] = field(default_factory=list)

    def take(self, findings: Iterable[Finding]) -> Judgement:
        """Return it, once, with the findings that changed."""
        judgement = Judgement(tuple(findings), tuple(self.withdrawn), tuple(self.timed_out))
        self.withdrawn.clear()
        self.timed_out.clear()
        return judgement

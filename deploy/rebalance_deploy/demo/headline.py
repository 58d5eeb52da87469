"""Checks every 10 s whether the demo's primary finding is right: the blamed consumer and the cause.

Takes the findings that the stream publishes, in order, the sick consumer, and whether it is cured.
"""

from __future__ import annotations

from rebalance_contract import Finding, FindingState, Severity, severity_rank
from rebalance_deploy.demo.cure import DID_NOT_POLL
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.logs import Say

LOOK_SECONDS = 10.0
#: Wrong findings are not counted for this time after a standstill of the machine, which affects all groups.
EXCUSED_SECONDS = 300.0


class Headline:
    """The primary finding of the sick consumer's group: the most severe open cause above severity info."""

    def __init__(self, sick: ConsumerSpec, say: Say) -> None:
        """Watch the group of `sick`; each wrong result is reported once to `say`."""
        self._sick, self._say = sick, say
        self._open: dict[str, Finding] = {}
        self._was_said: set[str] = set()
        self._is_known = False
        self._next_look: float | None = None
        self.looks = self.wrong = self.excused = 0

    def hear(self, finding: Finding) -> None:
        """Process a published finding of any group."""
        if finding.group != self._sick.group:
            return
        if finding.state == FindingState.FIRING and finding.severity != Severity.INFO:
            self._open[finding.finding_id] = finding
        else:
            self._open.pop(finding.finding_id, None)
        self._is_known |= self._is_right(finding)

    def look(self, now: float, *, is_cured: bool, stood_still_at: float | None = None) -> None:
        """Check the primary finding if the interval has passed at `now`, in seconds.

        Nothing is checked before the first right diagnosis. `stood_still_at` is the end of the machine's last
        standstill, None for never: members that it removed from the group get correct findings of their own, which are
        not about the sick consumer.
        """
        if not self._is_known or (self._next_look is not None and now < self._next_look):
            return
        self._next_look = now + LOOK_SECONDS
        trouble = self._trouble(is_cured=is_cured)
        if trouble is not None and stood_still_at is not None and now - stood_still_at < EXCUSED_SECONDS:
            self.excused += 1
            return
        self.looks += 1
        if trouble is not None:
            self.wrong += 1
            if trouble not in self._was_said:
                self._was_said.add(trouble)
                self._say(f"WRONG  {trouble}")

    def total(self) -> str:
        """Return how often the primary finding was right, as a sentence."""
        right = self.looks - self.wrong
        excused = f"; not counted after a standstill of the machine: {self.excused}" if self.excused else ""
        return (
            f"the primary finding was right in {right} of {self.looks} checks, one every {LOOK_SECONDS:.0f} s{excused}"
        )

    def _trouble(self, *, is_cured: bool) -> str | None:
        causes = [each for each in self._open.values() if each.primary]
        first = max(causes, key=lambda each: severity_rank(each.severity), default=None)
        if first is None:
            return None if is_cured else f"nothing is said of why {self._sick.group} rebalances"
        return None if self._is_right(first) else f"{self._sick.group} is said to suffer of {first.rule}"

    def _is_right(self, finding: Finding) -> bool:
        blamed = {each.client_id for each in finding.subject.members}
        return finding.primary and finding.rule in DID_NOT_POLL and self._sick.client_id in blamed

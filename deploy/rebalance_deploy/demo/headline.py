"""Whether the demo's primary finding stays right: whom the monitor blames for what, checked every 10 s.

Receives the findings that the stream publishes, in order; knows which consumer is sick, and when it is cured.
"""

from __future__ import annotations

from rebalance_contract import Finding, FindingState, Severity, gravity
from rebalance_deploy.demo.cure import DID_NOT_POLL
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.logs import Say

LOOK_SECONDS = 10.0
#: What a machine that stood still does to all groups is reported for so long.
EXCUSED_SECONDS = 300.0


class Headline:
    """What stands first of the sick consumer's group: the gravest cause that is open and more than information."""

    def __init__(self, sick: ConsumerSpec, say: Say) -> None:
        """Say what is wrong to `say`, once each."""
        self._sick, self._say = sick, say
        self._open: dict[str, Finding] = {}
        self._was_said: set[str] = set()
        self._is_known = False
        self._next_look: float | None = None
        self.looks = self.wrong = self.excused = 0

    def hear(self, finding: Finding) -> None:
        """Process a finding as the stream published it, of any group."""
        if finding.group != self._sick.group:
            return
        if finding.state == FindingState.FIRING and finding.severity != Severity.INFO:
            self._open[finding.finding_id] = finding
        else:
            self._open.pop(finding.finding_id, None)
        self._is_known |= self._is_right(finding)

    def look(self, now: float, *, is_cured: bool, stood_still_at: float | None = None) -> None:
        """Look if it is time to, by `now` in seconds. Nothing is expected before the first right diagnosis.

        `stood_still_at` is when the machine last went on after it stood still, null for never: members that it put out
        of the group are reported for what they are, which is not the consumer's sickness.
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
        """Return how often it was right, as a sentence."""
        right = self.looks - self.wrong
        excused = f"; not counted after a standstill of the machine: {self.excused}" if self.excused else ""
        return (
            f"the primary finding was right in {right} of {self.looks} checks, one every {LOOK_SECONDS:.0f} s{excused}"
        )

    def _trouble(self, *, is_cured: bool) -> str | None:
        causes = [each for each in self._open.values() if each.primary]
        first = max(causes, key=lambda each: gravity(each.severity), default=None)
        if first is None:
            return None if is_cured else f"nothing is said of why {self._sick.group} rebalances"
        return None if self._is_right(first) else f"{self._sick.group} is said to suffer of {first.rule}"

    def _is_right(self, finding: Finding) -> bool:
        blamed = {each.client_id for each in finding.subject.members}
        return finding.primary and finding.rule in DID_NOT_POLL and self._sick.client_id in blamed

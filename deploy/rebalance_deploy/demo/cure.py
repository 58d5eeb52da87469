"""The demo's second part: the sick consumer is restarted with the advised value, and its group recovers.

Takes the rebalances and findings that the stream publishes, in order, and whether an alert of the group is firing; the
value comes from the finding itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from rebalance_contract import Finding, FindingState, Rebalance, Severity
from rebalance_contract.diagnoses import with_trait
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.logs import Say

SETTING = "max.poll.interval.ms"
DID_NOT_POLL = with_trait("poll_limit")
_LEADING_NUMBER = re.compile(r"\d+")


class Cure:
    """State of the sick consumer: the advised value, and the findings that are still firing for its group."""

    def __init__(self, sick: ConsumerSpec, say: Say) -> None:
        """Watch the consumer `sick`; messages go to `say`."""
        self._sick, self._say = sick, say
        self._advised_ms: int | None = None
        self._firing: set[str] = set()
        self._rebalances: set[str] = set()
        self.is_applied = self.is_calm = False

    def hear(self, row: Rebalance | Finding) -> None:
        """Process a published row of any group."""
        if row.group != self._sick.group:
            return
        if isinstance(row, Rebalance):
            self._rebalances.add(row.rebalance_id)
            return
        advised = [each.proposed for each in row.advice if each.parameter == SETTING]
        if row.rule in DID_NOT_POLL and advised and (number := _LEADING_NUMBER.match(advised[0])):
            self._advised_ms = int(number[0])
        if row.state == FindingState.FIRING and row.severity != Severity.INFO:
            self._firing.add(row.finding_id)
        else:
            self._firing.discard(row.finding_id)

    def look(self, alert_fires: Callable[[], bool]) -> None:
        """Report once when neither a finding nor an alert is firing after the cure; `alert_fires` is called last."""
        if self.is_calm or not self.is_applied or self._firing or alert_fires():
            return
        self.is_calm = True
        self._say(
            f"calm: nothing is left to say of {self._sick.group}; rebalances since {self._sick.client_id} was"
            f" stopped and started: {len(self._rebalances)}"
        )

    @property
    def is_advised(self) -> bool:
        """Whether the monitor has advised a value."""
        return self._advised_ms is not None

    def apply(self) -> ConsumerSpec:
        """Return the consumer with the advised value, and report it."""
        assert self._advised_ms is not None, "no value was advised yet"
        self.is_applied = True
        self._rebalances.clear()
        self._say(
            f"the advice is followed: {self._sick.client_id} starts again with {SETTING}={self._advised_ms}"
            f" (was {self._sick.max_poll_interval_ms}) and goes on working {self._sick.seconds_per_poll:.0f} s on each"
            " poll"
        )
        return replace(self._sick, max_poll_interval_ms=self._advised_ms)

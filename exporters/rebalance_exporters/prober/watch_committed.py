"""The task that tells what coordinators hold as committed, of groups of which the stream tells no commit."""

from __future__ import annotations

import time
from collections.abc import Callable

from rebalance_contract import Probe
from rebalance_exporters.prober.committed import CommittedAsker
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.tasks import Complaints

WHAT = "committed"


class CommittedWatch:
    """Asks about a few groups in each cycle, and lets the prober know their topics."""

    def __init__(
        self,
        config: ProbeConfig,
        *,
        asker: CommittedAsker,
        interests: Interests,
        publish: Callable[[Probe], None],
        complaints: Complaints,
    ) -> None:
        self._cluster = config.cluster
        self._asker = asker
        self._interests = interests
        self._publish = publish
        self._complaints = complaints

    def cycle(self) -> None:
        """Ask and publish once."""
        now, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        found = self._asker.ask(self._interests.names_without_commits(), now)
        for error in found.errors:
            self._complaints.note(WHAT, error)
        for group, offsets in found.offsets.items():
            self._interests.note_held(group, offsets)
            if offsets:
                self._publish(Probe(probed_at_ms=now_ms, cluster=self._cluster, group=group, committed_offsets=offsets))

"""The task that publishes committed offsets from coordinators, for groups of which the stream reports no commit.

If the log is not read, these are all groups, each in every cycle.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rebalance_contract import Probe, encode
from rebalance_exporters.prober.committed import CommittedAsker
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.offset_publications import Offsets
from rebalance_exporters.prober.repeats import RepeatSchedule
from rebalance_exporters.prober.tasks import ErrorLog
from rebalance_kafka.clock import epoch_ms

WHAT = "committed"


class CommittedWatch:
    """Queries a few groups in each cycle, and adds their topics to the prober's interests."""

    def __init__(
        self,
        config: ProbeConfig,
        *,
        asker: CommittedAsker,
        interests: Interests,
        publish: Callable[[Probe], None],
        error_log: ErrorLog,
    ) -> None:
        self._cluster, self._reads_log = config.cluster, config.reads_log
        self._asker = asker
        self._interests = interests
        self._publish = publish
        self._error_log = error_log
        #: Hash of each group's last reported offsets: a coordinator may hold a million offsets.
        self._published: dict[str, int] = {}
        self._repeats = RepeatSchedule()

    def cycle(self) -> None:
        """Query and publish once."""
        now, now_ms = time.monotonic(), epoch_ms()
        wanted = self._interests.names_without_commits() if self._reads_log else self._interests.names()
        self._published = {group: each for group, each in self._published.items() if group in wanted}
        self._repeats.forget(wanted)
        found = self._asker.ask(wanted, now)
        for error in found.errors:
            self._error_log.note(WHAT, error)
        for group, offsets in found.offsets.items():
            self._interests.note_held(group, offsets)
            if self._is_news(group, offsets, now):
                self._publish(Probe(probed_at_ms=now_ms, cluster=self._cluster, group=group, committed_offsets=offsets))

    def _is_news(self, group: str, offsets: Offsets, now: float) -> bool:
        """Return whether a group's offsets differ from those reported last, or are due to be reported again."""
        held, is_due = hash(encode(offsets)), self._repeats.take_turn(group, now)
        changed = self._published.get(group) != held
        self._published[group] = held
        return changed or is_due

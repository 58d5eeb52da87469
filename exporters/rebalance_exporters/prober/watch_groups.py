"""The task that watches groups: lists the unstable ones every period, describes what changed, publishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.answers import DEAD, Described, GroupList, Listed
from rebalance_exporters.prober.book import GroupBook
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.groups import GroupAsker
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.publish import Publications, probe_described, probe_listed
from rebalance_exporters.prober.tasks import Complaints
from rebalance_streaming.groups.events import Probe

WHAT = "groups"
#: One list alone may be a moment in which all groups move to another coordinator.
_HIDDEN_LISTS = 2


class GroupWatch:
    """Cycles over the groups of a cluster."""

    def __init__(
        self,
        config: ProbeConfig,
        *,
        asker: GroupAsker,
        interests: Interests,
        publish: Callable[[Probe], None],
        metrics: ProbeMetrics,
        complaints: Complaints,
    ) -> None:
        self._cluster = config.cluster
        self._full_list_seconds = config.full_list_seconds
        self._asker = asker
        self._interests = interests
        self._publish = publish
        self._metrics = metrics
        self._complaints = complaints
        self._book = GroupBook()
        self._publications = Publications()
        self._next_full = 0.0
        self._hidden_lists = 0

    def cycle(self) -> None:
        """Ask and publish once. Raises ExporterError when no broker answered."""
        now = time.monotonic()
        if now >= self._next_full or self._book.wants_full_list:
            self._list_all()
            self._next_full = now + self._full_list_seconds
        else:
            self._list_unstable()
        self._describe(now)
        self._publish_newer(now)

    def _list_all(self) -> None:
        found = self._check(self._asker.list_all())
        gone = self._book.note_all(found)
        groups = self._book.groups()
        self._metrics.groups.set(len(groups))
        self._publications.forget({listed.group for listed in groups})
        self._publish_gone(gone)
        self._look_for_hidden({listed.group for listed in found.groups})

    def _list_unstable(self) -> None:
        found = self._check(self._asker.list_unstable())
        if self._book.note_unstable(found):
            self._book.note_newer(self._check(self._asker.list_newer()))

    def _check(self, found: GroupList) -> GroupList:
        for error in found.errors:
            self._complaints.note(WHAT, error)
        if not found.answered:
            raise ExporterError("no broker listed its groups")
        return found

    def _publish_gone(self, gone: Iterable[Listed]) -> None:
        """Publish the end of groups that no list has any more, where their coordinator says so too."""
        for described in self._asker.describe(gone):
            if described.state == DEAD:
                self._publish(
                    Probe(probed_at_ms=_now_ms(), cluster=self._cluster, group=described.group, state=DEAD, members=())
                )

    def _look_for_hidden(self, listed: set[str]) -> None:
        """Brokers leave out what a client may not describe, without an error: compare with the log's groups."""
        known = {group for group, interest in self._interests.now(_now_ms()).items() if interest.has_members}
        self._hidden_lists = self._hidden_lists + 1 if known and not known & listed else 0
        if self._hidden_lists >= _HIDDEN_LISTS:
            self._complaints.note(
                WHAT,
                f"the brokers list none of the {len(known)} groups that the log knows; grant it: kafka-acls --add "
                "--operation Describe --group '*' --allow-principal User:... (or --operation Describe --cluster)",
            )

    def _describe(self, now: float) -> None:
        chosen = {listed.group: listed for listed in self._book.choose_described(now)}
        described = self._asker.describe(chosen.values())
        self._book.note_described(described, now)
        now_ms = _now_ms()
        for each in described:
            self._note_error(each)
            # Gone, or of another type now: the next list of all groups tells which.
            if each.state != DEAD:
                self._admit(probe_described(self._cluster, chosen[each.group], each, now_ms), now)

    def _note_error(self, described: Described) -> None:
        if described.denied:
            self._complaints.note(
                WHAT,
                f"group {described.group} may not be described, so its members are unknown; grant it: kafka-acls "
                "--add --operation Describe --group '*' --allow-principal User:...",
            )
        elif described.error:
            self._complaints.note(WHAT, f"group {described.group}: {described.error}")

    def _publish_newer(self, now: float) -> None:
        now_ms = _now_ms()
        for listed in self._book.groups():
            if not listed.is_classic:
                self._admit(probe_listed(self._cluster, listed, now_ms), now)

    def _admit(self, probe: Probe, now: float) -> None:
        if self._publications.admit(probe, now):
            self._publish(probe)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

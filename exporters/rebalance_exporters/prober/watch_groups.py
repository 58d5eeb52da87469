"""The task that watches groups: lists the unstable ones every period, describes what changed, publishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

import msgspec

from rebalance_contract import SETTLED_STATES, GroupState, Probe
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.answers import Described, GroupList
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.ended_groups import EndedGroups
from rebalance_exporters.prober.group_registry import GroupRegistry
from rebalance_exporters.prober.groups import GroupAsker
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.publish import Publications, probe_described, probe_listed
from rebalance_exporters.prober.tasks import ErrorLog
from rebalance_kafka.clock import epoch_ms
from rebalance_kafka.grants import grant

WHAT = "groups"
#: Number of lists without known groups before it is reported: all groups may just be moving to another coordinator.
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
        error_log: ErrorLog,
    ) -> None:
        self._cluster, self._reads_log = config.cluster, config.reads_log
        self._full_list_seconds = config.full_list_seconds
        self._asker = asker
        self._interests = interests
        self._publish = publish
        self._metrics = metrics
        self._error_log = error_log
        self._registry = GroupRegistry() if config.reads_log else GroupRegistry(describe_again_seconds=0.0)
        self._ended = EndedGroups()
        self._publications = Publications()
        self._next_full = 0.0
        self._hidden_lists = 0
        self._unlisted: set[str] = set()

    def cycle(self) -> None:
        """Query and publish once. Raises ExporterError if no broker answered."""
        now = time.monotonic()
        if now >= self._next_full or self._registry.wants_full_list or self._log_is_ahead():
            self._list_all(now)
            self._next_full = now + self._full_list_seconds
        else:
            self._list_unstable()
        # Where the log is read, it has the members of groups that are not classic.
        describable = frozenset[str]() if self._reads_log else self._asker.describable()
        self._describe(now, describable)
        self._publish_listed(now, describable)

    def _log_is_ahead(self) -> bool:
        """Return whether the log has groups that appeared since the last full list; they may be stable already."""
        return bool(self._interests.names() - {each.group for each in self._registry.groups()} - self._unlisted)

    def _list_all(self, now: float) -> None:
        known, asked_ms = self._interests.names(), epoch_ms()
        # Where the log is read, it has the ends of groups.
        shown = {} if self._reads_log else self._interests.shown()
        found = self._asker.list_all()
        gone = self._registry.note_all(found, asked_ms)
        groups = {listed.group for listed in self._registry.groups()}
        # Without the lists of all brokers it is not known which groups are in none.
        self._ended.note_list(gone, groups, {} if found.errors else shown)
        self._check(found)
        self._unlisted = known - {listed.group for listed in found.groups}
        self._metrics.groups.set(len(groups))
        self._publications.forget(groups)
        self._publish_ended(now)
        self._look_for_hidden({listed.group for listed in found.groups})

    def _list_unstable(self) -> None:
        asked_ms = epoch_ms()
        found = self._asker.list_unstable()
        if not found.answered:
            # After an outage anything may have changed.
            self._next_full = 0.0
        newer_settled = self._registry.note_unstable(found, asked_ms)
        self._check(found)
        if newer_settled:
            newer = self._asker.list_newer()
            self._registry.note_newer(newer)
            self._check(newer)

    def _check(self, found: GroupList) -> None:
        for error in found.errors:
            self._error_log.note(WHAT, error)
        if not found.answered:
            raise ExporterError("no broker listed its groups")

    def _publish_ended(self, now: float) -> None:
        """Publish the end of groups that are in no list any more, once their coordinators confirm it."""
        asked = self._ended.choose_asked(now)
        described = self._asker.describe_unlisted(asked) if asked else []
        for each in described:
            if each.error and not each.denied:
                self._error_log.note(WHAT, f"whether group {each.group} is gone: {each.error}", about=each.error)
        for group in self._ended.note_described(described):
            self._publish(
                Probe(probed_at_ms=epoch_ms(), cluster=self._cluster, group=group, state=GroupState.DEAD, members=())
            )

    def _look_for_hidden(self, listed: set[str]) -> None:
        """Report missing permissions by comparing with the log's groups.

        Brokers leave out groups that a client may not describe, without an error.
        """
        known = {group for group, interest in self._interests.now(epoch_ms()).items() if interest.has_members}
        self._hidden_lists = self._hidden_lists + 1 if known and not known & listed else 0
        if self._hidden_lists >= _HIDDEN_LISTS:
            self._error_log.note(
                WHAT,
                f"the brokers list none of the {len(known)} groups that the log knows; {grant('Describe', group='*')} "
                "(or --operation Describe --cluster)",
            )

    def _describe(self, now: float, describable: Collection[str]) -> None:
        chosen = {listed.group: listed for listed in self._registry.choose_described(now, describable)}
        described = [each for each in self._asker.describe(chosen.values()) if each.group in chosen]
        self._registry.note_described(described, now)
        now_ms = epoch_ms()
        for each in described:
            self._note_error(each)
            # The group is gone or has changed its type: the next list of all groups shows which.
            if each.state != GroupState.DEAD:
                probe = probe_described(self._cluster, chosen[each.group], each, now_ms)
                self._admit(self._with_settled(probe), now)

    def _note_error(self, described: Described) -> None:
        if described.denied:
            self._error_log.note(
                WHAT,
                f"group {described.group} may not be described, so its members are unknown; "
                f"{_grant_of(described.denied)}",
            )
        elif described.error:
            self._error_log.note(WHAT, f"group {described.group}: {described.error}")

    def _publish_listed(self, now: float, described: Collection[str]) -> None:
        """Publish the states of groups that are neither classic nor of a type that is described."""
        now_ms = epoch_ms()
        for listed in self._registry.groups():
            if not listed.is_classic and listed.type not in described:
                self._admit(probe_listed(self._cluster, listed, now_ms), now)

    def _with_settled(self, probe: Probe) -> Probe:
        """Add to a probe of an unstable group when the group was last listed as settled."""
        settled_ms = self._registry.settled_ms(probe.group)
        return probe if settled_ms is None else replace(probe, settled_at_ms=settled_ms)

    def _admit(self, probe: Probe, now: float) -> None:
        if self._publications.admit(probe, now):
            self._publish(probe if self._reads_log else self._with_bounds(probe))
        if probe.state in SETTLED_STATES:
            self._registry.note_rested(probe.group, probe.probed_at_ms)

    def _with_bounds(self, probe: Probe) -> Probe:
        """Add the earliest possible start of the group's state, which the log reports better if it is read."""
        unlisted_ms, rested_ms = self._registry.take_unlisted_ms(probe.group), self._registry.rested_ms(probe.group)
        if unlisted_ms is not None:
            probe = replace(probe, unlisted_at_ms=unlisted_ms)
        if rested_ms is not None and probe.settled_at_ms is msgspec.UNSET:
            probe = replace(probe, settled_at_ms=rested_ms)
        return probe


def _grant_of(resource: str) -> str:
    return grant("Describe", topic="*") if resource == "topic" else grant("Describe", group="*")

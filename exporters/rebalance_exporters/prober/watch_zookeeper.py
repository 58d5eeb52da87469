"""The task that watches groups in ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from rebalance_contract import Probe
from rebalance_exporters.prober.publish import Publications
from rebalance_exporters.prober.repeats import LONGEST_SECONDS
from rebalance_exporters.prober.tasks import ErrorLog
from rebalance_exporters.prober.zookeeper import ZooKeeperClient, ZookeeperGroup, probe_zookeeper
from rebalance_kafka.clock import epoch_ms

WHAT = "zookeeper"


class ZookeeperWatch:
    """Cycles over the groups of an ensemble."""

    def __init__(
        self, cluster: str, zookeeper: ZooKeeperClient, publish: Callable[[Probe], None], error_log: ErrorLog
    ) -> None:
        self._cluster = cluster
        self._error_log = error_log
        self._zookeeper = zookeeper
        self._publish = publish
        self._publications = Publications()
        #: When each group was last known to exist, in seconds of the monotonic clock.
        self._existed: dict[str, float] = {}

    def cycle(self) -> None:
        """Read and publish once."""
        now, now_ms = time.monotonic(), epoch_ms()
        found = self._zookeeper.read()
        for error in self._zookeeper.errors:
            self._error_log.note(WHAT, error)
        groups = [*found, *self._deleted(found, now)]
        for group in groups:
            probe = probe_zookeeper(self._cluster, group, now_ms)
            if self._publications.admit(probe, now):
                self._publish(probe)
        self._publications.forget({group.group for group in groups})

    def _deleted(self, found: Iterable[ZookeeperGroup], now: float) -> list[ZookeeperGroup]:
        """Return the groups whose nodes were deleted, as empty ones: ZooKeeper has no other sign of their end.

        They are repeated for as long as a group's publications may be apart, and then forgotten.
        """
        present = {group.group for group in found}
        # Of a group that may not be read any more it is not known whether it has members.
        refused = self._zookeeper.refused & self._existed.keys()
        self._existed |= dict.fromkeys(present | refused, now)
        self._existed = {name: at for name, at in self._existed.items() if now - at <= LONGEST_SECONDS}
        return [ZookeeperGroup(name) for name in sorted(self._existed.keys() - present - refused)]

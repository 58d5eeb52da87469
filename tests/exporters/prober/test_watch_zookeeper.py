"""The ends of groups in ZooKeeper; without a server."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_contract import Probe
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.repeats import LONGEST_SECONDS
from rebalance_exporters.prober.tasks import ErrorLog
from rebalance_exporters.prober.watch_zookeeper import ZookeeperWatch
from rebalance_exporters.prober.zookeeper import ZookeeperGroup

GROUP = ZookeeperGroup("g", {"h-1:a": 5}, {"orders": {"0": "h-1:a"}})


class _Server:
    """An ensemble with some groups, of which some may not be read."""

    def __init__(self) -> None:
        self.groups = [GROUP]
        self.errors: tuple[str, ...] = ()
        self.refused: frozenset[str] = frozenset()

    def read(self) -> list[ZookeeperGroup]:
        return self.groups


class _Watched:
    """A watch of a server, at a time in seconds, and what it publishes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.now, self.published = _Server(), 1_000.0, list[Probe]()
        monkeypatch.setattr("rebalance_exporters.prober.watch_zookeeper.time.monotonic", lambda: self.now)
        metrics, client = ProbeMetrics(), self._client()
        self.watch = ZookeeperWatch("test", client, self.published.append, ErrorLog(metrics, lambda _: None))

    def _client(self) -> Any:
        return self.server

    def cycle(self) -> list[Probe]:
        """Return what one cycle publishes."""
        self.published.clear()
        self.watch.cycle()
        return self.published


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> _Watched:
    """A watch that has published the group."""
    found = _Watched(monkeypatch)
    (probe,) = found.cycle()
    assert [each.member_id for each in probe.members or ()] == ["h-1:a"]
    return found


def test_a_group_whose_nodes_are_deleted_is_published_as_empty(watched: _Watched) -> None:
    """Once at once and again for some minutes, in case a probe is lost."""
    watched.server.groups = []
    (probe,) = watched.cycle()
    assert (probe.group, probe.members, probe.owners) == ("g", (), {})
    assert watched.cycle() == []
    watched.now += LONGEST_SECONDS
    assert [(each.group, each.members) for each in watched.cycle()] == [("g", ())]
    watched.now += 1
    assert watched.cycle() == []
    watched.now += LONGEST_SECONDS
    assert watched.cycle() == []


def test_a_group_that_returns_is_published_with_its_members(watched: _Watched) -> None:
    """It has not ended."""
    watched.server.groups = []
    watched.cycle()
    watched.server.groups = [GROUP]
    (probe,) = watched.cycle()
    assert probe.owners == GROUP.owners


def test_a_group_that_may_not_be_read_any_more_is_not_empty(watched: _Watched) -> None:
    """Nothing is published of it."""
    watched.server.groups, watched.server.refused = [], frozenset({"g", "never read"})
    assert watched.cycle() == []
    watched.server.refused = frozenset()
    (probe,) = watched.cycle()
    assert (probe.group, probe.members) == ("g", ())

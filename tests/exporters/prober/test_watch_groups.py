"""The ends of groups that are published where the log is not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from exporters.prober.probing import make_config
from rebalance_contract import GroupSnapshot, Member, Probe, encode
from rebalance_exporters.prober.answers import Described, GroupList, Listed
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.tasks import ErrorLog
from rebalance_exporters.prober.watch_groups import GroupWatch


class _Coordinators:
    """The only broker, with stable groups; `silent` is how often it does not answer about another one."""

    def __init__(self, *groups: str) -> None:
        self.groups = set(groups)
        self.silent = 0
        self.errors: list[str] = []

    def list_all(self) -> GroupList:
        rows = [Listed(group, 1, "consumer", "Stable", "classic") for group in sorted(self.groups)]
        return GroupList(rows, {1}, [*self.errors])

    def describable(self) -> frozenset[str]:
        return frozenset()

    def describe(self, listed: Iterable[Listed]) -> list[Described]:
        return [self._describe(each.group) for each in listed]

    def describe_unlisted(self, types: Mapping[str, str | None]) -> list[Described]:
        return [self._describe(group) for group in types]

    def _describe(self, group: str) -> Described:
        if group in self.groups:
            return Described(group, "Stable")
        if self.silent:
            self.silent -= 1
            return Described(group, None, error="late")
        return Described(group, "Dead")


class _Watched:
    """A watch whose every cycle lists all groups, and the stream's rows that it knows."""

    def __init__(self, coordinators: _Coordinators, *, reads_log: bool = False) -> None:
        self.interests, self.published = Interests("test"), list[Probe]()
        metrics, self.said = ProbeMetrics(), list[str]()
        asker: Any = coordinators
        self.watch = GroupWatch(
            make_config("127.0.0.1:1", "x.", reads_log=reads_log, full_list_seconds=0.000_001),
            asker=asker,
            interests=self.interests,
            publish=self.published.append,
            metrics=metrics,
            error_log=ErrorLog(metrics, self.said.append),
        )

    def show(self, group: str, state: str = "Stable") -> None:
        """Let the stream publish a group."""
        members = (Member("m", "c", "/h"),) if state == "Stable" else ()
        snapshot = GroupSnapshot("test", group, type="classic", state=state, members=members)
        self.interests.apply_group(f"test/{group}".encode(), encode(snapshot))

    def ended(self, *, cycles: int) -> list[str]:
        """Return the groups whose end some cycles publish."""
        self.published.clear()
        for _ in range(cycles):
            self.watch.cycle()
        return [probe.group for probe in self.published if probe.state == "Dead"]


@pytest.mark.parametrize("reads_log", [False, True])
def test_a_missed_confirmation_is_asked_for_again(reads_log: bool) -> None:
    """Otherwise the group would be shown forever."""
    coordinators = _Coordinators("g", "other")
    watched = _Watched(coordinators, reads_log=reads_log)
    assert watched.ended(cycles=1) == []
    coordinators.groups.remove("g")
    coordinators.silent = 2
    assert watched.ended(cycles=2) == []
    assert watched.said == ["probe: whether group g is gone: late"]
    assert watched.ended(cycles=2) == ["g", "g"]


def test_a_group_that_was_deleted_while_no_prober_ran_gets_its_end() -> None:
    """The stream still shows it, until it has read the end."""
    watched = _Watched(_Coordinators("other"))
    watched.show("g")
    watched.show("other")
    assert set(watched.ended(cycles=3)) == {"g"}
    watched.show("g", state="Deleted")
    assert watched.ended(cycles=5) == []


def test_a_group_is_not_missing_while_a_broker_lists_none() -> None:
    """Its coordinator may be the one that does not answer."""
    coordinators = _Coordinators()
    coordinators.errors = ["broker 2 did not list its groups"]
    watched = _Watched(coordinators)
    watched.show("g")
    assert watched.ended(cycles=5) == []


def test_where_the_log_is_read_it_ends_the_groups_that_it_shows() -> None:
    """Groups that a prober never listed are of no concern to it."""
    watched = _Watched(_Coordinators(), reads_log=True)
    watched.show("g")
    assert watched.ended(cycles=5) == []

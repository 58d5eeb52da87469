"""Lists of groups from brokers of different versions, and descriptions of groups that are in none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from kafka.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from rebalance_exporters.prober.groups import GroupAsker

#: The highest version of ListGroups in brokers of 2.4, 3.7 and 4.0: without filters, with that of states, with both.
OLD, MIDDLE, NEW = 3, 4, 5
_NEEDED = {"": OLD, "states": MIDDLE, "types": NEW}


class _Brokers:
    """Brokers with one stable group each, by the version of ListGroups that they know; `asked` has kinds of filters."""

    def __init__(self, versions: dict[int, int], error: type[Exception] = IncompatibleBrokerVersion) -> None:
        self.versions, self.error = versions, error
        self.silent: set[int] = set()
        self.asked: list[tuple[int, str]] = []

    @property
    def ids(self) -> list[int]:
        return sorted(self.versions)

    def ask(self, requests: Any) -> Any:
        return {broker: [self._answer(broker, each) for each in several] for broker, several in requests.items()}

    def _answer(self, broker: int, request: Any) -> Any:
        kind = "states" if request.states_filter else "types" if request.types_filter else ""
        self.asked.append((broker, kind))
        if broker in self.silent:
            return KafkaTimeoutError()
        if self.versions[broker] < _NEEDED[kind]:
            return self.error()
        # As the client does: the first broker that a request is sent to decides its version.
        request.API_VERSION = request.API_VERSION or self.versions[broker]
        if self.versions[broker] < request.API_VERSION:
            return KafkaConnectionError("closed by the broker")
        row = SimpleNamespace(group_id=f"g{broker}", protocol_type="consumer")
        return SimpleNamespace(error_code=0, groups=[] if kind else [row])

    def take_asked(self) -> list[tuple[int, str]]:
        """What was requested since the last call."""
        asked, self.asked = self.asked, []
        return asked


def make(brokers: Any) -> GroupAsker:
    """A querier of these brokers."""
    return GroupAsker(brokers)


@pytest.mark.parametrize("error", [IncompatibleBrokerVersion, UnsupportedVersionError])
def test_a_broker_without_filters_lists_all_its_groups(error: type[Exception]) -> None:
    """Whether the client or the broker notices it; the others list the unstable ones only, and nothing is an error."""
    brokers = _Brokers({1: OLD, 2: MIDDLE}, error)
    found = make(brokers).list_unstable()
    assert brokers.asked == [(1, "states"), (2, "states"), (1, "")]
    assert ([each.group for each in found.groups], found.answered, found.errors) == (["g1"], {1, 2}, [])


def test_the_filter_is_used_again_once_a_broker_was_upgraded() -> None:
    """Otherwise every cycle would list all groups until the prober is restarted."""
    brokers = _Brokers({1: OLD})
    asker = make(brokers)
    asker.list_unstable()
    brokers.versions[1] = MIDDLE
    brokers.take_asked()
    assert asker.list_unstable().groups == []
    assert brokers.take_asked() == [(1, "states")]


def test_a_missing_filter_of_types_does_not_end_that_of_states() -> None:
    """During an upgrade from 3.7, when the groups that are not classic are listed."""
    brokers = _Brokers({1: MIDDLE, 2: NEW})
    asker = make(brokers)
    found = asker.list_newer()
    assert ([each.group for each in found.groups], found.answered, found.errors) == (["g1"], {1, 2}, [])
    brokers.take_asked()
    asker.list_unstable()
    assert brokers.take_asked() == [(1, "states"), (2, "states")]


def test_each_broker_is_asked_in_its_own_version() -> None:
    """A broker closes connections with a version that it does not know, so an older one would never list its groups."""
    brokers = _Brokers({1: NEW, 2: OLD})
    found = make(brokers).list_all()
    assert ([each.group for each in found.groups], found.errors) == (["g1", "g2"], [])


def test_a_broker_that_does_not_answer_is_not_asked_for_all_its_groups() -> None:
    """It is reported; its version is not the reason."""
    brokers = _Brokers({1: NEW, 2: NEW})
    brokers.silent = {2}
    found = make(brokers).list_unstable()
    assert brokers.asked == [(1, "states"), (2, "states")]
    assert found.answered == {1}
    assert len(found.errors) == 1
    assert "broker 2 did not list its groups" in found.errors[0]


def test_groups_in_no_list_are_described_by_their_present_coordinators() -> None:
    """A group that is unknown there is dead; one whose coordinator is not known, or may not be asked, is not."""
    brokers = _Coordinators()
    found = make(brokers).describe_unlisted({"g1": "classic", "g2": None, "lost": "classic", "secret": None})
    by_name = {each.group: each for each in found}
    assert brokers.described == {1: ["g1"], 2: ["g2"]}
    assert [by_name[each].state for each in ("g1", "g2", "lost", "secret")] == ["Dead", "Stable", None, None]
    assert "CoordinatorNotAvailable" in (by_name["lost"].error or "")
    assert (by_name["lost"].denied, by_name["secret"].denied) == ("", "group")


class _Coordinators:
    """Two coordinators: broker 1 has no group, broker 2 has `g2`."""

    _CODES: ClassVar = {"lost": CoordinatorNotAvailableError.errno, "secret": GroupAuthorizationFailedError.errno}

    def __init__(self) -> None:
        self.described: dict[int, list[str]] = {}

    def version_of(self, _: Any) -> int:
        return 4

    def knows(self, _: Any) -> bool:
        return False

    def ask(self, requests: Any) -> Any:
        return {broker: [self._answer(broker, each) for each in several] for broker, several in requests.items()}

    def _answer(self, broker: Any, request: Any) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return SimpleNamespace(coordinators=[self._coordinator(each) for each in request.coordinator_keys])
        self.described[broker] = request.groups
        return SimpleNamespace(groups=[self._group(each) for each in request.groups])

    def _coordinator(self, group: str) -> SimpleNamespace:
        return SimpleNamespace(key=group, error_code=self._CODES.get(group, 0), node_id=1 if group == "g1" else 2)

    def _group(self, name: str) -> SimpleNamespace:
        state = "Stable" if name == "g2" else "Dead"
        fields = {"error_code": 0, "protocol_type": "consumer", "protocol_data": "range", "members": []}
        return SimpleNamespace(group_id=name, group_state=state, **fields)

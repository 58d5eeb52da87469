"""Requests committed offsets from coordinators, for groups of which the stream reports no commit.

A cold read of the log has the last commit of every partition of every group, and the lag topic keeps them. So only
groups without a commit or a lag row are queried: those whose commits the stream could not read. Nothing waits for these
answers: a separate thread requests them, a few groups at a time, once the stream has had the time to report the commits
itself.

The requests are made here: confluent-kafka 2.16's own call ends the process when a coordinator answers that it is not
ready (librdkafka 2.16.1 looks for a consumer group that an admin client does not have).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import GroupAuthorizationFailedError, for_code
from kafka.protocol.consumer import OffsetFetchRequest

from rebalance_exporters.prober.brokers import Answer, Brokers
from rebalance_exporters.prober.coordinators import find_coordinators
from rebalance_exporters.prober.offset_publications import Offsets
from rebalance_exporters.prober.tasks import describe
from rebalance_kafka.backoff import Backoff
from rebalance_kafka.grants import grant

#: A group is queried again after this time.
AGAIN_SECONDS = 600.0
#: A group is first queried when it has been known for this long without a commit: its row in the groups topic comes
#: before those of its commits.
PATIENCE_SECONDS = 30.0
#: A group without an answer is queried again after the first of these; the pause doubles up to the second.
FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 120.0
#: Groups queried in one round; the second value applies if no commits are read from the log.
_AT_ONCE, _ALL_AT_ONCE = 200, 1_000
#: First version that takes many groups per request (KIP-709; brokers from 3.0 on).
_MANY_GROUPS = 8
#: First version that can request all partitions (KIP-88).
_ALL_PARTITIONS = 2


@dataclass(slots=True)
class CommittedRound:
    """Results of one round by group; `errors` are sentences for people."""

    offsets: dict[str, Offsets] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Turn:
    """The time of a group's next query, and its back-off while there is no answer."""

    at: float
    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))

    def put_off(self, now: float) -> None:
        """Postpone the group, so that others go first: a coordinator that is away for long has many groups."""
        self.at = now + self.backoff.fail()

    def pass_on(self, at: float) -> None:
        """Note an answer, and when the next query is due."""
        self.backoff.succeed()
        self.at = at


class CommittedAsker:
    """Requests the committed offsets of groups, a few in each round; remembers when each is due.

    `reads_log`: the stream reports commits. If not, groups are queried in every round, in turns if there are many.
    """

    def __init__(self, brokers: Brokers, *, reads_log: bool = True) -> None:
        self._brokers = brokers
        self._again_seconds, self._patience_seconds = (AGAIN_SECONDS, PATIENCE_SECONDS) if reads_log else (0.0, 0.0)
        self._at_once = _AT_ONCE if reads_log else _ALL_AT_ONCE
        self._turns: dict[str, _Turn] = {}

    def ask(self, groups: Iterable[str], now: float) -> CommittedRound:
        """Query the groups that are due; `now` is in seconds of a steady clock.

        A group whose coordinator cannot answer now is due again soon, behind those that were due before.
        """
        first = now + self._patience_seconds
        self._turns = {group: self._turns.get(group) or _Turn(first) for group in groups}
        due = sorted((turn.at, group) for group, turn in self._turns.items() if turn.at <= now)[: self._at_once]
        found = CommittedRound()
        for group, answer in self._fetch(find_coordinators(self._brokers, [group for _, group in due])):
            error = answer if isinstance(answer, Exception) else _error_of(answer)
            if error is None or isinstance(error, GroupAuthorizationFailedError):
                self._turns[group].pass_on(now + self._again_seconds)
            else:
                self._turns[group].put_off(now)
            if error is None:
                found.offsets[group] = _read(answer)
            else:
                found.errors.append(_sentence(group, error))
        return found

    def _fetch(self, coordinators: Mapping[str, int | Exception]) -> Iterator[tuple[str, Answer | Exception]]:
        """Yield the answer of each group's coordinator: a row with the group's topics and its error code."""
        groups: dict[int, list[str]] = defaultdict(list)
        for group, broker in coordinators.items():
            if isinstance(broker, Exception):
                yield group, broker
            else:
                groups[broker].append(group)
        if self._brokers.version_of(OffsetFetchRequest) < _MANY_GROUPS:
            yield from self._fetch_singly(groups)
        else:
            yield from self._fetch_many(groups)

    def _fetch_singly(self, groups: Mapping[int, list[str]]) -> Iterator[tuple[str, Answer | Exception]]:
        requests: dict[int | None, list[Any]] = {
            broker: [
                OffsetFetchRequest(
                    group_id=group, topics=None, min_version=_ALL_PARTITIONS, max_version=_MANY_GROUPS - 1
                )
                for group in names
            ]
            for broker, names in groups.items()
        }
        for broker, answers in self._brokers.ask(requests).items():
            assert broker is not None
            yield from zip(groups[broker], answers, strict=True)

    def _fetch_many(self, groups: Mapping[int, list[str]]) -> Iterator[tuple[str, Answer | Exception]]:
        row = OffsetFetchRequest.OffsetFetchRequestGroup
        requests: dict[int | None, list[Any]] = {
            broker: [
                OffsetFetchRequest(
                    groups=[row(group_id=group, topics=None) for group in names],
                    min_version=_MANY_GROUPS,
                    max_version=_MANY_GROUPS,
                )
            ]
            for broker, names in groups.items()
        }
        for broker, (answer,) in self._brokers.ask(requests).items():
            assert broker is not None
            if isinstance(answer, Exception):
                yield from ((group, answer) for group in groups[broker])
            else:
                yield from ((each.group_id, each) for each in answer.groups)


def _error_of(row: Answer) -> Exception | None:
    return for_code(row.error_code)() if row.error_code else None


def _read(row: Answer) -> Offsets:
    offsets: Offsets = {}
    for topic in row.topics or ():
        for each in topic.partitions:
            if not each.error_code and each.committed_offset >= 0:
                offsets.setdefault(topic.name, {})[str(each.partition_index)] = each.committed_offset
    return offsets


def _sentence(group: str, error: Exception) -> str:
    if isinstance(error, GroupAuthorizationFailedError):
        return f"committed offsets of group {group} may not be asked; {grant('Describe', group='*')}"
    return f"committed offsets of group {group} are unknown ({describe(error)})"

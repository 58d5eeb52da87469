"""End offsets of partitions, queried at their leaders."""

from types import SimpleNamespace
from typing import Any

from kafka.errors import KafkaTimeoutError, NotLeaderForPartitionError, TopicAuthorizationFailedError

from rebalance_exporters.prober.offsets import OffsetAsker
from rebalance_exporters.prober.topics import ProbedTopic

#: The kinds of queries; the difference of each from the end.
END, STABLE, START = 0, 1, 2


class _Brokers:
    """Leaders with given answers: offsets by (topic, partition), or an error; stable ones are behind by 1.

    Partitions begin at their ends minus 2.
    """

    def __init__(self, offsets: dict[tuple[str, int], int], errors: dict[str, int] | None = None) -> None:
        self.offsets, self.errors = offsets, errors or {}
        self.silent: set[int] = set()
        self.asked: list[tuple[int | None, int, int]] = []
        #: The topics of requests for ends.
        self.rows: list[Any] = []

    def ask(self, requests):
        return {broker: [self._answer(broker, each) for each in several] for broker, several in requests.items()}

    def _answer(self, broker, request):
        (timestamp,) = {each.timestamp for topic in request.topics for each in topic.partitions}
        what = {-2: START, -1: STABLE if request.isolation_level else END}[timestamp]
        self.asked.append((broker, what, sum(len(each.partitions) for each in request.topics)))
        self.rows += request.topics if what == END else []
        if broker in self.silent:
            return KafkaTimeoutError("late")
        return SimpleNamespace(topics=[self._topic(each, what) for each in request.topics])

    def _topic(self, topic, what):
        code = self.errors.get(topic.name, 0)
        numbers = [each.partition_index for each in topic.partitions]
        rows = [
            SimpleNamespace(
                partition_index=each, error_code=code, offset=self.offsets.get((topic.name, each), -1) - what
            )
            for each in numbers
        ]
        return SimpleNamespace(name=topic.name, partitions=rows)


def make(brokers: Any) -> OffsetAsker:
    """A querier of these brokers, which queries the beginnings of partitions every 30 s."""
    return OffsetAsker(brokers, 30)


def test_each_leader_is_asked_for_its_partitions():
    """Once for the stable offsets, once for the ends, and for the beginnings; an offset below 0 is unknown."""
    brokers = _Brokers({("t", 0): 5, ("t", 1): 6, ("u", 0): 0})
    found = make(brokers).ask([ProbedTopic("t", (1, 2, 1)), ProbedTopic("u", (2,))], 0)
    asked = [(broker, what, 2) for broker in (1, 2) for what in (STABLE, END, START)]
    assert brokers.asked == asked
    assert found.end == {"t": [5, 6, None], "u": [0]}
    assert found.stable == {"t": [4, 5, None], "u": [None]}
    assert found.start == {"t": [3, 4, None], "u": [None]}
    assert (found.errors, found.failures, found.moved) == ({}, [], set())


def test_many_partitions_are_asked_in_batches():
    """Of whole topics: each batch first for its stable offsets, then for its ends."""
    topics = [ProbedTopic(f"t{number}", (1,) * 4_000) for number in range(3)] + [ProbedTopic("large", (1,) * 20_000)]
    brokers = _Brokers({(topic.name, number): number + 1 for topic in topics for number in range(topic.partitions)})
    found = make(brokers).ask(topics, 0)
    batches = [8_000, 8_000, 4_000, 4_000, 20_000, 20_000, 8_000, 4_000, 20_000]
    assert [count for _, _, count in brokers.asked] == batches
    assert found.end == {topic.name: list(range(1, topic.partitions + 1)) for topic in topics}
    assert found.stable == {topic.name: list(range(topic.partitions)) for topic in topics}


def test_where_partitions_begin_is_asked_now_and_then():
    """Of a new topic at once, of the others when it was queried long ago."""
    brokers = _Brokers({("t", 0): 5, ("u", 0): 6})
    asker, old, new = make(brokers), ProbedTopic("t", (1,)), ProbedTopic("u", (1,))
    rounds = [(0, [old]), (29, [old]), (29, [old, new]), (30, [old, new]), (59, [old, new])]
    begins = [asker.ask(topics, now).start for now, topics in rounds]
    assert begins == [{"t": [3]}, {}, {"u": [4]}, {"t": [3]}, {"u": [4]}]


def test_where_partitions_begin_is_asked_again_until_a_leader_says_so():
    """Until then nobody can tell a group that comes back whether retention has overtaken it."""
    brokers = _Brokers({("t", 0): 5})
    asker, topics = make(brokers), [ProbedTopic("t", (1, 2)), ProbedTopic("u", (2,))]
    brokers.silent = {1, 2}
    assert asker.ask(topics, 0).start == {"t": [None, None], "u": [None]}
    brokers.silent = {2}
    assert asker.ask(topics, 2).start == {"t": [3, None], "u": [None]}
    assert asker.ask(topics, 4).start == {"u": [None]}


def test_a_leader_that_does_not_answer_spoils_its_own_partitions_only():
    """They are unknown, reported in one sentence for all, and its topics may have another leader."""
    brokers = _Brokers({("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    brokers.silent = {2}
    found = make(brokers).ask([ProbedTopic("t", (1, 2)), ProbedTopic("u", (1,))], 0)
    assert found.end == {"t": [5, None], "u": [7]}
    assert len(set(found.failures)) == 1
    assert (set(found.errors), found.moved) == ({"t"}, {"t"})


def test_errors_are_by_topic():
    """A missing permission is named; an outdated leader is detected, and so is one that never existed."""
    brokers = _Brokers({}, {"moved": NotLeaderForPartitionError.errno, "secret": TopicAuthorizationFailedError.errno})
    found = make(brokers).ask(
        [ProbedTopic("moved", (1,)), ProbedTopic("secret", (1,)), ProbedTopic("orphan", (-1,))], 0
    )
    assert "kafka-acls" in found.errors["secret"]
    assert "NotLeader" in found.errors["moved"]
    assert "no leader" in found.errors["orphan"]
    assert found.moved == {"moved", "orphan"}
    assert found.end == {"moved": [None], "secret": [None], "orphan": [None]}


def test_absurd_answers_are_left_out():
    """Unrequested topics and partitions, and unknown error codes."""

    class Absurd(_Brokers):
        def _topic(self, topic, what):
            rows = [SimpleNamespace(partition_index=each, error_code=0, offset=2**63 - 1) for each in (-5, 0, 9, 10**9)]
            rows.append(SimpleNamespace(partition_index=1, error_code=31_000, offset=3))
            name = "never asked" if topic.name == "u" else topic.name
            return SimpleNamespace(name=name, partitions=rows)

    found = make(Absurd({})).ask([ProbedTopic("t", (1, 1)), ProbedTopic("u", (1,))], 0)
    assert found.end == {"t": [2**63 - 1, None], "u": [None]}
    assert set(found.errors) == {"t"}


def test_what_is_asked_is_put_together_once():
    """Until leaders change, or the topic is forgotten."""
    brokers = _Brokers({})
    asker = make(brokers)
    for topics in ([ProbedTopic("t", (1,))], [ProbedTopic("t", (1,))], [ProbedTopic("t", (2,))]):
        asker.ask(topics, 0)
    asker.forget([])
    asker.ask([ProbedTopic("t", (2,))], 0)
    first, second, third, fourth = brokers.rows
    assert first is second
    assert len({id(each) for each in (second, third, fourth)}) == 3

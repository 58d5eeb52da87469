"""Conflicts, orphaned partitions and flapping sessions of ZooKeeper groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from detect.views import said_by, view_of
from histories import MINUTE, SECOND, T0, commits, history, probe
from rebalance_contract import Probe, ProbedMember, Severity
from rebalance_streaming.detect.rules.zookeeper import (
    _starved,
    zk_orphan_partition,
    zk_partition_owner_conflict,
    zk_session_flap,
)
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, PLAUSIBLE, STRONG

A, B, C, D, E = (f"node-{number}:{letter * 8}" for number, letter in enumerate("abcde", 1))


def seen(
    after_s: float, ids: Sequence[str], owners: Mapping[int, str], *, topic: str = "orders", made_ms: int = T0
) -> Probe:
    """Return a look at ZooKeeper this many seconds after the story began."""
    members = [ProbedMember(each, "", each.partition(":")[0], session_created_ms=made_ms) for each in ids]
    return probe(T0 + int(after_s * SECOND), None, members, owners=owners, topic=topic)


def conflicts(now_s: float, *looks: Probe) -> list[Verdict]:
    """Return the conflicts found this many seconds after the story began."""
    return list(zk_partition_owner_conflict(view_of(history(*looks), T0 + int(now_s * SECOND))))


def subjects(verdicts: Sequence[Verdict]) -> list[str | None]:
    return [member.member_id for each in verdicts for member in each.subject.members]


ALL_A = dict.fromkeys(range(5), A)
SHARED = {0: A, 1: A, 2: A, 3: B, 4: B}


def test_the_holder_is_named_when_newcomers_give_up():
    """Story E: four newcomers wait 12 s for nodes that the first consumer keeps, then leave without owning any."""
    (found,) = conflicts(
        16,
        seen(0, [A], ALL_A),
        seen(1, [A, B, C, D, E], ALL_A),
        seen(13.1, [A, C], ALL_A),
        seen(15, [A], ALL_A),
        probe(T0, ends=dict.fromkeys(range(5), 70)),
        probe(T0 + 15 * SECOND, ends=dict.fromkeys(range(5), 70)),
    )
    assert (found.rule, found.confidence, found.variant) == ("zk_partition_owner_conflict", CERTAIN, "consume_blocks")
    assert subjects([found]) == [A]
    assert "node-1" in found.summary
    assert "4 other members gave up" in found.summary
    assert [each.parameter for each in found.advice] == ["upgrade", "consumer_timeout_ms"]


def test_a_conflict_is_reported_while_newcomers_still_wait():
    """After the 12 s for which pykafka retries, not before; missing end offsets are named."""
    waiting = (seen(0, [A], ALL_A), seen(5, [A, B], ALL_A))
    assert conflicts(17, *waiting) == []
    (found,) = conflicts(18, *waiting)
    assert (found.confidence, subjects([found]), len(found.missing)) == (STRONG, [A], 1)


def test_who_starves_has_an_order():
    """A verdict's text uses the first of them: it is the same in every process, whatever the order of sets."""
    newcomers = [f"node-{number}:{number}" for number in range(9)]
    look = view_of(history(seen(0, [A, *newcomers], dict.fromkeys(range(20), A))), T0)
    starved = _starved(look, list(look.history.ownership), 0, "orders")
    assert [each.starved for each in starved] == newcomers


HEALTHY = {
    "alone": (seen(40, [A], ALL_A),),
    "a hand-over within seconds": (seen(0, [A], ALL_A), seen(2, [A, B], ALL_A), seen(4, [A, B], SHARED)),
    "a slow member": (seen(0, [A], ALL_A), seen(2, [A, B], ALL_A), seen(9, [A, B], SHARED)),
    "a member leaves": (seen(0, [A, B], SHARED), seen(2, [A, B], {0: A, 1: A, 2: A}), seen(4, [A], ALL_A)),
    "a member dies": (seen(0, [A, B], SHARED), seen(6, [A], {0: A, 1: A, 2: A}), seen(8, [A], ALL_A)),
    "a newcomer crashes at once": (seen(0, [A], ALL_A), seen(2, [A, B], ALL_A), seen(6, [A], ALL_A)),
    "a former owner starves and leaves": (seen(0, [A, B], SHARED), seen(4, [A, B], ALL_A), seen(14, [A], ALL_A)),
    "more members than partitions": (seen(40, [A, B, C], {0: A, 1: B}),),
    "threads own under the id of their consumer": (
        seen(40, [A, B], {p: (f"{A}-0", f"{A}-1", f"{B}-0")[p // 3] for p in range(9)}),
    ),
    "one too many for another topic": (
        Probe(
            probed_at_ms=T0 + 40 * SECOND,
            cluster="prod",
            group="g",
            members=tuple(ProbedMember(each, "", "") for each in (A, B, C)),
            owners={"orders": dict.fromkeys("0123", A), "small": {"0": B}},
        ),
    ),
}


@pytest.mark.parametrize("story", HEALTHY)
def test_healthy_groups_have_no_conflict(story):
    """Reassignment, even a slow one, is no conflict; nor is a surplus member."""
    for now_s in range(1, 61):
        assert conflicts(now_s, *(each for each in HEALTHY[story] if each.probed_at_ms <= T0 + now_s * SECOND)) == []


def test_a_conflict_ends_when_the_holder_lets_go_or_long_after():
    """The finding is resolved with its cause."""
    story = (seen(0, [A], ALL_A), seen(1, [A, B], ALL_A), seen(13, [A], ALL_A))
    assert len(conflicts(20, *story)) == 1
    assert conflicts(80, *story, seen(70, [A, C], {**ALL_A, 4: C})) == []
    assert conflicts(900, *story, *(seen(60 * minute, [A], ALL_A) for minute in range(1, 15))) == []


def test_nothing_is_said_of_what_nobody_looks_at_any_more():
    """Without a look for more than a minute the prober is gone: the last snapshot may be outdated."""
    assert conflicts(120, seen(0, [A], ALL_A), seen(5, [A, B], ALL_A)) == []


def test_two_topics_lower_the_confidence():
    """Ids do not show the topic of a member that owns nothing."""
    two = seen(5, [A, B, C], ALL_A)
    assert isinstance(two.owners, dict)
    two.owners["payments"] = {"0": C, "1": C, "2": C, "3": C}
    found = conflicts(30, two)
    assert {each.confidence for each in found} == {PLAUSIBLE}
    assert sorted(str(each) for each in subjects(found)) == [A, C]


def test_a_busy_topic_is_not_the_known_defect():
    """Arriving records wake consume(): then a longer wait of the newcomers is advised first."""
    (found,) = conflicts(
        30,
        seen(0, [A], ALL_A),
        seen(5, [A, B], ALL_A),
        probe(T0 + 6 * SECOND, ends=dict.fromkeys(range(5), 70)),
        probe(T0 + 25 * SECOND, ends=dict.fromkeys(range(5), 95)),
    )
    assert found.variant is None
    assert found.advice[0].parameter == "rebalance_max_retries"


def test_records_that_may_have_come_before_the_wait_make_no_topic_busy():
    """Where consume() may never return, no number of retries is enough: none is advised."""
    (found,) = conflicts(
        30,
        seen(0, [A], ALL_A),
        seen(5, [A, B], ALL_A),
        probe(T0, ends=dict.fromkeys(range(5), 70)),
        probe(T0 + 25 * SECOND, ends=dict.fromkeys(range(5), 95)),
    )
    assert [each.parameter for each in found.advice] == ["upgrade", "consumer_timeout_ms"]
    assert len(found.missing) == 1


def test_partitions_without_owner_are_reported_after_half_a_minute():
    """One finding per topic; a page unless it is known that no records wait."""
    known = history(seen(0, [A, B], SHARED), seen(10, [A, B], {0: A, 1: A, 2: A}))
    assert list(zk_orphan_partition(view_of(known, T0 + 40 * SECOND))) == []
    (found,) = zk_orphan_partition(view_of(known, T0 + 41 * SECOND))
    assert (found.subject.partitions, found.severity) == (("orders-3", "orders-4"), Severity.PAGE)
    idle = history(
        seen(0, [A, B], SHARED),
        seen(10, [A, B], {0: A, 1: A, 2: A}),
        commits(T0, dict.fromkeys(range(5), 70)),
        probe(T0, ends=dict.fromkeys(range(5), 70)),
    )
    assert [each.severity for each in zk_orphan_partition(view_of(idle, T0 + MINUTE))] == [Severity.TICKET]


def test_partitions_never_owned_are_known_from_their_ends():
    """A partition that was added and that no member took."""
    known = history(
        seen(0, [A, B], SHARED), probe(T0, ends=dict.fromkeys(range(6), 7)), commits(T0, dict.fromkeys(range(5), 7))
    )
    (found,) = zk_orphan_partition(view_of(known, T0 + 50 * SECOND))
    assert found.subject.partitions == ("orders-5",)


@pytest.mark.parametrize(
    "looks",
    [
        (seen(0, [A, B], SHARED),),
        (seen(0, [A, B], SHARED), seen(10, [], {})),
        (seen(0, [A, B], SHARED), seen(10, [A, B], {0: A}), seen(30, [A, B], SHARED)),
        (seen(0, [A, B], {**ALL_A}), seen(10, [B], {0: B}, topic="payments")),
    ],
    ids=["all owned", "nobody there", "owned again", "the topic was given up"],
)
def test_owned_or_abandoned_partitions_are_no_orphans(looks):
    """There must be members that should own them."""
    assert list(zk_orphan_partition(view_of(history(*looks), T0 + 70 * SECOND))) == []


def test_three_lost_sessions_in_ten_minutes_are_flapping():
    """Sessions of one consumer id are counted; another id is another consumer, and two losses are tolerated."""
    sessions = [seen(60 * n, [A, B], SHARED, made_ms=T0 + 60 * n) for n in range(4)]
    assert list(zk_session_flap(view_of(history(*sessions[:3]), T0 + 4 * MINUTE))) == []
    found = list(zk_session_flap(view_of(history(*sessions), T0 + 4 * MINUTE)))
    assert sorted(str(each) for each in subjects(found)) == [A, B]
    assert list(zk_session_flap(view_of(history(*sessions), T0 + 20 * MINUTE))) == []
    restarts = [seen(60 * n, [f"node-1:{n}"], {}, made_ms=T0 + 60 * n) for n in range(6)]
    assert list(zk_session_flap(view_of(history(*restarts), T0 + 6 * MINUTE))) == []


def test_groups_outside_zookeeper_have_none_of_it():
    """Without looks at ZooKeeper none of these rules reports anything."""
    known = history(probe(T0, "Stable", ends={0: 5}), commits(T0, {0: 1}))
    assert (
        said_by(zk_orphan_partition, zk_partition_owner_conflict, zk_session_flap, of=view_of(known, T0 + MINUTE)) == []
    )

"""Which members of a ZooKeeper-managed group have a claim to which partitions, and since when that has not changed.

Evaluates views of the group's ids and owners; each is valid until the next one. Whether a claim is fair is decided
elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile

from rebalance_streaming.observed.history import Ownership


def claims(seen: Ownership, topic: str) -> dict[str, int]:
    """Return how many partitions of a topic each claimant has.

    Topics cannot be derived from ids: a consumer that owns something has claims to the topics where it owns partitions,
    one that owns nothing has a claim to every topic.
    """
    idle = {each for each in ids(seen) if not owns(seen, each)}
    return {**dict.fromkeys(idle, 0), **held(seen, topic)}


def held(seen: Ownership, topic: str) -> dict[str, int]:
    """Return how many partitions of a topic each owner has."""
    return dict(Counter(seen.owners.get(topic, {}).values()))


def ids(seen: Ownership) -> set[str]:
    """Return the ids of the members that were present."""
    return {each.member_id for each in seen.members}


def owns(seen: Ownership, member_id: str) -> bool:
    """Whether a member owns a partition of any topic."""
    return any(is_of(owner, member_id) for owners in seen.owners.values() for owner in owners.values())


def is_of(owner: str, member_id: str) -> bool:
    """Whether an owner is this member, or one of its threads: old high-level consumers own as `<id>-<thread>`."""
    return owner == member_id or (owner.startswith(f"{member_id}-") and owner[len(member_id) + 1 :].isdigit())


def undisturbed_since(looks: Sequence[Ownership], at: int, topic: str, member_id: str) -> int:
    """Return since when the member has been present and the topic's owners have been those of view `at`."""
    owners = looks[at].owners.get(topic)
    return unbroken_since(looks[: at + 1], lambda each: each.owners.get(topic) == owners and member_id in ids(each))


def unbroken_since(looks: Sequence[Ownership], is_so: Callable[[Ownership], bool]) -> int:
    """Return the time of the first view of the unbroken run of matches at the end; of the last view if none matches."""
    since = looks[-1].at_ms
    for each in takewhile(is_so, reversed(looks)):
        since = each.at_ms
    return since

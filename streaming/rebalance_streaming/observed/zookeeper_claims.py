"""Who has a claim to which partitions of a group that lives in ZooKeeper, and since when nothing has changed.

Answers from looks at the group's ids and owners, each of which stands until the next one. Whether a claim is a fair
one is not judged here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile

from rebalance_streaming.observed.history import Ownership


def claims(seen: Ownership, topic: str) -> dict[str, int]:
    """Return how many partitions of a topic each claimant has.

    Topics cannot be derived from ids: a consumer that owns something has a claim where it owns, one that owns nothing
    has a claim everywhere.
    """
    idle = {each for each in ids(seen) if not owns(seen, each)}
    return {**dict.fromkeys(idle, 0), **held(seen, topic)}


def held(seen: Ownership, topic: str) -> dict[str, int]:
    """Return how many partitions of a topic each owner has."""
    return dict(Counter(seen.owners.get(topic, {}).values()))


def ids(seen: Ownership) -> set[str]:
    """Return the ids of the members that were there."""
    return {each.member_id for each in seen.members}


def owns(seen: Ownership, member_id: str) -> bool:
    """Whether a member owns a partition of any topic."""
    return any(is_of(owner, member_id) for owners in seen.owners.values() for owner in owners.values())


def is_of(owner: str, member_id: str) -> bool:
    """Whether an owner is a member, or one of its threads: old high-level consumers own as `<id>-<thread>`."""
    return owner == member_id or (owner.startswith(f"{member_id}-") and owner[len(member_id) + 1 :].isdigit())


def undisturbed_since(looks: Sequence[Ownership], at: int, topic: str, member_id: str) -> int:
    """Return since when a member has been there while the topic's owners were what they are at a look."""
    owners = looks[at].owners.get(topic)
    return unbroken_since(looks[: at + 1], lambda each: each.owners.get(topic) == owners and member_id in ids(each))


def unbroken_since(looks: Sequence[Ownership], is_so: Callable[[Ownership], bool]) -> int:
    """Return the time of the first look of those at the end of which all show something; of the last, if none does."""
    since = looks[-1].at_ms
    for each in takewhile(is_so, reversed(looks)):
        since = each.at_ms
    return since

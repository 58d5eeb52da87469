"""The partitions of each member before and after a rebalance, as a table. Pure.

Members are compared by identity, as in the contract's `Moves`: a member that came back under a new id is the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rebalance_contract import Member, Partitions, Rebalance
from rebalance_exporters.terminal.report import Column, Grid
from rebalance_exporters.text.figures import UNKNOWN

#: With more members than this, only those whose partitions changed get a row.
_ALL_ROWS = 20
#: Longer lists of partitions are replaced by a count; in characters.
_LIST_WIDTH = 60

_WHO = (Column("CONSUMER-ID", may_shrink=True), Column("HOST"), Column("CLIENT-ID", may_shrink=True))
_STATIC = Column("GROUP-INSTANCE-ID", may_shrink=True)
_PARTITIONS = Column("#PARTITIONS", right=True)
_CHANGES = (Column("GAINED", may_shrink=True), Column("LOST", may_shrink=True))

_Pair = tuple[Member | None, Member | None]


def compare_assignments(rebalance: Rebalance) -> Grid:
    """Return one row per member with the partitions gained and lost; in a large group only for changed members."""
    pairs = _pair_members(rebalance)
    static = any(member.group_instance_id for pair in pairs for member in pair if member is not None)
    changed = [pair for pair in pairs if _has_changed(pair)]
    shown = pairs if len(pairs) <= _ALL_ROWS else changed
    columns = (*_WHO, *([_STATIC] if static else []), _PARTITIONS, *_CHANGES)
    rows = tuple((*_describe_who(pair, static), *_describe_share(pair)) for pair in shown)
    hidden = len(pairs) - len(shown)
    return Grid("Assignment", columns, rows, f"and {hidden} members whose partitions did not change" if hidden else "")


def list_members(members: Sequence[Member]) -> Grid:
    """Return one row per member with its partitions."""
    static = any(member.group_instance_id for member in members)
    columns = (*_WHO, *([_STATIC] if static else []), _PARTITIONS, Column("ASSIGNMENT", may_shrink=True))
    rows = ((*_describe_who((each, each), static), _count(each), _list_partitions(each.partitions)) for each in members)
    return Grid("Members", columns, tuple(rows))


def _pair_members(rebalance: Rebalance) -> list[_Pair]:
    before = {member.member_id: member for member in rebalance.members_before}
    static = {member.group_instance_id: member.member_id for member in rebalance.members_before}
    replaced = {new: old for old, new in rebalance.replaced}
    pairs: list[_Pair] = []
    for member in rebalance.members_after:
        candidates = [member.member_id, replaced.get(member.member_id)]
        if member.group_instance_id is not None:
            candidates.append(static.get(member.group_instance_id))
        known = next((each for each in candidates if each in before), None)
        pairs.append((None if known is None else before.pop(known), member))
    pairs += [(member, None) for member in before.values()]
    return sorted(pairs, key=_order)


def _order(pair: _Pair) -> tuple[str, str, str]:
    member = pair[1] or pair[0]
    assert member is not None
    return member.client_id, member.host, member.member_id


def _describe_who(pair: _Pair, static: bool) -> Iterator[str]:
    before, after = pair
    member = after or before
    assert member is not None
    came_back = before is not None and after is not None and before.member_id != after.member_id
    yield f"{member.member_id} (new id)" if came_back else member.member_id
    yield member.host
    yield member.client_id
    if static:
        yield member.group_instance_id or UNKNOWN


def _describe_share(pair: _Pair) -> Iterator[str]:
    before, after = pair
    yield f"{'joined' if before is None else _count(before)} -> {'gone' if after is None else _count(after)}"
    had, has = _owned(before), _owned(after)
    if had is None or has is None:
        yield from (UNKNOWN, UNKNOWN)
        return
    yield _list_partitions(_group(has - had))
    yield _list_partitions(_group(had - has))


def _has_changed(pair: _Pair) -> bool:
    return None in pair or _owned(pair[0]) != _owned(pair[1])


def _owned(member: Member | None) -> set[tuple[str, int]] | None:
    """Return the (topic, partition) pairs of a member; empty if there is no member, null if not known."""
    if member is None:
        return set()
    if member.partitions is None:
        return None
    return {(topic, partition) for topic, partitions in member.partitions.items() for partition in partitions}


def _count(member: Member) -> str:
    return "?" if member.partitions is None else str(sum(map(len, member.partitions.values())))


def _group(owned: Iterable[tuple[str, int]]) -> Partitions:
    found: Partitions = {}
    for topic, partition in sorted(owned):
        found.setdefault(topic, []).append(partition)
    return found


def _list_partitions(partitions: Partitions | None) -> str:
    if not partitions:
        return UNKNOWN
    text = " ".join(f"{topic}:{_ranges(numbers)}" for topic, numbers in sorted(partitions.items()) if numbers)
    if len(text) <= _LIST_WIDTH:
        return text or UNKNOWN
    return f"{sum(map(len, partitions.values()))} of {len(partitions)} topic{'s' * (len(partitions) > 1)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges, such as `0-3,7`."""
    ordered = sorted(numbers)
    starts = [ordered[0], *(after for before, after in pairwise(ordered) if after != before + 1)]
    ends = [*(before for before, after in pairwise(ordered) if after != before + 1), ordered[-1]]
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in zip(starts, ends, strict=True))

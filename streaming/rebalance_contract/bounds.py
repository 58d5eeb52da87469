"""The maximum row size of each topic, and the truncation of larger rows, for all writers.

An oversized row must not fail a batch, so every row is made to fit: its lists are halved until it does, the most
detailed ones first, and `is_truncated` is set. If one element of each is still too large, as names of Kafka's maximum
length can be, the lists are emptied. Totals and counts are never cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from rebalance_contract.codec import encode
from rebalance_contract.findings import Finding, Subject
from rebalance_contract.groups import GroupSnapshot, Member
from rebalance_contract.impact import RebalanceImpact
from rebalance_contract.lag import GroupLag, TopicLag
from rebalance_contract.rebalances import Generation, Moves, Rebalance
from rebalance_contract.timing import GroupTiming

#: Maximum size of a row in the monitor's own topics. Kafka's default limit is 1,048,588 bytes for a batch with its
#: header.
MAX_ROW_BYTES = 900_000
#: Maximum size of messages of clients and brokers (larger ones are counted and not decoded), and of keys of rows: Kafka
#: limits names to 32,767 characters.
MAX_FOREIGN_BYTES, MAX_KEY_BYTES = 1_048_576, 40_000

_R = TypeVar("_R")
#: Number of elements kept of each list at the first cut; halved at each further cut, down to 0.
_FIRST_CUT = 8_192
#: Minimum number of characters kept of a text.
_LEAST_TEXT = 200


def encode_group(row: GroupSnapshot) -> bytes:
    """Return a group's row, truncated if necessary; `member_count` includes the members that are left out."""
    counted = replace(row, member_count=len(row.members))
    return _encode_within(counted, _cut_group)


def encode_rebalance(row: Rebalance) -> bytes:
    """Return a rebalance's row, truncated if necessary."""
    counted = replace(row, members_before_count=len(row.members_before), members_after_count=len(row.members_after))
    return _encode_within(counted, _cut_rebalance)


def encode_finding(row: Finding) -> bytes:
    """Return a finding's row, truncated if necessary."""
    return _encode_within(row, _cut_finding)


def encode_lag(row: GroupLag) -> bytes:
    """Return a row of lag, truncated if necessary."""
    return _encode_within(row, _cut_lag)


def encode_impact(row: RebalanceImpact) -> bytes:
    """Return a row of a rebalance's impact, truncated if necessary."""
    return _encode_within(row, _cut_impact)


def encode_timing(row: GroupTiming) -> bytes:
    """Return a row of heartbeat timing, truncated if necessary."""
    return _encode_within(row, _cut_timing)


def _encode_within(row: _R, cut: Callable[[_R, int], _R]) -> bytes:
    text, keep = encode(row), 2 * _FIRST_CUT
    while len(text) > MAX_ROW_BYTES and keep:
        keep //= 2
        text = encode(cut(row, keep))
    return text


def _cut_text(text: str, keep: int) -> str:
    return text[: max(_LEAST_TEXT, 8 * keep)]


def _cut_group(row: GroupSnapshot, keep: int) -> GroupSnapshot:
    replacements = row.replacements[max(0, len(row.replacements) - keep) :]
    return replace(row, members=_cut_members(row.members, keep), replacements=replacements, is_truncated=True)


def _cut_members(members: tuple[Member, ...], keep: int) -> tuple[Member, ...]:
    """Return the first `keep` members, each with at most `keep` topics, and no partitions beyond `keep // 16`."""
    return tuple(
        replace(
            member,
            topics=member.topics[:keep],
            topic_regex=None if member.topic_regex is None else member.topic_regex[:keep],
            partitions=_cut_partitions(member.partitions, keep),
            target=_cut_partitions(member.target, keep),
            pending_revocation=_cut_partitions(member.pending_revocation, keep),
        )
        for member in members[:keep]
    )


def _cut_partitions(partitions: dict[str, list[int]] | None, keep: int) -> dict[str, list[int]] | None:
    few = partitions is None or len(partitions) + sum(map(len, partitions.values())) <= keep // 16
    return partitions if few else None


def _cut_rebalance(row: Rebalance, keep: int) -> Rebalance:
    half = max(1, keep // 2)
    generations = row.generations if len(row.generations) <= keep else row.generations[:half] + row.generations[-half:]
    return replace(
        row,
        generations=tuple(_cut_generation(each, keep) for each in generations),
        members_before=_cut_members(row.members_before, min(half, keep)),
        members_after=_cut_members(row.members_after, min(half, keep)),
        passing=_cut_members(row.passing, keep),
        joined=row.joined[:keep],
        left=row.left[:keep],
        replaced=row.replaced[:keep],
        moves=None if row.moves is None else _cut_moves(row.moves, keep),
        is_truncated=True,
    )


def _cut_generation(row: Generation, keep: int) -> Generation:
    return replace(
        row, joined=row.joined[:keep], left=row.left[:keep], replaced=row.replaced[:keep], fenced=row.fenced[:keep]
    )


def _cut_moves(moves: Moves, keep: int) -> Moves:
    return replace(
        moves,
        moved=_cut_partitions(moves.moved, 16 * keep) or {},
        ping_ponged=_cut_partitions(moves.ping_ponged, 16 * keep) or {},
    )


def _cut_finding(row: Finding, keep: int) -> Finding:
    subject = Subject(row.subject.members[:keep], row.subject.partitions[:keep], row.subject.hosts[:keep])
    return replace(
        row,
        subject=subject,
        summary=_cut_text(row.summary, keep),
        rebalance_ids=row.rebalance_ids[-max(1, keep) :],
        evidence=tuple(replace(each, value=_cut_text(each.value, keep)) for each in row.evidence[:keep]),
        alternatives=row.alternatives[:keep],
        missing=tuple(_cut_text(each, keep) for each in row.missing[:keep]),
        advice=row.advice[:keep],
        is_truncated=True,
    )


def _cut_timing(row: GroupTiming, keep: int) -> GroupTiming:
    return replace(row, members=row.members[:keep], is_truncated=True)


def _cut_lag(row: GroupLag, keep: int) -> GroupLag:
    kept = list(row.topics.items())[: 2 * keep]
    return replace(row, topics={name: _cut_topic_lag(topic, keep) for name, topic in kept}, is_truncated=True)


def _cut_topic_lag(topic: TopicLag, keep: int) -> TopicLag:
    if len(topic.partitions) <= keep:
        return topic
    cut = topic.partitions[:keep], topic.committed[:keep], topic.lags[:keep]
    return TopicLag(*cut, total=topic.total, is_truncated=True)


def _cut_impact(row: RebalanceImpact, keep: int) -> RebalanceImpact:
    return replace(
        row,
        silences=row.silences[:keep],
        expired=None if row.expired is None else row.expired[:keep],
        poll_timeout=None if row.poll_timeout is None else row.poll_timeout[:keep],
        is_truncated=True,
    )

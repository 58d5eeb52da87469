"""Rows of the topics that the diagnosis reads and writes, as values and as bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from rebalance_contract import (
    Activity,
    AlertSilence,
    ClientActivity,
    ContractError,
    DecodeTotals,
    DiagnosisStatus,
    Finding,
    GroupImpact,
    GroupLag,
    GroupSnapshot,
    GroupTiming,
    ProbeActivity,
    Rebalance,
    RebalanceImpact,
    ReportTotals,
    decode,
    decode_activity,
    encode,
    fits_64_bits,
    group_key,
    rebalance_key,
    silence_problems,
    split_key,
    status_key,
    topics,
)
from rebalance_contract.bounds import (
    encode_finding,
    encode_impact,
    encode_lag,
    encode_timing,
)
from rebalance_streaming.detect.findings import topic_key


@dataclass(frozen=True, slots=True)
class GroupGone:
    """A deleted group, which is forgotten: a tombstone in the groups topic."""

    cluster: str
    group: str


@dataclass(frozen=True, slots=True)
class RowGone:
    """A tombstone for the row of a group in a topic: the group was deleted and is forgotten."""

    topic: topics.Topic
    cluster: str
    group: str


#: The topics whose rows the engine reads.
DIAGNOSED = (topics.GROUPS, topics.REBALANCES, topics.ACTIVITY, topics.SILENCES)
#: Rows that the engine reads.
Input = GroupSnapshot | GroupGone | Rebalance | AlertSilence | Activity
#: Rows that the engine returns with a value.
Published = (
    Finding | GroupLag | GroupTiming | RebalanceImpact | GroupImpact | DecodeTotals | ReportTotals | DiagnosisStatus
)
#: All that the engine returns.
Output = Published | RowGone

_Row = TypeVar("_Row")


def decode_input(topic: str, key: bytes | None, value: bytes | None) -> Input | None:
    """Read a row of a topic by its short name; return null for a row without information. Raises ContractError.

    Whether its values are plausible is checked later, before it is processed (`observed.plausible`).
    """
    if topic == topics.GROUPS.name:
        return _decode_group(key, value)
    if value is None:
        return None
    if topic == topics.REBALANCES.name:
        return _decode_bounded(value, Rebalance)
    if topic == topics.SILENCES.name:
        return decode_silence(value)
    row = decode_activity(value)
    if isinstance(row, ProbeActivity | ClientActivity):
        # They have many numbers, few of which are checked one by one.
        _check_bits(row)
    return row


def decode_silence(value: bytes) -> AlertSilence:
    """Read a silence, or an announced deploy. Raises ContractError, also for one that exceeds its bounds."""
    row = _decode_bounded(value, AlertSilence)
    problem = next(silence_problems(row), None)
    if problem is not None:
        raise ContractError(f"not a silence: {problem}")
    return row


def _decode_bounded(value: bytes, kind: type[_Row]) -> _Row:
    row = decode(value, kind)
    _check_bits(row)
    return row


def _check_bits(row: object) -> None:
    if not fits_64_bits(row):
        raise ContractError("a number needs more than 64 bits")


def _decode_group(key: bytes | None, value: bytes | None) -> GroupSnapshot | GroupGone:
    if value is not None:
        return _decode_bounded(value, GroupSnapshot)
    return GroupGone(*split_key(key))


def address(row: Output) -> tuple[str, str, bytes | None]:
    """Return (short name of the topic, key, value) of a row; null: a tombstone."""
    if isinstance(row, RowGone):
        return row.topic.name, _key_of_group(row), None
    topic, key, _ = _ADDRESSES[type(row)]
    return topic.name, key(row), encode_published(row)


def encode_published(row: Published) -> bytes:
    """Return the value of a row, truncated if it is too large."""
    _, _, encode_row = _ADDRESSES[type(row)]
    return encode_row(row)


def _key_of_group(row: GroupLag | GroupTiming | GroupImpact | RowGone) -> str:
    return group_key(row.cluster, row.group)


def _key_of_impact(row: RebalanceImpact) -> str:
    return rebalance_key(row.cluster, row.group, row.rebalance_id)


_ADDRESSES: dict[type[Any], tuple[topics.Topic, Callable[[Any], str], Callable[[Any], bytes]]] = {
    Finding: (topics.FINDINGS, topic_key, encode_finding),
    GroupLag: (topics.LAG, _key_of_group, encode_lag),
    GroupTiming: (topics.HEARTBEATS, _key_of_group, encode_timing),
    RebalanceImpact: (topics.IMPACT, _key_of_impact, encode_impact),
    GroupImpact: (topics.IMPACT, _key_of_group, encode),
    DecodeTotals: (topics.STATUS, status_key, encode),
    ReportTotals: (topics.STATUS, status_key, encode),
    DiagnosisStatus: (topics.STATUS, status_key, encode),
}

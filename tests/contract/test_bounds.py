"""Rows that are too large for their topics are truncated and marked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from exporters.api.test_overview import FINDING
from exporters.contract_rows import PAYMENTS, rebalance_row
from rebalance_contract import (
    CommitGap,
    Evidence,
    GroupLag,
    GroupSnapshot,
    GroupTiming,
    Member,
    MemberTiming,
    Rebalance,
    RebalanceImpact,
    Subject,
    SubjectMember,
    TopicLag,
    bounds,
    decode,
    encode,
)

_MANY = 20_000
_NAMES = tuple(f"consumer-of-orders-{number:05}-6a1f2c7e-0c3d-4a7b-9d8e" for number in range(_MANY))
_MEMBERS = tuple(Member(name, name, "/10.0.0.1", topics=("orders",)) for name in _NAMES)
_CROWD = Subject(tuple(SubjectMember(name, name, "/10.0.0.1") for name in _NAMES), (), ())
_REBALANCE = decode(rebalance_row("0-42").value or b"", Rebalance)
_IMPACT = RebalanceImpact("prod", "payments", "0-42")
_TIMING = GroupTiming("prod", "payments", 1, {}, ())
_LAG = GroupLag("prod", "payments", 1, total=7)
_ALL = list(range(10 * _MANY))

CASES = [
    pytest.param(bounds.encode_group, PAYMENTS, {"members": _MEMBERS}, id="group"),
    pytest.param(bounds.encode_rebalance, _REBALANCE, {"members_after": _MEMBERS}, id="rebalance"),
    pytest.param(bounds.encode_finding, FINDING, {"subject": _CROWD}, id="finding"),
    pytest.param(
        bounds.encode_finding, FINDING, {"evidence": (Evidence("log", "lines", "x" * 2**20, "all"),)}, id="evidence"
    ),
    pytest.param(
        bounds.encode_timing,
        _TIMING,
        {"members": tuple(MemberTiming(name, name, "/10.0.0.1", "java", 1) for name in _NAMES)},
        id="timing",
    ),
    pytest.param(
        bounds.encode_lag, _LAG, {"topics": {"orders": TopicLag(_ALL, _ALL, list(_ALL), sum(_ALL))}}, id="lag"
    ),
    pytest.param(
        bounds.encode_impact, _IMPACT, {"silences": tuple(CommitGap("orders", p, 1, 9) for p in _ALL)}, id="impact"
    ),
]


@pytest.mark.parametrize(("encoded", "row", "large"), CASES)
def test_a_row_that_is_too_large_is_cut_and_says_so(
    encoded: Callable[[Any], bytes], row: Any, large: dict[str, Any]
) -> None:
    """The row fits, can be read, and is marked; a row that fits is unchanged except for its member counts."""
    assert len(encode(replace(row, **large))) > bounds.MAX_ROW_BYTES
    text = encoded(replace(row, **large))
    assert len(text) <= bounds.MAX_ROW_BYTES
    assert decode(text, type(row)).is_truncated
    assert not decode(encoded(row), type(row)).is_truncated


def test_members_that_are_left_out_are_counted() -> None:
    """Both for a group and for a rebalance."""
    cut_group = decode(bounds.encode_group(replace(PAYMENTS, members=_MEMBERS)), GroupSnapshot)
    cut_rebalance = decode(bounds.encode_rebalance(replace(_REBALANCE, members_after=_MEMBERS)), Rebalance)
    assert cut_group.member_count == cut_rebalance.members_after_count == _MANY
    assert len(cut_group.members) < _MANY

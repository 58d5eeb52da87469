"""Rows that are too large for their topics are truncated and marked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from exporters.api.test_overview import FINDING
from exporters.contract_rows import PAYMENTS, rebalance_row
from rebalance_contract import (
    Advice,
    Alternative,
    CommitGap,
    Evidence,
    Generation,
    GroupLag,
    GroupSnapshot,
    GroupTiming,
    Member,
    MemberTiming,
    Moves,
    Rebalance,
    RebalanceImpact,
    RebalanceReason,
    Replacement,
    Subject,
    SubjectMember,
    TopicLag,
    bounds,
    decode,
    encode,
)

_MANY = 10_000
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


#: The longest text of Kafka's records, of characters that JSON writes as six bytes each.
_LONGEST = "\x01" * 32_767
_LARGE_MEMBER = Member(_LONGEST, _LONGEST, _LONGEST, _LONGEST, _LONGEST, topics=(_LONGEST,), partitions={_LONGEST: []})
_TEXTS = (_LONGEST,) * 2

LARGE_ELEMENTS = [
    pytest.param(
        bounds.encode_group,
        replace(PAYMENTS, group=_LONGEST, protocol_type=_LONGEST, protocol=_LONGEST, leader=_LONGEST),
        {"members": (_LARGE_MEMBER,), "replacements": (Replacement(1, *_TEXTS, *_TEXTS, _LONGEST),) * 2},
        id="group",
    ),
    pytest.param(
        bounds.encode_rebalance,
        replace(_REBALANCE, group=_LONGEST, protocol=_LONGEST, leader=_LONGEST, first_offender=_LONGEST),
        {
            "members_before": (_LARGE_MEMBER,),
            "members_after": (_LARGE_MEMBER,),
            "passing": (_LARGE_MEMBER,),
            "joined": _TEXTS,
            "left": _TEXTS,
            "replaced": (_TEXTS,),
            "generations": (Generation(1, RebalanceReason.FIRST_JOIN, joined=_TEXTS, fenced=_TEXTS),) * 2,
            "moves": Moves({_LONGEST: []}, ping_ponged={_LONGEST: []}),
        },
        id="rebalance",
    ),
    pytest.param(
        bounds.encode_finding,
        replace(FINDING, group=_LONGEST),
        {
            "subject": Subject((SubjectMember(*_TEXTS, *_TEXTS),), _TEXTS, _TEXTS),
            "summary": _LONGEST,
            "evidence": (Evidence("log", _LONGEST, _LONGEST, _LONGEST),),
            "alternatives": (Alternative("rule", _LONGEST),),
            "advice": (Advice(_LONGEST, _LONGEST, _LONGEST, _LONGEST),),
        },
        id="finding",
    ),
    pytest.param(
        bounds.encode_timing,
        replace(_TIMING, group=_LONGEST),
        {"members": (MemberTiming(*_TEXTS, *_TEXTS, 1),)},
        id="timing",
    ),
    pytest.param(
        bounds.encode_impact,
        replace(_IMPACT, group=_LONGEST, trigger_member=_LONGEST, trigger_reason=_LONGEST),
        {"expired": _TEXTS, "poll_timeout": _TEXTS, "silences": (CommitGap(_LONGEST, 1, 1, 9),)},
        id="impact",
    ),
]


@pytest.mark.parametrize(("encoded", "row", "large"), LARGE_ELEMENTS)
def test_a_row_of_which_one_element_is_too_large_is_cut(
    encoded: Callable[[Any], bytes], row: Any, large: dict[str, Any]
) -> None:
    """Any client may choose such names; a row that its topic refuses would end the query again at each start."""
    text = encoded(replace(row, **large))
    assert len(text) <= bounds.MAX_ROW_BYTES
    cut = decode(text, type(row))
    assert (cut.is_truncated, cut.group) == (True, row.group)
    assert not decode(encoded(row), type(row)).is_truncated


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

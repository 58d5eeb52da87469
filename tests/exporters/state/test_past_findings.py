"""Findings that expired: kept for the past, bounded, and gone when they are stated again or withdrawn."""

from dataclasses import replace

from exporters.api.test_overview import FINDING, finding_row
from exporters.contract_rows import NOW_MS, group_row, make_view
from rebalance_exporters.state.past_findings import PastFindings
from rebalance_exporters.state.view import FINDINGS, Row

KEY = ("prod", "payments")
HOUR_MS = 3_600_000


def test_expired_findings_are_kept_for_the_past() -> None:
    """They explain rebalances that are still kept; one that is stated or withdrawn later is not of the past."""
    resolved = {"state": "resolved", "resolved_at_ms": NOW_MS - HOUR_MS, "rebalance_ids": ("0-1",)}
    view = make_view(group_row(), finding_row(**resolved), finding_row("b", **resolved | {"rebalance_ids": ()}))
    assert view.past_findings(KEY) == []
    view.forget_expired(NOW_MS)
    assert view.fleet().findings[KEY].findings == ()
    (past,) = view.past_findings(KEY)
    assert (past.finding_id, past.rebalance_ids) == ("f1", ("0-1",))
    view.apply([finding_row()])
    assert view.past_findings(KEY) == []
    view.apply([finding_row(**resolved)])
    view.forget_expired(NOW_MS)
    view.apply([Row(FINDINGS, b"prod/payments/crash_loop/", None)])
    assert view.past_findings(KEY) == []


def test_findings_of_the_past_are_bounded() -> None:
    """Of a group that has very many, the latest to expire."""
    past = PastFindings()
    for number in range(300):
        past.put(f"k{number}", replace(FINDING, finding_id=f"f{number}", rebalance_ids=("0-1",)))
    assert [each.finding_id for each in past.of(KEY)] == [f"f{number}" for number in range(100, 300)]
    for number in range(6_000):
        past.put(f"g{number}", replace(FINDING, group=f"g{number}", rebalance_ids=("0-1",)))
    assert past.of(KEY) == []
    assert len(past.of(("prod", "g5999"))) == 1

"""The numbers added to a finding's advice: the rebalances its value would have avoided, or null if unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.advice.test_estimator import NOW_MS, overrun, pause
from exporters.test_findings import OVERRUN
from rebalance_contract import Advice, Finding
from rebalance_contract.api import AdviceRow
from rebalance_contract.api_reports import Avoided, EstimateRange
from rebalance_exporters.advice.absences import PastRebalance
from rebalance_exporters.advice.advised import with_avoided, without_avoided
from rebalance_exporters.advice.look_back import look_back

_HOUR_MS = 3_600_000
BOTH = EstimateRange(2, 2)


def advising(*changes: tuple[str, str | None, str]) -> Finding:
    """A finding with this advice: setting, current value, proposed value."""
    return replace(OVERRUN, advice=tuple(Advice(*each, formula="-") for each in changes))


def reported(rebalances: list[PastRebalance], *changes: tuple[str, str | None, str]) -> tuple[AdviceRow, ...]:
    """Return the advice as reported by the API, of a group with these rebalances."""
    (row,) = with_avoided([advising(*changes)], look_back(rebalances, NOW_MS - _HOUR_MS, NOW_MS + _HOUR_MS))
    return row.advice


@pytest.mark.parametrize(
    ("parameter", "proposed", "avoids"),
    [
        ("session.timeout.ms", "45000", 2),
        ("session.timeout.ms", "11000", 0),
        ("consumer.session.timeout.ms (of the group)", "45000", 2),
        ("streams.session.timeout.ms (of the group)", "60000", 2),
        ("session.timeout.ms", "45000, and max.poll.interval.ms with it: librdkafka takes no session above it", 2),
    ],
)
def test_the_value_advised_is_judged_and_not_the_best_one(parameter: str, proposed: str, avoids: int) -> None:
    """A member was silent for 18 s: the finding's value was sufficient for that, or was not."""
    (row,) = reported(pause(), (parameter, "10000", proposed))
    assert row.avoided is not None
    assert row.avoided.rebalances == EstimateRange(avoids, avoids)
    assert row.text is not None
    assert row.text.startswith(f"would have avoided {'2 rebalances' if avoids else 'nothing'}")


def test_a_number_with_its_reason_is_a_number() -> None:
    """In the format of poll_overrun."""
    (row,) = reported(
        overrun(), ("max.poll.interval.ms", "60000", "120000, which is also the longest that others wait")
    )
    assert row.avoided is not None
    assert row.avoided.rebalances == BOTH


@pytest.mark.parametrize(
    ("current", "proposed"), [(None, "25% of what it is: at most 124, if that is the default"), ("500", "at most 125")]
)
def test_fewer_records_are_a_share_of_what_they_are(current: str | None, proposed: str) -> None:
    """Whether or not the finding has the current number."""
    advice = (Advice("max.poll.records", current, proposed, "half"),)
    (row,) = reported(overrun(advice=advice), ("max.poll.records", current, proposed))
    assert row.avoided is not None
    assert row.avoided.rebalances.high == 2


@pytest.mark.parametrize(
    "change",
    [
        ("code", None, "poll at least once per message"),
        ("max.poll.interval.ms", None, "twice the longest batch"),
        ("max.poll.records", None, "at most 124"),
        ("max.poll.records", None, "smaller batches"),
        ("session.timeout.ms", "10000", "no longer than a restart needs"),
        ("group.instance.id", None, "a stable name"),
        ("group.protocol", "classic", "consumer, on brokers >= 4.0"),
    ],
)
def test_what_has_no_value_has_no_number(change: tuple[str, str | None, str]) -> None:
    """Nor has an instance id if no member was restarted: it is unknown whether it helps."""
    (row,) = reported(pause(), change)
    assert (row.avoided, row.text) == (None, None)


def test_without_rebalances_nothing_is_known() -> None:
    """A finding may be older than all kept rebalances."""
    (row,) = reported([], ("session.timeout.ms", "10000", "45000"))
    assert row.avoided is None


def test_a_finding_keeps_all_that_it_had() -> None:
    """Numbers are added in the order of the advice; if they were not requested, they are null."""
    finding = advising(("code", None, "pause()"), ("session.timeout.ms", "10000", "45000"))
    (row,) = with_avoided([finding], look_back(pause(), NOW_MS - _HOUR_MS, NOW_MS + _HOUR_MS))
    assert [each.avoided is None for each in row.advice] == [True, False]
    bare = without_avoided(finding)
    assert all((each.avoided, each.text) == (None, None) for each in bare.advice)
    for each in (row, bare):
        advice = tuple(Advice(one.parameter, one.current, one.proposed, one.formula) for one in each.advice)
        fields = {name: getattr(each, name) for name in Finding.__dataclass_fields__}
        assert Finding(**fields | {"advice": advice}) == finding


def test_zero_is_not_null() -> None:
    """It is useful to know that a value would have avoided nothing."""
    (row,) = reported(pause(), ("max.poll.interval.ms", None, "60000"))
    assert row.avoided == Avoided()

"""Valid rows with one or more mutations: everything can still be shown."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from exporters.api.test_overview import finding_row
from exporters.contract_rows import (
    NOW_MS,
    diagnosis_row,
    group_row,
    impact_row,
    log_row,
    probed_lag_row,
    quarantine_row,
    query_row,
    rebalance_row,
    records_row,
    silence_row,
    totals_row,
)
from exporters.rendering import timing_row
from rebalance_contract import CommitGap, CountedImpact, QuarantineCount, RecordCount, Settlement, WatchedTopic, encode
from rebalance_exporters.api.overview import make_overview
from rebalance_exporters.metrics.formats import Style
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.health import Judge, ReadProgress
from rebalance_exporters.state.view import Row, View

pytestmark = pytest.mark.generated

ROWS = (
    group_row(settlement=Settlement(NOW_MS, 4, 4)),
    probed_lag_row(),
    query_row(),
    query_row("activity"),
    diagnosis_row(quarantined=(QuarantineCount("rules", "KeyError", 1),)),
    records_row(RecordCount("membership", 2, 3, "decoded", 1)),
    log_row(WatchedTopic("orders", 3, skipped_records=1, rewinds=1)),
    quarantine_row(QuarantineCount("record", "KeyError", 1)),
    rebalance_row("0-1"),
    impact_row("0-1", silences=(CommitGap("orders", 0, 1, 2),), expired=("c-1",), lag_peak=4),
    totals_row(CountedImpact(1, 2, 3), a=CountedImpact(3, 4, 5)),
    finding_row(),
    finding_row("x", state="resolved", resolved_at_ms=NOW_MS),
    timing_row(3),
    silence_row(groups=("payments", "pay*", "*")),
    silence_row(silence_id="d", kind="deploy", expired_by="bob"),
)
VALUES = [
    *(0, -1, -5, 2**31 - 1, 2**53, 2**62, 2**63, 2**64 - 1, 2**64, -(2**63), 2**70, 10**400, 1.5, 1e308, -1e308),
    *(
        None,
        True,
        "",
        "abc",
        "x" * 3_000,
        "\u202e",
        "\ud800",
        [],
        {},
        [[]],
        {"": {}},
        [None],
        [0, 1, 2],
        [2**31 - 1, -5],
    ),
    *(253_402_300_799_999, -62_135_596_800_001),
]
NAMES = ["1m", "x", "", "rebalances", "a/b", "\n"]
LOADED = ReadProgress(loaded=True)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key or index) in a document."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def mutate(row: Row, chance: random.Random) -> Row:
    """Replace, remove or add values at one place or more."""
    assert row.value is not None
    document = json.loads(row.value)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        container, key = chance.choice([*places(document)])
        what = chance.random()
        if what < 0.8:
            container[key] = copy.deepcopy(chance.choice(VALUES))
        elif what < 0.9:
            del container[key]
        elif isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        else:
            container[chance.choice(NAMES)] = copy.deepcopy(container[key])
    return row._replace(value=json.dumps(document).encode(), at_ms=chance.choice((None, 0, -1, 2**62, NOW_MS)))


def show_everything(view: View, exposition: Exposition, now_ms: int) -> None:
    """Render everything that is served."""
    fleet = view.fleet()
    ready = Judge(30).judge(fleet, LOADED, now_ms)
    for style in Style:
        exposition.render(fleet, LOADED, ready, now_ms, style).decode()
    json.loads(encode(make_overview(fleet, ready, now_ms, version="1", owners=Owners())))
    for kept in view.rebalances(("prod", "payments")):
        json.loads(fleet.document(kept))
    encode([*fleet.groups.values(), *(each for of in fleet.findings.values() for each in of.findings)])
    view.forget_expired(now_ms)


@pytest.mark.parametrize("seed", range(20))
def test_a_row_with_anything_in_it_can_be_lived_with(seed: int) -> None:
    """No value at any place of any row prevents a page from being served, or causes an internal error."""
    chance = random.Random(seed)
    for _ in range(15):
        view = View(group_expiry_seconds=3600, keep_rebalances=3)
        exposition = Exposition(limit_groups=9, version="1", collect_partitions=True, collect_members=True)
        view.apply(ROWS)
        for _ in range(5):
            row = mutate(chance.choice(ROWS), chance)
            view.apply([row])
            show_everything(view, exposition, NOW_MS + chance.choice((0, 5_000, 60_000, -60_000)))
            refused = view.fleet().refused
            assert not any(count for (_, reason), count in refused.items() if reason == "failed"), row.value

"""`history`: one row per rebalance, oldest first, and their totals."""

import json
from dataclasses import replace

from exporters.terminal.clusters import FORMED, HOSTILE, LOSS, MINUTE_MS, NOW_MS, STARVED
from exporters.terminal.running import hold_to_golden
from rebalance_exporters.terminal.history import add_up, find_causes

ME = "payments-enricher"


def test_the_table_ends_with_totals(monitor):
    """The duration and reason of each, and the ids for `explain`."""
    outcome = monitor("history", ME)
    assert (outcome.code, outcome.err) == (0, "")
    hold_to_golden("history.txt", outcome.out)


def test_since_goes_to_the_exporter(monitor, exporter):
    """How long ago, or a time; the default is a day."""
    for words in ([], ["--since", "2h"], ["--since", "14:03:20"]):
        monitor("history", ME, *words)
    asked = [NOW_MS - int(each["since_ms"]) for each in exporter.queries(f"groups/{ME}/rebalances")]
    assert asked == [24 * 60 * MINUTE_MS, 120 * MINUTE_MS, 10 * MINUTE_MS]


def test_nothing_since_then_names_the_next_command(monitor, exporter):
    """Instead of an empty table."""
    exporter.answers[f"groups/{ME}/rebalances"] = {"rebalances": []}
    assert monitor("history", ME, "--since", "1h").out == (
        "payments-enricher: no rebalance since 2026-09-21 13:13:20 UTC\n"
        "the latest one that is kept: `rebalance-monitor explain payments-enricher`\n"
    )


def test_json_has_rebalances_causes_and_totals(monitor):
    """The rebalances as in the contract."""
    body = json.loads(monitor("history", ME, "--json").out)
    assert [each["rebalance_id"] for each in body["rebalances"]] == ["12-4711", "12-17"]
    assert body["causes"] == {"12-4711": "heartbeat_starvation", "12-17": "initial_group_formation"}
    assert body["totals"]["rebalancing_ms"] == 18_000
    assert body["totals"]["slowest_id"] == "12-4711"


def test_a_cause_is_primary_and_the_latest_said():
    """Consequences of a cause do not count, and a judgement may be revised."""
    side = replace(STARVED, finding_id="x", rule="duplicate_processing", primary=False)
    revised = replace(STARVED, finding_id="y", rule="process_pause", updated_at_ms=STARVED.updated_at_ms + 1)
    found = find_causes([LOSS, FORMED], [revised, side, STARVED])
    assert {of: each.rule for of, each in found.items()} == {"12-4711": "process_pause"}


def test_totals_of_rebalances_that_are_not_judged_or_not_over():
    """They are counted separately; no duration is negative."""
    ongoing = replace(LOSS, completed_at_ms=None, duration_min_ms=None, duration_max_ms=None, generations_aborted=2)
    totals = add_up([ongoing], {})
    assert (totals.unjudged, totals.causes, totals.rebalancing_ms, totals.slowest_ms) == (1, {}, 0, None)
    assert totals.generations_aborted == 2


def test_hostile_names_do_nothing(monitor, exporter):
    """Every rebalance stays on one line."""
    exporter.answers[f"groups/{ME}/rebalances"] = {"rebalances": [replace(LOSS, reason=HOSTILE, rebalance_id=HOSTILE)]}
    out = monitor("history", ME).out
    assert out.replace("\n", "").isprintable()
    assert "\nall is well" not in out


def test_a_time_that_cannot_be_read(monitor):
    """One sentence with an example."""
    outcome = monitor("history", ME, "--since", "yesterday")
    assert outcome.code == 1
    assert outcome.err == (
        "rebalance-monitor: cannot read the time 'yesterday': "
        "use a duration (90m, 24h, 7d) or a time (2026-03-01T14:05, 14:05)\n"
    )

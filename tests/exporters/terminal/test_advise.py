"""`advise`: which of a group's rebalances settings would have avoided, and their cost."""

import json
from dataclasses import replace

import pytest

from exporters.terminal.clusters import ADVISED, HOSTILE, MINUTE_MS, NOW_MS
from exporters.terminal.running import hold_to_golden
from rebalance_contract.api_reports import Avoided, EstimateRange, PeriodSums
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.advise import describe_advice, saved
from rebalance_exporters.terminal.figures import Clock

ME = "payments-enricher"
CALM = replace(ADVISED, sums=PeriodSums(), estimates=(), useless=(*ADVISED.useless, "session.timeout.ms"))


@pytest.mark.parametrize(("golden", "options"), [("advise.txt", []), ("advise.md", ["--markdown"])])
def test_settings_come_by_what_they_would_have_avoided(monitor, golden, options):
    """With the value, the range, the cost and the basis of the numbers."""
    outcome = monitor("advise", ME, *options)
    assert (outcome.code, outcome.err) == (0, "")
    hold_to_golden(golden, outcome.out)


def test_since_goes_to_the_exporter(monitor, exporter):
    """The default is a day."""
    for words in ([], ["--since", "2h", "--cluster", "prod"]):
        monitor("advise", ME, *words)
    first, second = exporter.queries(f"groups/{ME}/advice")
    assert first == {"since_ms": str(NOW_MS - 24 * 60 * MINUTE_MS)}
    assert second == {"since_ms": str(NOW_MS - 120 * MINUTE_MS), "cluster": "prod"}


def test_json_is_the_exporters_answer(monitor):
    """For programs."""
    body = json.loads(monitor("advise", ME, "--json").out)
    assert body["estimates"][0]["avoided"]["rebalances"] == {"low": 8, "high": 10}
    assert body["useless"] == ["max.poll.interval.ms", "heartbeat.interval.ms"]


def test_a_calm_group_is_one_sentence(monitor, exporter):
    """There is nothing to advise."""
    exporter.answers[f"groups/{ME}/advice"] = CALM
    assert monitor("advise", ME).out == (
        "payments-enricher: no rebalance since 2026-09-20 14:13:20 UTC\n\n"
        "see them: rebalance-monitor history payments-enricher\n"
    )


def test_rebalances_that_no_setting_avoids():
    """It says so, and lists the evaluated settings."""
    reported = describe_advice(
        replace(ADVISED, estimates=(), useless=("session.timeout.ms",)), Clock(), Access("advise")
    )
    assert reported.headline.endswith(
        "14 rebalances since 2026-09-20 14:13:20 UTC, and no setting that would have avoided any"
    )
    assert {each.label: each.lines for each in reported.passages}["Avoids none"] == ("session.timeout.ms",)


def test_what_makes_the_numbers_wrong_is_said():
    """Old data, and rebalances that were not kept."""
    late = replace(ADVISED, ready=False, ready_text="no batch for 75 s", dropped_until_ms=NOW_MS)
    notes = {each.label: each.lines for each in describe_advice(late, Clock(), Access("advise")).passages}["Note"]
    assert "the data is not up to date: no batch for 75 s" in notes
    assert any(each.startswith("incomplete: the exporter had no room") for each in notes)


@pytest.mark.parametrize(
    ("avoided", "said"),
    [
        (Avoided(), "nothing"),
        (Avoided(EstimateRange(1, 1)), "1 rebalance"),
        (Avoided(EstimateRange(0, 1)), "at most 1 rebalance"),
        (
            Avoided(EstimateRange(2, 5), EstimateRange(1_000, 2_000), EstimateRange(0, 3_000)),
            "2 to 5 rebalances and at most 3 s of lost time",
        ),
        (Avoided(rebalancing_ms=EstimateRange(0, 9_000)), "at most 9 s of rebalancing"),
    ],
)
def test_what_is_avoided_in_words(avoided, said):
    """Certain numbers are shown alone, ranges with both ends, and possible ones as at most."""
    assert saved(avoided) == said


def test_no_such_group_and_an_older_exporter_are_distinguished(monitor, exporter):
    """An earlier version takes the path for a group's name."""
    del exporter.answers[f"groups/{ME}/advice"]
    assert f"the exporter at {exporter.url} has no advice: it is older than this version" in monitor("advise", ME).err
    del exporter.answers[f"groups/{ME}"]
    assert "no such path" in monitor("advise", ME).err


def test_names_of_strangers_do_no_harm(monitor, exporter):
    """Control characters are escaped."""
    hostile = replace(ADVISED, group=HOSTILE)
    exporter.answers[f"groups/{ME}/advice"] = hostile
    assert "\x1b" not in monitor("advise", ME).out

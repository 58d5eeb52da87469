"""`check`: one line and an exit code for cron, CI and Nagios."""

import json
from dataclasses import replace

import pytest

from exporters.terminal.clusters import BROKER, CALM_ROW, ENRICHER_ROW, HOSTILE, OVERVIEW, STALE
from rebalance_exporters.terminal import check_command


@pytest.mark.parametrize(
    ("words", "code", "start"),
    [
        (["billing"], 0, "REBALANCES OK - 1 group, 0 rebalances in 15m, no finding above info | groups=1"),
        (["billing", "--max-rebalances", "0"], 0, "REBALANCES OK"),
        (["payments-enricher"], 1, "REBALANCES WARNING - payments-enricher: heartbeat_starvation (ticket): consumer"),
        (
            ["payments-enricher", "--max-rebalances", "13", "--max-severity", "ticket"],
            1,
            "REBALANCES WARNING - payments-enricher: 14 rebalances in 15m, allowed 13. "
            "See `rebalance-monitor explain payments-enricher` | groups=1 most_rebalances_15m=14;13 pages=0 tickets=2",
        ),
        (["payments-enricher", "--max-rebalances", "14", "--max-severity", "ticket"], 0, "REBALANCES OK"),
        (["payments-enricher", "--max-rebalances", "4", "--window", "5m", "--max-severity", "page"], 1, "REBALANCES W"),
        (["ledger"], 2, "REBALANCES CRITICAL - ledger: stalled_member_join_barrier (page): c1 does not poll. See"),
        (["ledger", "--max-severity", "page"], 0, "REBALANCES OK"),
        ([], 2, "REBALANCES CRITICAL - ledger: "),
        (
            ["bilking"],
            3,
            "REBALANCES UNKNOWN - bilking: no such group, did you mean billing. See `rebalance-monitor top`",
        ),
        (["bilking", "payments-enricher"], 3, "REBALANCES UNKNOWN - bilking: no such group"),
        (["bilking", "ledger"], 2, "REBALANCES CRITICAL - ledger: "),
    ],
)
def test_the_exit_code_says_how_it_is(monitor, words, code, start):
    """Tickets and exceeded limits warn, pages are critical, missing data are unknown; critical takes precedence."""
    outcome = monitor("check", *words)
    assert outcome.code == code
    assert outcome.out.startswith(start)
    assert outcome.out.count("\n") == 1


def test_old_data_is_never_good_news(monitor, exporter):
    """Nor bad news; the last known state is printed."""
    exporter.answers["overview"] = STALE
    outcome = monitor("check", "billing")
    assert outcome.code == 3
    assert outcome.out.startswith(
        "REBALANCES UNKNOWN - the data is not up to date: no batch for 75 s: "
        "is `rebalance-monitor stream` running?; last known: OK - 1 group"
    )


def test_an_exporter_that_does_not_answer_is_unknown(monitor):
    """With the reason on the one printed line."""
    outcome = monitor("check", "--url", "http://127.0.0.1:1")
    assert (outcome.code, outcome.err) == (3, "")
    assert outcome.out.startswith("REBALANCES UNKNOWN - no answer from http://127.0.0.1:1 (")
    assert "rebalance-monitor export" in outcome.out


def test_wrong_use_is_unknown(monitor):
    """Click's exit code for it, 2, would cause a notification at night."""
    outcome = monitor("check", "--max-rebalances", "many")
    assert outcome.code == 3
    assert outcome.out.startswith("REBALANCES UNKNOWN - wrong use: Invalid value for '--max-rebalances'")


def test_a_bug_of_ours_is_unknown_too(monitor, monkeypatch):
    """Python's exit code for it, 1, would be a ticket about a group; the traceback goes to standard error."""

    def fail(*_):
        raise ZeroDivisionError("so\nthere")

    monkeypatch.setattr(check_command, "_judge", fail)
    outcome = monitor("check")
    assert outcome.code == 3
    assert outcome.out == "REBALANCES UNKNOWN - a bug in rebalance-monitor: ZeroDivisionError: so\\nthere\n"
    assert "Traceback" in outcome.err


def test_findings_about_the_cluster_count_when_no_group_is_named(monitor, exporter):
    """They have no group and would be missed."""
    exporter.answers |= {"findings": {"findings": [BROKER]}, "overview": replace(OVERVIEW, groups=(CALM_ROW,))}
    assert monitor("check").out.startswith("REBALANCES CRITICAL - cluster prod: coordinator_failover (page): 9 groups")
    assert monitor("check", "--max-severity", "page").code == 0
    assert monitor("check", "billing").code == 0


def test_a_severity_of_a_newer_version_is_taken_for_grave(monitor, exporter):
    """An unknown severity counts as critical."""
    finding = replace(ENRICHER_ROW.findings[0], severity="catastrophe")
    exporter.answers["overview"] = replace(OVERVIEW, groups=(replace(ENRICHER_ROW, findings=(finding,)),))
    assert monitor("check").code == 2


def test_many_bad_groups_stay_one_line(monitor, exporter):
    """Three are named, the others counted."""
    rows = tuple(replace(ENRICHER_ROW, group=f"g{number}") for number in range(9))
    exporter.answers["overview"] = replace(OVERVIEW, groups=rows)
    assert ". And 6 more. See `rebalance-monitor explain g0` | groups=9" in monitor("check").out


def test_names_cannot_forge_figures_or_lines(monitor, exporter):
    """Everything after the only bar is ours, and there is one line."""
    finding = replace(ENRICHER_ROW.findings[0], summary=HOSTILE)
    row = replace(ENRICHER_ROW, group=HOSTILE + "|ok=1", findings=(finding,))
    exporter.answers["overview"] = replace(OVERVIEW, groups=(row,))
    out = monitor("check").out
    assert out.count("|") == 1
    assert out.removesuffix("\n").isprintable()


def test_json_says_the_same(monitor):
    """With every judged group, the worst first."""
    outcome = monitor("check", "--json", "ledger", "billing")
    body = json.loads(outcome.out)
    assert (outcome.code, body["exit_code"], body["status"]) == (2, 2, "CRITICAL")
    assert [(each["group"], each["status"]) for each in body["judgements"]] == [
        ("ledger", "CRITICAL"),
        ("billing", "OK"),
    ]
    unknown = json.loads(monitor("check", "--json", "--url", "http://127.0.0.1:1").out)
    assert (unknown["exit_code"], unknown["judgements"]) == (3, [])

"""`top`: worst first, complete in a pipe, fitted to a terminal."""

import io
import json
import re
import threading
from dataclasses import replace

import pytest

from exporters.terminal.answering import Exporter, answering, enricher
from exporters.terminal.clusters import BARE_ROW, BROKER, CALM_ROW, ENRICHER_ROW, HOSTILE, OVERVIEW, STALE, STUCK_ROW
from exporters.terminal.running import hold_to_golden
from rebalance_contract import Severity
from rebalance_contract.api import OverviewWindow
from rebalance_exporters.terminal import check_command, commands, top
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.client import Api
from rebalance_exporters.terminal.screen import Screen
from waiting import wait_for


def first_words(text):
    """The first column of a table."""
    return [line.split()[0] for line in text.splitlines()]


def test_the_table_in_a_pipe_is_whole_and_nothing_else(monitor):
    """Every column, no colour, no legend; unknown values are a dash."""
    outcome = monitor("top")
    assert (outcome.code, outcome.err) == (0, "")
    hold_to_golden("top.txt", outcome.out)


@pytest.mark.parametrize(
    ("sort", "groups"),
    [
        ("lost", ["payments-enricher", "ledger", "billing", "new"]),
        ("rebalances", ["payments-enricher", "ledger", "billing", "new"]),
        ("finding", ["ledger", "payments-enricher", "billing", "new"]),
        ("lag", ["payments-enricher", "ledger", "billing", "new"]),
        ("members", ["billing", "ledger", "payments-enricher", "new"]),
        ("state", ["ledger", "billing", "payments-enricher", "new"]),
        ("group", ["billing", "ledger", "new", "payments-enricher"]),
    ],
)
def test_rows_stand_in_the_wanted_order(monitor, sort, groups):
    """Worst first for numbers, findings and states, alphabetical for names."""
    assert first_words(monitor("top", "--sort", sort).out) == ["GROUP", *groups]


def test_the_options_offer_every_order_there_is():
    """And the severities of the contract."""
    assert set(commands.SORTS) == set(top.SORTS)
    assert tuple(Severity) == check_command.SEVERITIES


def test_a_limit_is_said(monitor):
    """So that a partial list is not mistaken for a complete one."""
    outcome = monitor("top", "--limit", "1")
    assert first_words(outcome.out) == ["GROUP", "payments-enricher"]
    assert outcome.err == "1 of 4 groups shown: --limit 0 shows all\n"


def test_json_has_the_same_order_and_limit(monitor):
    """As in the API, for programs."""
    body = json.loads(monitor("top", "--json", "--limit", "2", "--sort", "members").out)
    assert [row["group"] for row in body["groups"]] == ["billing", "ledger"]
    assert body["ready"] is True


def test_one_cluster_is_asked_for(monitor, exporter):
    """The exporter filters groups and findings."""
    monitor("top", "--cluster", "prod")
    assert exporter.queries("overview") == [{"cluster": "prod"}]
    assert exporter.queries("findings") == [{"cluster": "prod", "group": "", "state": "firing"}]


def test_of_several_clusters_each_row_names_its_own(monitor, exporter):
    """With a single cluster the column would be the same in every row."""
    exporter.answers["overview"] = replace(OVERVIEW, groups=(CALM_ROW, replace(CALM_ROW, cluster="test")))
    assert [line.split()[:2] for line in monitor("top").out.splitlines()] == [
        ["CLUSTER", "GROUP"],
        ["prod", "billing"],
        ["test", "billing"],
    ]


def test_old_data_and_findings_of_the_cluster_are_said_beside_the_table(monitor, exporter):
    """They have no row, and only rows are written to the pipe."""
    exporter.answers |= {"overview": STALE, "findings": {"findings": [BROKER]}}
    outcome = monitor("top")
    assert outcome.err == (
        "NOT UP TO DATE: no batch for 75 s: is `rebalance-monitor stream` running?\n"
        "[PAGE] cluster prod: coordinator_failover: 9 groups of broker 3 rebalanced within 4.0 s.\n"
    )
    assert len(outcome.out.splitlines()) == 5


def test_no_groups_say_what_to_do(monitor, exporter):
    """An empty table would explain nothing."""
    exporter.answers["overview"] = replace(OVERVIEW, groups=())
    outcome = monitor("top")
    assert outcome.out == ""
    assert outcome.err == "no consumer group has been seen: start a consumer, or name another cluster with --cluster\n"


def test_hostile_names_stay_in_their_cell(monitor, exporter):
    """One row each, without cursor movements."""
    rows = (replace(ENRICHER_ROW, group=HOSTILE, protocol=HOSTILE, state=HOSTILE), CALM_ROW)
    exporter.answers["overview"] = replace(OVERVIEW, groups=rows)
    outcome = monitor("top")
    assert len(outcome.out.splitlines()) == 3
    assert outcome.out.replace("\n", "").isprintable()


def test_wide_letters_do_not_shift_the_columns(monitor, exporter):
    """A wide letter counts as two columns."""
    exporter.answers["overview"] = replace(OVERVIEW, groups=(replace(CALM_ROW, group="注文処理"), CALM_ROW))
    heading, *rows = monitor("top", "--sort", "group").out.splitlines()
    assert rows[0].index("Stable") == heading.index("STATE")
    assert rows[1].index("Stable") == heading.index("STATE") - 4


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_columns_go_before_names_are_cut(width, monkeypatch):
    """At every width the group, its lost time and its finding are shown, and no line is too long."""
    rows = (ENRICHER_ROW, STUCK_ROW, CALM_ROW, BARE_ROW)
    monkeypatch.setenv("NO_COLOR", "1")
    screen = make_terminal(monkeypatch, width=width)
    screen.show(top.table_of(rows, OVERVIEW.at_ms, width))
    lines = re.sub(r"\x1b\[\d+m", "", screen.console.file.getvalue()).splitlines()
    assert all(heading in lines[0] for heading in ("GROUP", "LOST", "FINDING"))
    assert ("ASSIGNMENT-STRATEGY" in lines[0]) == (width == 200)
    assert max(len(line.rstrip()) for line in lines) <= width


class Terminal(io.StringIO):
    """A file that claims to be a terminal."""

    def isatty(self):
        return True


def make_terminal(monkeypatch, *, width=120, height=20):
    """A terminal screen."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", str(height))
    return Screen(Terminal())


def test_at_a_terminal_the_frame_says_what_to_type_next(exporter, monkeypatch):
    """The number of groups, the age of the data, the meaning of LOST, and the command that explains."""
    monkeypatch.setenv("NO_COLOR", "1")
    screen = make_terminal(monkeypatch)
    with Api(Access("top", exporter.url)) as api:
        top.show_once(api, top.TopOptions(), screen, print_remark=pytest.fail)
    text = screen.console.file.getvalue()
    assert "\x1b[3" not in text
    lines = [line.rstrip() for line in re.sub(r"\x1b\[\d+m", "", text).split("\n")]
    assert lines[0] == (
        "4 groups: 1 rebalancing now, 2 with a finding to act on; 2026-09-21 14:13:20 UTC, data 2 s old"
    )
    assert "why: `rebalance-monitor explain payments-enricher`" in lines


def test_the_live_table_keeps_fresh_and_outlives_the_exporter(monkeypatch):
    """Changes are shown; without the exporter the last table stays, marked as old."""
    screen, stop = make_terminal(monkeypatch), threading.Event()

    shown = screen.console.file.getvalue
    with answering(Exporter(enricher())) as exporter, Api(Access("top", exporter.url)) as api:
        watching = threading.Thread(target=top.watch, args=(api, top.TopOptions(), screen, stop, 0.02))
        watching.start()
        try:
            wait_for(lambda: "payments-enricher" in shown(), shown)
            fresh = replace(ENRICHER_ROW, group="newcomer", windows={"15m": OverviewWindow(1, 1, 0.1, 9_999.0)})
            exporter.answers["overview"] = replace(OVERVIEW, groups=(*OVERVIEW.groups, fresh))
            wait_for(lambda: "newcomer" in shown(), shown)
            exporter.answers["overview"] = (503, b"")
            wait_for(lambda: "OLD DATA" in shown(), shown)
            assert "newcomer" in shown()[shown().index("OLD DATA") :]
        finally:
            stop.set()
            watching.join()


def test_the_live_table_fits_the_screen(exporter, monkeypatch):
    """Rows that do not fit are counted; the worst ones stay visible."""
    exporter.answers["overview"] = replace(
        OVERVIEW, groups=tuple(replace(CALM_ROW, group=f"group-{number:03}") for number in range(100))
    )
    with Api(Access("top", exporter.url)) as api:
        frame = top.look(api, top.TopOptions(), height=20)
    assert len(frame.rows) == 14

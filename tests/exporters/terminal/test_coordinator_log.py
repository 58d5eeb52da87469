"""`explain --logs`: the log lines of the group's coordinator, beside the monitor's findings."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exporters.terminal.clusters import COST, ENRICHER, LOSS, NOW_MS, OVERVIEW, STARVED
from rebalance_contract import CoordinatorAct, CoordinatorEvent
from rebalance_exporters.terminal import coordinator_log
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.explain import Facts, explain
from rebalance_exporters.terminal.figures import Clock

ME = "payments-enricher"
AT_MS = LOSS.started_before_ms
CLOCK = Clock()


def line(at_ms: int, text: str) -> str:
    """A line of a broker's log in the format of Kafka 4, in UTC."""
    at = CLOCK.at(at_ms)
    time = f"{at:%Y-%m-%d %H:%M:%S},{at_ms % 1000:03}"
    return f"[{time}] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=12] {text}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "server.log"
    lines = [
        line(AT_MS - 3_600_000, f"Group {ME} with generation 1 is now empty."),
        line(AT_MS - 2, f"Member c-1 in group {ME} has failed, removing it from the group."),
        line(
            AT_MS,
            f"Preparing to rebalance group {ME} in state PreparingRebalance with old generation 6 (reason: removing "
            "member c-1 on heartbeat expiration.).",
        ),
        line(AT_MS, "Member x-1 in group other has failed, removing it from the group."),
        "[GroupCoordinator] is named here, and it is no event\n",
    ]
    file.write_text("".join(lines))
    return file


def test_the_coordinators_words_stand_in_the_report(monitor, log):
    """The lines about this group around this rebalance, with their times."""
    outcome = monitor("explain", ME, "--logs", str(log))
    assert (outcome.code, outcome.err) == (0, "")
    text = " ".join(outcome.out.split())
    assert "c-1 is removed: no heartbeat within its session" in text
    assert "begins to prepare a rebalance (heartbeat_expiration of c-1), generation 6" in text
    assert "x-1" not in text
    assert "the group is empty" not in text


def test_json_has_the_events(monitor, log):
    """As objects of the contract; without --logs the field is missing."""
    events = json.loads(monitor("explain", ME, "--logs", str(log), "--json").out)["broker_log"]
    assert [each["act"] for each in events] == ["expired", "preparing"]
    assert "broker_log" not in json.loads(monitor("explain", ME, "--json").out)


def test_a_log_of_another_time_or_broker_is_said_to_be_one(monitor, log):
    """A wrong time zone is the most likely reason, another coordinator the next."""
    shifted = monitor("explain", ME, "--logs", str(log), "--time-zone", "Asia/Tokyo")
    assert "is --time-zone right?" in " ".join(shifted.out.split())
    log.write_text(line(AT_MS, "Member x-1 in group other has failed, removing it from the group."))
    assert "names this group nowhere" in " ".join(monitor("explain", ME, "--logs", str(log)).out.split())


def test_a_file_that_is_no_log_is_refused(monitor, tmp_path):
    """One sentence says what is expected."""
    file = tmp_path / "notes.txt"
    file.write_text("nothing\n")
    outcome = monitor("explain", ME, "--logs", str(file))
    assert (outcome.code, outcome.out) == (1, "")
    assert "lines like this are expected" in outcome.err


def test_the_exact_start_is_shown_where_the_stream_knows_it():
    """Then no bounds are needed."""
    reported = replace(
        LOSS, impact=replace(LOSS.impact or COST, prepared_at_ms=AT_MS - 500, trigger="heartbeat_expiration")
    )
    passages = {
        each.label: each.lines
        for each in explain(Facts(NOW_MS, ENRICHER, OVERVIEW.groups, reported, (STARVED,)), Access("explain")).passages
    }
    assert "as its coordinator wrote" in passages["Since"][0]


def test_many_lines_are_cut_and_counted():
    """A restart of a large group would fill pages."""
    events = [CoordinatorEvent(AT_MS + n, CoordinatorAct.JOINED, member_id=f"c-{n}") for n in range(50)]
    lines = list(coordinator_log.describe(events, LOSS, CLOCK))
    assert len(lines) == 21
    assert lines[-1] == "and 30 more; --json has all"

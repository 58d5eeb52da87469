"""`why`: from a log line, or a whole log, to diagnoses and to the monitor's findings."""

import gzip
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from exporters.terminal.clusters import HOSTILE, STARVED
from exporters.terminal.running import hold_to_golden

ME = "payments-enricher"
LINE = f"WARNING:kafka.coordinator:Heartbeat failed for group {ME} because it is rebalancing"
NOWHERE = ("--url", "http://127.0.0.1:1")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An application's log and a coordinator's lines, one after the other."""
    path = tmp_path / "app.log"
    lines = (f"2026-09-21 13:55:0{second},000 {LINE}" for second in range(3))
    path.write_text(
        "\n".join(
            (
                *lines,
                "2026-09-21 13:55:20,000 app INFO all is well",
                "2026-09-21 13:55:30,000 kafka.coordinator WARNING Heartbeat session expired, marking coordinator dead",
                f"[2026-09-21 13:55:31,000] INFO Member c7-1 in group {ME} has failed, removing it from the group",
                "",
            )
        )
    )
    return path


def type_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Write bytes to standard input, as a pipe does."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_message_is_explained_with_what_is_known_of_its_group(monitor):
    """Its client, its meaning, how to distinguish its causes, and which of them was found."""
    outcome = monitor("why", LINE)
    assert (outcome.code, outcome.err) == (0, "")
    hold_to_golden("why.txt", outcome.out)


def test_the_group_may_be_named(monitor, exporter):
    """If the line does not contain it."""
    out = monitor("why", "Heartbeat session expired, marking coordinator dead", "--group", ME).out
    assert "heartbeat_starvation [found for payments-enricher]: " in out
    assert f"why it rebalanced last: rebalance-monitor explain {ME}" in out
    assert exporter.queries("findings") == [{"cluster": "prod", "group": ME}]


def test_without_a_group_the_monitor_is_not_asked(monitor, exporter):
    """There is no group to request."""
    assert monitor("why", "Heartbeat session expired, marking coordinator dead").code == 0
    assert exporter.requests == []


def test_what_was_found_comes_before_what_else_fires(monitor, exporter):
    """Possible causes of the message first, even resolved ones; unrelated resolved ones are left out."""
    over = replace(STARVED, finding_id="r", state="resolved", resolved_at_ms=STARVED.updated_at_ms)
    other = replace(STARVED, finding_id="o", rule="static_id_conflict", severity="page")
    gone = replace(other, finding_id="g", rule="offset_skip", state="resolved")
    exporter.answers["findings"] = {"findings": [gone, other, over]}
    out = monitor("why", LINE).out
    assert out.index("[TICKET] heartbeat_starvation") < out.index("[PAGE] static_id_conflict")
    assert "offset_skip" not in out


def test_a_monitor_that_does_not_answer_does_not_matter(monitor):
    """The message is explained nevertheless, with the reason for missing findings."""
    outcome = monitor("why", LINE, *NOWHERE)
    assert outcome.code == 0
    assert "Monitor  no answer from http://127.0.0.1:1 (" in outcome.out
    assert "poll_overrun: " in outcome.out


def test_a_group_that_the_monitor_does_not_know(monitor):
    """It is reported; nothing is invented."""
    out = monitor("why", LINE.replace(ME, "nobody")).out
    assert "knows no group nobody" in out
    assert "[found" not in out


def test_a_piece_of_several_messages_gets_no_verdict(monitor):
    """All matching ones, with their possible meanings."""
    outcome = monitor("why", "heartbeat failed")
    assert outcome.code == 0
    assert outcome.out.startswith("part of several messages, the likeliest first\n1)")
    assert "paste more of the line" in outcome.out


def test_what_is_not_known_is_said_so(monitor):
    """With the nearest entries if there are any; a script gets the exit code."""
    near = monitor("why", "my heartbeat thread died")
    assert near.code == 1
    assert near.out.startswith("not known\n")
    assert "Heartbeat thread failed due to unexpected error" in near.out
    far = monitor("why", "connection refused")
    assert (far.code, "Nearest" in far.out) == (1, False)
    assert "try a shorter part of the line, without names and numbers" in far.out


def test_a_log_is_counted_and_explained(monitor, log):
    """Messages, counts, groups, first and last times; their meanings, the most important first."""
    outcome = monitor("why", "--file", str(log))
    assert (outcome.code, outcome.err) == (0, "")
    hold_to_golden("why-log.txt", outcome.out)


def test_a_packed_log_and_a_pipe_are_read_alike(monitor, monkeypatch, log):
    """The output is the same."""
    reported = monitor("why", "--file", str(log)).out
    packed = log.with_suffix(".gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert monitor("why", "--file", str(packed)).out == reported
    for words in ([], ["--file", "-"]):
        type_in(monkeypatch, log.read_bytes())
        assert monitor("why", *words).out == reported


def test_one_line_from_a_pipe_is_a_message(monitor, monkeypatch):
    """`grep -m1 … | rebalance-monitor why` explains it."""
    type_in(monkeypatch, f"{LINE}\n".encode())
    assert monitor("why").out == monitor("why", LINE).out


def test_a_log_without_messages(monitor, log):
    """Only that is printed."""
    log.write_text("all is well\n" * 3)
    outcome = monitor("why", "--file", str(log))
    assert (outcome.code, outcome.out) == (1, "no message about consumer groups in 3 lines\n")


def test_json_has_the_answer_and_the_counts(monitor, log):
    """A message as in the API, and every count of a log."""
    body = json.loads(monitor("why", LINE, "--json").out)
    assert (body["answer"]["match"], body["answer"]["group"]) == ("whole", ME)
    assert body["answer"]["messages"][0]["id"] == "kp_heartbeat_rebalancing"
    assert [each["rule"] for each in body["monitor"]["findings"]][:1] == ["initial_group_formation"]
    body = json.loads(monitor("why", "--file", str(log), "--json").out)
    counts = {each["message"]["id"]: each["count"] for each in body["messages"]}
    assert counts == {"kp_session_expired": 1, "broker_member_failed": 1, "kp_heartbeat_rebalancing": 3}
    assert (body["lines"], [each["group"] for each in body["monitor"]]) == (6, [ME])


def test_a_monitor_that_is_away_is_asked_once(monitor, log):
    """However many groups a log has."""
    log.write_text(
        "\n".join(f"Member a in group g{number} has failed, removing it from the group" for number in range(9))
    )
    assert monitor("why", "--file", str(log), *NOWHERE).out.count("no answer from") == 1


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--file", "x", "text"], "pass a MESSAGE or --file FILE, not both"),
        ([], "no input: pass a MESSAGE, --file FILE, or pipe a log"),
    ],
)
def test_either_a_message_or_a_log(monitor, monkeypatch, words, reported):
    """Both, or neither on a terminal, is a usage error."""
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    outcome = monitor("why", *words)
    assert outcome.code == 2
    assert reported in outcome.err


def test_a_pipe_without_a_line_is_no_log(monitor, monkeypatch):
    """As with `</dev/null`, which is not meant as an empty log."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    outcome = monitor("why")
    assert (outcome.code, outcome.out) == (2, "")
    assert "no input: pass a MESSAGE, --file FILE, or pipe a log" in outcome.err


def test_a_log_that_cannot_be_read(monitor, tmp_path):
    """One sentence."""
    outcome = monitor("why", "--file", str(tmp_path / "none.log"))
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"rebalance-monitor: cannot read {tmp_path}/none.log: No such file or directory\n"


def test_hostile_logs_do_nothing(monitor, log):
    """Names in a log may be anything."""
    log.write_text(f"Member {HOSTILE} in group \x1b[2J{HOSTILE} has failed, removing it from the group\n" * 2)
    out = monitor("why", "--file", str(log)).out
    assert out.replace("\n", "").isprintable()
    assert "\nall is well" not in out

"""`silence` and `announce`, from the command line to the state of all exporters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from exporters.api.test_overview import finding_row
from exporters.contract_rows import (
    NOW_MS,
    SILENCE,
    group_row,
    lag_row,
    make_view,
    rebalance_row,
    silence_row,
    stream_rows,
)
from exporters.serving import hash_password, serving
from exporters.terminal.running import Outcome, run
from rebalance_contract.api import MadeSilence, SilencesAnswer
from rebalance_exporters.state.view import View
from rebalance_exporters.terminal import silence_commands
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.silences import describe_all, describe_made

Run = Callable[..., Outcome]
PAYMENTS = ("prod", "payments")


@pytest.fixture
def view() -> View:
    """A cluster with a group that needs attention."""
    return make_view(*stream_rows(), group_row(), group_row(group="orders"), finding_row("a"), rebalance_row("1"))


@pytest.fixture
def monitor(
    view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Run `rebalance-monitor` as alice against an exporter that shows the view."""
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{alice: {hash_password('secret')}}}\n")
    (tmp_path / "password").write_text("secret\n")
    monkeypatch.setattr(silence_commands, "read_now_ms", lambda: NOW_MS)
    with serving(view, web_config_file=str(tmp_path / "web.yml")) as server:
        monkeypatch.setenv("REBALANCE_MONITOR_URL", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("REBALANCE_MONITOR_USER", "alice")
        monkeypatch.setenv("REBALANCE_MONITOR_PASSWORD_FILE", str(tmp_path / "password"))
        yield lambda *words: run(capsys, *words)


def test_a_silence_is_added_listed_and_expired(monitor: Run, view: View) -> None:
    """Each command prints the current state, and what to type next."""
    added = monitor("silence", "add", "payments", "ord*", "--for", "2h", "--reason", "database moves")
    assert added.code == 0, added.err
    (silence,) = view.fleet().silences.by_name.values()
    assert (silence.groups, silence.created_by, silence.kind) == (("payments", "ord*"), "alice", "silence")
    assert silence.ends_at_ms == NOW_MS + 7_200_000
    first, covers, second = added.out.splitlines()
    assert first == "silenced until 2026-09-21 16:13:20 UTC: payments, ord* [cluster prod]"
    assert covers == "of the groups known now it covers 2"
    assert second == f"end it sooner: `rebalance-monitor silence expire {silence.silence_id}`"
    listed = monitor("silence", "list").out
    for reported in (silence.silence_id, "payments, ord*", "until 2026-09-21 16:13:20 UTC", "alice", "database moves"):
        assert reported in listed
    assert monitor("silence", "expire", silence.silence_id).code == 0
    assert view.fleet().silences.in_force(PAYMENTS, NOW_MS) is None
    assert monitor("silence", "list").out == "no group is silenced\n"
    assert "ended 2026-09-21 14:13:20 UTC by alice" in monitor("silence", "list", "--all").out


def test_a_name_that_no_group_has_is_reported(monitor: Run, view: View) -> None:
    """The silence is accepted, because the group may be created later; a typing error must be visible."""
    for words in (
        ("silence", "add", "paymnets", "--for", "2h", "--reason", "x"),
        ("announce", "paymnets", "--for", "2h"),
    ):
        made = monitor(*words)
        assert made.code == 0
        assert made.out.splitlines()[1] == (
            "no group of such a name is known now: compare with `rebalance-monitor top --once`"
        )
    assert json.loads(monitor(*words, "--json").out)["covered_groups"] == 0
    assert view.fleet().silences.in_force(PAYMENTS, NOW_MS) is None


def test_an_exporter_that_does_not_count_is_not_quoted() -> None:
    """An older version does not count groups, and ending a silence counts none."""
    made = MadeSilence(**{each.name: getattr(SILENCE, each.name) for each in fields(SILENCE)})
    for silence in (made, SILENCE):
        assert len(list(describe_made(silence, NOW_MS, Clock(), Access("silence add")))) == 2


def test_a_deploy_is_announced(monitor: Run, view: View) -> None:
    """A pipeline gets the id as JSON; users then see the deploy beside the rebalance, with its author."""
    announced = monitor("announce", "payments", "--for", "10m", "--version", "1.2", "--by", "bob", "--json")
    reported = json.loads(announced.out)
    assert (reported["kind"], reported["reason"], reported["version"]) == ("deploy", "deploy 1.2", "1.2")
    assert (reported["created_by"], reported["on_behalf_of"]) == ("alice", "bob")
    assert view.fleet().silences.in_force(PAYMENTS, NOW_MS) is not None
    view.apply([rebalance_row("2", NOW_MS + 5_000)])
    explained = monitor("explain", "payments", "--rebalance", "2").out
    assert "during an announced deploy: deploy 1.2 by bob (as alice)" in " ".join(explained.split())
    assert "join (announced deploy)" in monitor("history", "payments").out
    assert "deploy announced until" in monitor("explain", "payments").out
    assert "deploy announced 1.2" in monitor("silence", "list").out


def test_what_is_found_during_a_deploy_is_reported(monitor: Run, view: View) -> None:
    """The deploy's own rebalances do not count meanwhile; a finding above its allowed severity does."""
    view.apply([lag_row(group="orders")])
    assert monitor("check", "orders", "--max-rebalances", "0").code == 1
    assert monitor("announce", "payments", "orders", "--for", "10m").code == 0
    assert monitor("check", "payments").code == 1
    assert monitor("check", "orders", "--max-rebalances", "0").code == 0
    assert "deploy announced, ticket: crash_loop" in monitor("top", "--once").out


def test_a_silenced_group_is_shown_and_well_to_who_checks(monitor: Run, view: View) -> None:
    """The table keeps its marked finding; `check` is for notifications."""
    assert monitor("check", "payments").code == 1
    view.apply([silence_row()])
    assert monitor("check", "payments").code == 0
    assert "silenced, ticket: crash_loop" in monitor("top", "--once").out


def test_a_maintenance_window_begins_later(monitor: Run, view: View) -> None:
    """At a time, or after a duration; a time of day is the next one."""
    for typed, starts_ms in (("30m", NOW_MS + 1_800_000), ("2026-09-22T01:00", 1_790_038_800_000)):
        assert monitor("silence", "add", "*", "--for", "1h", "--from", typed, "--reason", "upgrade").code == 0
        assert starts_ms in {each.starts_at_ms for each in view.fleet().silences.by_name.values()}
    clock = Clock()
    # NOW_MS is 14:13:20.
    assert clock.read_ahead("15:00", NOW_MS) == NOW_MS + 2_800_000
    assert clock.read_ahead("14:00", NOW_MS) == NOW_MS - 800_000 + 86_400_000


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("--for", "soon", "--reason", "x"), "cannot read --for soon"),
        (("--for", "0m", "--reason", "x"), "cannot read --for 0m"),
        (("--for", "1h", "--from", "soon", "--reason", "x"), "cannot read the time"),
        (("--for", "99d", "--reason", "x"), "31 days"),
    ],
)
def test_what_cannot_be_is_one_sentence(monitor: Run, view: View, words: tuple[str, ...], reported: str) -> None:
    """Nothing is silenced."""
    refused = monitor("silence", "add", "payments", *words)
    assert refused.code != 0
    assert reported in refused.err
    assert not view.fleet().silences.by_name


def test_an_unknown_id_is_one_sentence(monitor: Run) -> None:
    """With the command that lists them."""
    refused = monitor("silence", "expire", "nothing")
    assert refused.code != 0
    assert "no silence nothing: see `rebalance-monitor silence list`" in refused.err


def test_every_state_of_a_silence_has_its_words() -> None:
    """Upcoming, in force, expired, ended by a user; of an unknown kind, its name."""
    rows = (
        replace(SILENCE, silence_id="a", starts_at_ms=NOW_MS + 60_000, ends_at_ms=NOW_MS + 180_000),
        replace(SILENCE, silence_id="b", cluster="test", kind="holiday"),
        replace(SILENCE, silence_id="c", ends_at_ms=NOW_MS - 60_000),
        replace(SILENCE, silence_id="d", ends_at_ms=NOW_MS - 60_000, expired_by="bob"),
    )
    answer = SilencesAnswer(NOW_MS, rows)
    reported = {row[0]: (row[1], row[3], row[4]) for row in describe_all(answer, Clock(), ended=True).rows}
    assert reported == {
        "a": ("prod", "from 2026-09-21 14:14:20 UTC for 2 min", "silenced"),
        "b": ("test", "until 2026-09-21 15:12:20 UTC", "holiday"),
        "c": ("prod", "ended 2026-09-21 14:12:20 UTC", "silenced"),
        "d": ("prod", "ended 2026-09-21 14:12:20 UTC by bob", "silenced"),
    }
    assert [row[0] for row in describe_all(answer, Clock(), ended=False).rows] == ["a", "b"]
    (only,) = describe_made(rows[2], NOW_MS, Clock(), Access("silence expire"))
    assert only.startswith("silenced until")

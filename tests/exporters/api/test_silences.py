"""Silences over HTTP: only from authenticated users, only as JSON, and only if Kafka accepts them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from exporters.contract_rows import NOW_MS, SILENCE, group_row, make_view, silence_row, stream_rows
from exporters.serving import DEADLINE_SECONDS, Served, hash_password, serving
from rebalance_contract import AlertSilence, decode
from rebalance_exporters.api import silences
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.state.fleet import FleetSnapshot
from rebalance_exporters.state.kept import GroupKey
from rebalance_exporters.state.silences import covered
from rebalance_exporters.state.view import View

PATH = "/api/v1/silences"
WANTED = {"groups": ["payments"], "reason": "database moves", "duration_ms": 3_600_000}
ALICE = ("alice", "secret")


@pytest.fixture
def view() -> View:
    """A cluster with two groups."""
    return make_view(*stream_rows(), group_row(), group_row(group="orders"))


@pytest.fixture
def served(view: View, tmp_path: Path) -> Iterator[Served]:
    """An exporter with one user."""
    with serving(view, web_config_file=users(tmp_path)) as server:
        yield server


def users(folder: Path) -> str:
    """A web config with alice."""
    file = folder / "web.yml"
    file.write_text(f"basic_auth_users:\n  alice: {hash_password('secret')}\n")
    return str(file)


def ask(served: Served, method: str, path: str = PATH, **options: Any) -> httpx.Response:
    """Send a request as alice unless stated otherwise."""
    url = f"http://127.0.0.1:{served.port}{path}"
    options = {"auth": ALICE, **options}
    return httpx.request(method, url, timeout=DEADLINE_SECONDS, trust_env=False, verify=False, **options)


def test_a_silence_is_made_seen_and_ended(served: Served, view: View) -> None:
    """The author is the logged-in user, whatever the body says; a silence that was ended early stays visible."""
    made = ask(served, "POST", json={**WANTED, "created_by": "somebody else", "kind": "deploy"})
    assert made.status_code == 201
    silence = decode(made.content, AlertSilence)
    assert (silence.created_by, silence.kind, silence.cluster) == ("alice", "deploy", "prod")
    assert (silence.starts_at_ms, silence.ends_at_ms) == (NOW_MS, NOW_MS + 3_600_000)
    assert view.fleet().silences.in_force(("prod", "payments"), NOW_MS) == silence
    assert made.json()["covered_groups"] == 1
    assert [{**each, "covered_groups": 1} for each in ask(served, "GET").json()["silences"]] == [made.json()]
    assert ask(served, "GET", f"{PATH}?cluster=test").json()["silences"] == []
    ended = ask(served, "DELETE", f"{PATH}/{silence.silence_id}")
    assert decode(ended.content, AlertSilence) == replace(silence, ends_at_ms=NOW_MS, expired_by="alice")
    assert view.fleet().silences.in_force(("prod", "payments"), NOW_MS) is None
    assert ask(served, "DELETE", f"{PATH}/{silence.silence_id}").json() == ended.json(), "twice is as once"


def test_what_a_silence_covers_is_counted(served: Served, view: View) -> None:
    """Current groups of its cluster; those of other clusters, and deleted ones, are not silenced."""
    view.apply([group_row(group="paid", state="Deleted"), group_row(cluster="test", group="payroll")])
    counts = {
        groups: ask(served, "POST", json={**WANTED, "cluster": "prod", "groups": [groups]}).json()["covered_groups"]
        for groups in ("payments", "pay*", "*", "paymnets")
    }
    assert counts == {"payments": 1, "pay*": 1, "*": 2, "paymnets": 0}


def test_groups_are_visited_beside_the_event_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tens of thousands of groups, or while rows are read, health checks and scrapes continue."""
    snapshot = View.fleet

    def refuse_in_the_loop() -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()

    def count_in_a_thread(*given: Any) -> Iterator[GroupKey]:
        refuse_in_the_loop()
        return covered(*given)

    def snapshot_in_a_thread(view: View) -> FleetSnapshot:
        refuse_in_the_loop()
        return snapshot(view)

    monkeypatch.setattr(silences, "covered", count_in_a_thread)
    monkeypatch.setattr(View, "fleet", snapshot_in_a_thread)
    made = ask(served, "POST", json=WANTED)
    assert (made.status_code, made.json()["covered_groups"]) == (201, 1)
    assert ask(served, "DELETE", f"{PATH}/{made.json()['silence_id']}").status_code == 200


def test_a_list_has_an_end(served: Served, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page requests it every few seconds: the latest ends come first, and the rest is counted."""
    view.apply([silence_row(silence_id=str(n), ends_at_ms=NOW_MS + n) for n in range(5)])
    found = ask(served, "GET", f"{PATH}?limit=2").json()
    assert ([each["silence_id"] for each in found["silences"]], found["left_out"]) == (["4", "3"], 3)
    monkeypatch.setattr(silences, "MOST_SILENCES", 4)
    found = ask(served, "GET").json()
    assert (len(found["silences"]), found["left_out"]) == (4, 1)
    refused = ask(served, "GET", f"{PATH}?limit=5")
    assert (refused.status_code, refused.json()["error"]) == (400, "limit is 5: at most 4 are returned")


def test_one_that_is_to_come_can_be_ended(served: Served, view: View) -> None:
    """It then never begins."""
    view.apply([silence_row(starts_at_ms=NOW_MS + 1_000)])
    assert ask(served, "DELETE", f"{PATH}/{SILENCE.silence_id}").status_code == 200
    assert view.fleet().silences.in_force(("prod", "payments"), NOW_MS + 1_000) is None


@pytest.mark.parametrize(("method", "path"), [("POST", PATH), ("DELETE", f"{PATH}/{SILENCE.silence_id}")])
def test_nobody_is_heard_where_nobody_is_known(view: View, method: str, path: str) -> None:
    """Without users there are no silences, not even from this machine; the response says what to set."""
    view.apply([silence_row()])
    with serving(view) as server:
        answer = ask(server, method, path, json=WANTED if method == "POST" else None)
        assert answer.status_code == 403
        assert "export.web_config_file" in answer.json()["error"]
        reported = ask(server, "GET", auth=None).json()
        assert reported["silences"]
        assert reported["user"] is None
        assert reported["read_only"].startswith("silences are taken only from users who log in: ")
    assert list(view.fleet().silences.by_name.values()) == [SILENCE]


def test_a_wrong_password_makes_nothing(served: Served, view: View) -> None:
    """As for every other path."""
    assert ask(served, "POST", json=WANTED, auth=("alice", "wrong")).status_code == 401
    assert ask(served, "DELETE", f"{PATH}/x", auth=None).status_code == 401
    assert not view.fleet().silences.by_name


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ({}, "groups"),
        ({**WANTED, "groups": []}, "1 to 50"),
        ({**WANTED, "groups": ["a*b"]}, "at its end"),
        ({**WANTED, "duration_ms": 0}, "over already"),
        ({**WANTED, "duration_ms": -1}, "after it begins"),
        ({**WANTED, "duration_ms": 10**12}, "31 days"),
        ({**WANTED, "duration_ms": 10**30}, "31 days"),
        ({**WANTED, "starts_at_ms": 1}, "over already"),
        ({**WANTED, "starts_at_ms": NOW_MS + 10**11}, "within 31 days"),
        ({**WANTED, "reason": " "}, "reason"),
        ({**WANTED, "cluster": "test"}, "prod"),
        ({**WANTED, "kind": "forever"}, "kind"),
    ],
)
def test_what_cannot_be_is_refused(served: Served, view: View, body: dict[str, Any], reported: str) -> None:
    """With a sentence that names the problem."""
    answer = ask(served, "POST", json=body)
    assert answer.status_code == 400
    assert reported in answer.json()["error"]
    assert not view.fleet().silences.by_name


def test_the_cluster_is_asked_for_where_there_are_several(served: Served, view: View) -> None:
    """A silence of the wrong cluster would be noticed too late."""
    view.apply([group_row(cluster="test")])
    refused = ask(served, "POST", json=WANTED)
    assert (refused.status_code, refused.json()["did_you_mean"]) == (400, ["prod", "test"])
    assert ask(served, "POST", json={**WANTED, "cluster": "test"}).json()["cluster"] == "test"


def test_only_json_is_read(served: Served, view: View) -> None:
    """A form on another site could send other types, with the password that the browser has stored."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = ask(served, "POST", content=b'{"groups": ["*"]}', headers={"content-type": kind})
        assert answer.status_code == 415
    assert ask(served, "OPTIONS").headers.get("access-control-allow-origin") is None
    assert not view.fleet().silences.by_name


def test_a_long_body_is_not_collected(served: Served) -> None:
    """Nor one that claims to be short."""
    assert ask(served, "POST", content=b" " * 300_000, headers={"content-type": "application/json"}).status_code == 413


def test_a_body_that_does_not_come_is_not_awaited(served: Served, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that logs in and sends half a body is answered after a while."""
    monkeypatch.setattr(silences, "_BODY_SECONDS", 0.2)
    credentials = httpx.BasicAuth(*ALICE)._auth_header
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: {credentials}\r\n"
        "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=DEADLINE_SECONDS) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 408")
    assert not view.fleet().silences.by_name


def test_silences_in_force_are_limited(served: Served, view: View) -> None:
    """Per cluster; silences that are over do not count."""
    rows = [silence_row(silence_id=f"{number}") for number in range(silences.MAX_IN_FORCE)]
    view.apply(rows)
    refused = ask(served, "POST", json=WANTED)
    assert (refused.status_code, "end some" in refused.json()["error"]) == (409, True)
    view.apply([silence_row(silence_id="0", ends_at_ms=NOW_MS)])
    assert ask(served, "POST", json=WANTED).status_code == 201


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_what_kafka_did_not_take_is_reported(view: View, tmp_path: Path, method: str) -> None:
    """Nobody should rely on a silence that no exporter reads."""

    def write(_: AlertSilence) -> None:
        raise ExporterError("the exporter may not write to silences")

    view.apply([silence_row()])
    with serving(view, web_config_file=users(tmp_path), write_silence=write) as server:
        path = PATH if method == "POST" else f"{PATH}/{SILENCE.silence_id}"
        answer = ask(server, method, path, json=WANTED if method == "POST" else None)
    assert (answer.status_code, answer.json()["error"]) == (503, "the exporter may not write to silences")


def test_one_that_is_not_known_cannot_be_ended(served: Served, view: View) -> None:
    """Neither with a wrong id nor for another cluster."""
    view.apply([silence_row()])
    for path in (f"{PATH}/other", f"{PATH}/{SILENCE.silence_id}?cluster=test"):
        assert ask(served, "DELETE", path).status_code == 404
    assert list(view.fleet().silences.by_name.values()) == [SILENCE]


def test_whether_one_can_be_made_is_known_before(view: View, tmp_path: Path) -> None:
    """It depends on the user, and on the permissions of the brokers; of several clusters one writable one suffices."""
    west = group_row(cluster="west")
    view.apply([west])
    refusals = {"prod": "no right", "west": None}
    with serving(view, web_config_file=users(tmp_path), silence_refusal=refusals.get) as server:
        reported = ask(server, "GET").json()
        assert (reported["user"], reported["read_only"]) == ("alice", None)
        assert ask(server, "GET", f"{PATH}?cluster=prod").json()["read_only"] == "no right"
        assert ask(server, "GET", f"{PATH}?cluster=west").json()["read_only"] is None


def test_one_cluster_that_takes_silences_is_enough(view: View, tmp_path: Path) -> None:
    """The others are not asked: each that does not answer takes seconds."""
    view.apply([group_row(cluster=f"c{number:02}") for number in range(20)])
    asked: list[str] = []
    with serving(view, web_config_file=users(tmp_path), silence_refusal=asked.append) as server:
        assert ask(server, "GET").json()["read_only"] is None
    assert asked == ["c00"]

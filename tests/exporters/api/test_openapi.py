"""The OpenAPI document compared with the responses of a server."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from starlette.routing import Route

from exporters.api.test_overview import finding_row
from exporters.contract_rows import (
    NOW_MS,
    group_row,
    impact_row,
    make_view,
    probed_lag_row,
    rebalance_row,
    silence_row,
    stream_rows,
    totals_row,
)
from exporters.serving import DEADLINE_SECONDS, Served, hash_password, serving
from rebalance_contract import Advice, CommitGap, CountedImpact, openapi
from rebalance_contract.api import EVENTS, OPENAPI_PATH, ROOT, STREAM_PATH, EventName, Readiness, Refusal
from rebalance_exporters.api import stream_events
from rebalance_exporters.api.stream_events import EventSource, Filter
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.owners import Owners
from rebalance_exporters.server import make_app
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import GROUPS, Row, View
from rebalance_exporters.terminal.sse import read_events

DOCS = Path(__file__).parents[3] / "docs"
DOCUMENT = openapi.describe()

#: Rows of every kind: two clusters have a group of the same name, and one rebalance has all fields.
ROWS = (
    *stream_rows(),
    *stream_rows(cluster="dev"),
    group_row(),
    group_row(group="audit"),
    group_row(cluster="dev", group="audit"),
    probed_lag_row(),
    totals_row(CountedImpact(members_expired=1, lost_partition_ms=12_000)),
    rebalance_row("0-42"),
    rebalance_row("0-43", NOW_MS + 1),
    impact_row(
        "0-42", silences=(CommitGap("orders", 1, NOW_MS - 9_000, NOW_MS),), lag_before=3, lag_peak=9, expired=("c",)
    ),
    finding_row(rebalance_ids=("0-42",), rebalances=1, advice=(Advice("session.timeout.ms", None, "45000", "-"),)),
    silence_row(),
    silence_row(silence_id="deploy", kind="deploy"),
    finding_row("s", rule="member_crash", state="resolved", resolved_at_ms=NOW_MS),
)

#: The request for each operation that returns a row of the contract.
ASKED = {
    "overview": ("/api/v1/overview", "/api/v1/overview?cluster=dev"),
    "groups": ("/api/v1/groups", "/api/v1/groups?cluster=none", "/api/v1/groups?limit=1"),
    "group": ("/api/v1/groups/payments", "/api/v1/groups/audit?cluster=dev"),
    "rebalances": (
        "/api/v1/groups/payments/rebalances",
        "/api/v1/groups/payments/rebalances?limit=1&since_ms=0&until_ms=1",
    ),
    "rebalance": ("/api/v1/groups/payments/rebalances/0-42",),
    "advice": ("/api/v1/groups/payments/advice", "/api/v1/groups/payments/advice?since_ms=0"),
    "findings": ("/api/v1/findings", "/api/v1/findings?state=firing&severity=ticket"),
    "report": ("/api/v1/report", f"/api/v1/report?cluster=none&since_ms=0&until_ms={NOW_MS}&limit=1"),
    "messages": (
        "/api/v1/messages?text=Attempt+to+heartbeat+failed+since+group+is+rebalancing",
        "/api/v1/messages?text=no+such+thing",
    ),
    "silences": ("/api/v1/silences", "/api/v1/silences?cluster=dev", "/api/v1/silences?limit=1"),
    "ready": ("/-/ready",),
}
REFUSED = (
    ("groups", "/api/v1/groups?limit=some", 400),
    ("groups", "/api/v1/groups?limit=0", 400),
    ("group", "/api/v1/groups/nobody", 404),
    ("group", "/api/v1/groups/audit", 409),
    ("rebalances", "/api/v1/groups/nobody/rebalances", 404),
    ("rebalances", "/api/v1/groups/audit/rebalances", 409),
    ("rebalances", "/api/v1/groups/payments/rebalances?limit=some", 400),
    ("rebalance", "/api/v1/groups/payments/rebalances/0-1", 404),
    ("rebalance", "/api/v1/groups/audit/rebalances/0-42", 409),
    ("advice", "/api/v1/groups/nobody/advice", 404),
    ("advice", "/api/v1/groups/audit/advice", 409),
    ("advice", "/api/v1/groups/payments/advice?since_ms=some", 400),
    ("report", "/api/v1/report?since_ms=now", 400),
    ("report", f"/api/v1/report?since_ms={NOW_MS}", 400),
    ("report", "/api/v1/report?since_ms=5&until_ms=5", 400),
    ("report", "/api/v1/report?limit=1001", 400),
    ("silences", "/api/v1/silences?limit=0", 400),
    ("silences", "/api/v1/silences?limit=501", 400),
    ("messages", "/api/v1/messages", 400),
    ("messages", f"/api/v1/messages?text={'a' * 4097}", 400),
)
#: Provoked by `test_connections.py` (no more followers allowed) and `test_shared_answers.py` (too many requests at
#: once).
CROWDED = {
    (name, 503)
    for name in (
        "stream",
        "overview",
        "groups",
        "group",
        "rebalances",
        "rebalance",
        "advice",
        "findings",
        "report",
        "messages",
    )
}
#: Provoked by `test_silence_api.py`.
SILENCES_REFUSED = (
    *(("silence", status) for status in (400, 403, 408, 409, 413, 415, 503)),
    *(("expire", status) for status in (403, 404, 503)),
)
OPERATIONS = {each.name: each for each in openapi.OPERATIONS}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server that shows `ROWS`."""
    with serving(make_view(*ROWS)) as server:
        yield server


def get(served: Served, path: str, **options: Any) -> httpx.Response:
    """Get JSON over the network."""
    url, headers = f"http://127.0.0.1:{served.port}{path}", {"accept": "application/json"}
    # Setting up certificate verification takes longer than a response.
    return httpx.get(url, headers=headers, timeout=DEADLINE_SECONDS, trust_env=False, verify=False, **options)


def hold(text: bytes, kind: Any) -> None:
    """Check JSON against a type: it has exactly the fields of the type."""
    row = msgspec.json.decode(text, type=kind, strict=True)
    assert msgspec.json.decode(msgspec.json.encode(row)) == msgspec.json.decode(text)


def test_the_committed_document_is_current() -> None:
    """After a change of the API run `make docs`."""
    assert (DOCS / "openapi.json").read_text() == openapi.render()


def test_every_reference_leads_somewhere() -> None:
    """Client generators find every schema, and no schema is unused."""
    used = set(re.findall(r'"\$ref": "#/components/schemas/(\w+)"', openapi.render()))
    assert used == set(DOCUMENT["components"]["schemas"])


@pytest.mark.parametrize("name", OPERATIONS)
def test_parameters_of_paths_are_described(name: str) -> None:
    """Parts in braces are required parameters, and all others are optional ones in the query."""
    path = OPERATIONS[name].path
    described = DOCUMENT["paths"][path][OPERATIONS[name].method]["parameters"]
    reported = {each["name"]: (each["in"], each["required"]) for each in described}
    assert {each for each, where in reported.items() if where == ("path", True)} == set(re.findall(r"{(\w+)}", path))
    assert set(reported.values()) <= {("path", True), ("query", False)}


def test_every_path_of_the_api_is_described() -> None:
    """The document has every route of the server's API."""
    app = make_app(ExportConfig(), make_view(), lambda: ReadProgress(loaded=True))
    routes = {
        (each.path, method.lower())
        for each in app.routes
        if isinstance(each, Route)
        for method in (each.methods or set()) - {"HEAD"}
    }
    # Everything below a group is one route, because names may contain slashes.
    below = "/api/v1/groups/{rest:name}"
    described = {
        (below if each.path.startswith("/api/v1/groups/") else each.path, each.method) for each in openapi.OPERATIONS
    }
    assert {each for each in routes if each[0].startswith(ROOT)} == {
        each for each in described if each[0].startswith(ROOT)
    }
    assert described <= routes


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in ASKED.items() for path in paths])
def test_an_answer_is_what_the_document_says(served: Served, name: str, path: str) -> None:
    """Each path returns exactly the fields of its schema."""
    answer = get(served, path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    hold(answer.content, OPERATIONS[name].answer)


def test_every_row_that_is_described_is_asked_for() -> None:
    """Every operation is in the list above."""
    assert set(ASKED) == {each.name for each in openapi.OPERATIONS if each.answer is not None and each.method == "get"}


@pytest.mark.parametrize(("name", "path", "status"), REFUSED)
def test_a_refusal_is_what_the_document_says(served: Served, name: str, path: str, status: int) -> None:
    """Every documented status occurs, with a sentence."""
    answer = get(served, path)
    assert answer.status_code == status
    assert status in OPERATIONS[name].refusals
    hold(answer.content, Refusal)


def test_every_refusal_that_is_described_is_provoked() -> None:
    """Every documented status is in the lists above."""
    described = {(each.name, status) for each in openapi.OPERATIONS for status in each.refusals}
    assert described == {*CROWDED, *SILENCES_REFUSED, *((name, status) for name, _, status in REFUSED)}


@pytest.mark.parametrize("name", ["silence", "expire"])
def test_a_silence_is_what_the_document_says(tmp_path: Path, name: str) -> None:
    """Created and ended; the status is the documented one."""
    config = tmp_path / "web.yml"
    config.write_text(f"basic_auth_users:\n  alice: {hash_password('secret')}\n")
    with serving(make_view(group_row(), silence_row()), web_config_file=str(config)) as server:
        path = OPERATIONS[name].path.replace("{silence_id}", "5ilence")
        body = {"groups": ["a"], "reason": "b", "duration_ms": 1}
        url = f"http://127.0.0.1:{server.port}{path}"
        asked = {"json": body} if name == "silence" else {}
        answer = httpx.request(
            OPERATIONS[name].method.upper(),
            url,
            auth=("alice", "secret"),
            timeout=DEADLINE_SECONDS,
            verify=False,
            **asked,
        )
    assert answer.status_code == OPERATIONS[name].status
    hold(answer.content, OPERATIONS[name].answer)


def test_readiness_that_is_not_is_described_too() -> None:
    """503 has the same body."""
    with serving(make_view()) as server:
        answer = get(server, "/-/ready")
    assert answer.status_code == 503
    assert 503 in OPERATIONS["ready"].also
    hold(answer.content, Readiness)


def test_the_document_is_served_as_it_is_committed(served: Served) -> None:
    """Every exporter serves its own description."""
    answer = get(served, OPENAPI_PATH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.text == (DOCS / "openapi.json").read_text()


def test_the_document_needs_the_password_that_the_api_needs(tmp_path: Path) -> None:
    """With users configured, the document requires a log-in."""
    config = tmp_path / "web.yml"
    config.write_text(f"basic_auth_users:\n  alice: {hash_password('secret')}\n")
    with serving(make_view(), web_config_file=str(config)) as server:
        refused = get(server, OPENAPI_PATH)
        assert refused.status_code == 401
        hold(refused.content, Refusal)
        assert get(server, OPENAPI_PATH, auth=("alice", "secret")).status_code == 200


async def _until(events: AsyncIterator[bytes], wanted: set[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for chunk in events:
            found |= {each.event: each.data.encode() for each in read_events([chunk])}
            if wanted <= found.keys():
                break
    return found


def test_events_are_what_the_document_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data of each kind of event has the fields of its schema, and the document names every kind."""
    monkeypatch.setattr(stream_events, "LOOK_SECONDS", 0.01)
    view = View(group_expiry_seconds=3600, keep_rebalances=3)
    source = EventSource(view, lambda: Readiness(True, "ready"), lambda: NOW_MS, Owners, "1.2.3")

    async def follow() -> dict[str, bytes]:
        # An id of another run causes a reset.
        events = source.follow(Filter(), "other-1")
        found = await _until(events, {EventName.RESET})
        view.apply((*ROWS, Row(GROUPS, b"prod/audit", None)))
        return found | await _until(events, set(EventName) - found.keys())

    found = asyncio.run(follow())
    for name, row in EVENTS.items():
        hold(found[name], row)
    assert set(DOCUMENT["paths"][STREAM_PATH]["get"]["x-events"]) == set(found) == set(EventName)

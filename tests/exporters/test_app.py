import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from gzip import decompress as gunzip
from urllib.parse import quote

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporters.api.test_overview import finding_row
from exporters.contract_rows import (
    NOW_MS,
    diagnosis_row,
    group_row,
    lag_row,
    make_view,
    query_row,
    rebalance_row,
    stream_rows,
)
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.metrics.formats import Style, compress
from rebalance_exporters.metrics.scraping import SharedScrapes
from rebalance_exporters.page import CONTENT_SECURITY_POLICY
from rebalance_exporters.server import make_app
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import View
from rebalance_exporters.web.headers import SAFE_HEADERS

CONFIG = ExportConfig(kafka={"bootstrap.servers": "unused:9092"})
LOADED = ReadProgress(loaded=True)

Get = Callable[..., httpx.Response]


def make_get(view: View, progress: ReadProgress = LOADED, clock_ms: Callable[[], int] = lambda: NOW_MS) -> Get:
    """Return a function that queries the application over an in-memory transport."""
    app = make_app(CONFIG, view, lambda: progress, clock_ms)

    def get(path: str, **headers: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://exporter") as client:
                client.headers.clear()
                return await client.get(path, headers={name.replace("_", "-"): text for name, text in headers.items()})

        return asyncio.run(ask())

    return get


def test_metrics_come_as_text_and_as_openmetrics() -> None:
    """/metrics answers in the requested format, names it, and both formats have the group."""
    get = make_get(make_view(group_row(), lag_row(3), *stream_rows()))
    text, openmetrics = get("/metrics"), get("/metrics", accept="application/openmetrics-text;version=1.0.0")
    assert text.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert openmetrics.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert "kafka_rebalance_group_members" in {family.name for family in parse_text(text.text)}
    assert "kafka_rebalance_group_members" in {family.name for family in parse_openmetrics(openmetrics.text)}


def test_metrics_are_compressed_on_request() -> None:
    """gzip if accepted, otherwise plain, with the same content."""
    get = make_get(make_view(group_row()))
    plain, packed = get("/metrics"), get("/metrics", accept_encoding="gzip")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text
    assert int(packed.headers["content-length"]) == len(compress(plain.content)) < len(plain.content)


@pytest.mark.parametrize("path", ["/-/ready", "/readyz"])
def test_ready_answers_503_until_caught_up(path: str) -> None:
    """Load balancers and users get a status and one line with what is missing."""
    now_ms = NOW_MS
    view = make_view(*stream_rows(caught_up=False, source_lag_records=7))
    get = make_get(view, clock_ms=lambda: now_ms)
    waiting = get(path)
    assert (waiting.status_code, waiting.text) == (503, "stream not caught up: 7 log positions behind [cluster prod]\n")
    view.apply(stream_rows())
    assert (get(path).status_code, get(path).text) == (200, "ready\n")
    now_ms += 31_000
    assert get(path).status_code == 503


def test_ready_answers_machines_too() -> None:
    """A request for JSON gets the verdict, the reason, and the completed share as a number."""
    get = make_get(make_view(*stream_rows(caught_up=False, read_records=1, wanted_records=8)))
    answer = get("/-/ready", accept="application/json")
    text = "reading the log: 12 % of 8 records (membership 12 %, activity 12 %) [cluster prod]"
    verdict = {"ready": False, "text": text, "share": 0.125, "partly": False, "clusters": {"prod": False}}
    verdict["texts"] = {"prod": text}
    assert (answer.status_code, answer.json()) == (503, verdict)
    well = make_get(make_view(*stream_rows()))("/-/ready", accept="application/json")
    verdict = {"ready": True, "text": "ready", "share": 1.0, "partly": False, "clusters": {"prod": True}}
    verdict["texts"] = {"prod": "ready"}
    assert (well.status_code, well.json()) == (200, verdict)


def test_stale_data_is_still_served() -> None:
    """When the stream dies, the last snapshot stays readable; readiness and the age show that it is old."""
    get = make_get(make_view(group_row(), query_row()), clock_ms=lambda: NOW_MS + 99_000)
    metrics = get("/metrics").text
    assert get("/-/ready").status_code == 503
    assert "kafka_rebalance_group_members{" in metrics
    assert "kafka_rebalance_monitor_ready 0.0\n" in metrics
    assert 'kafka_rebalance_monitor_status_age_seconds{cluster="prod",query="membership"} 100.0\n' in metrics


@pytest.mark.parametrize("path", ["/-/healthy", "/healthz"])
def test_health_is_about_the_process_only(path: str) -> None:
    """Only a dead reader is unhealthy, because a restart helps; a missing stream is not."""
    assert make_get(make_view(), ReadProgress(missing_topics=("groups",)))(path).status_code == 200
    dead = make_get(make_view(), ReadProgress(failure="KeyError: 'x'"))(path)
    assert (dead.status_code, dead.text) == (503, "the reader stopped: KeyError: 'x'\n")


def test_the_front_page_links_to_pages_that_exist() -> None:
    """Every link of / works."""
    get = make_get(make_view(*stream_rows()))
    page = get("/")
    assert page.headers["content-type"].startswith("text/html")
    links = [part.split('"')[0] for part in page.text.split('href="')[1:]]
    assert links
    assert {get(link).status_code for link in links} == {200}


def test_groups_are_listed() -> None:
    """The API returns every snapshot as in the contract, in order, or those of one cluster."""
    get = make_get(make_view(group_row(group="b"), group_row(), group_row(cluster="test")))
    everything = get("/api/v1/groups")
    assert everything.headers["content-type"] == "application/json"
    assert [(g["cluster"], g["group"]) for g in everything.json()["groups"]] == [
        ("prod", "b"),
        ("prod", "payments"),
        ("test", "payments"),
    ]
    assert [g["cluster"] for g in get("/api/v1/groups?cluster=test").json()["groups"]] == ["test"]


def test_groups_come_in_pages() -> None:
    """The pages together have each group once, whatever its name."""
    names = ["", "a", "a/b", "b", "ü&?"]
    get = make_get(make_view(*(group_row(group=name, cluster=of) for name in names for of in ("prod", "test"))))
    found, after = [], ""
    while after is not None:
        answer = get(f"/api/v1/groups?limit=3&after={quote(after)}").json()
        assert len(answer["groups"]) <= 3
        found += [(each["cluster"], each["group"]) for each in answer["groups"]]
        after = answer["next"]
    assert found == [(of, name) for of in ("prod", "test") for name in names]
    assert get("/api/v1/groups?limit=99").json()["next"] is None


@pytest.mark.parametrize("path", ["/api/v1/groups", "/api/v1/groups/payments/rebalances", "/api/v1/report"])
@pytest.mark.parametrize("limit", ["0", "00", "x"])
def test_a_page_holds_at_least_one(path: str, limit: str) -> None:
    """A client that follows `next` of empty pages would never finish."""
    answer = make_get(make_view(group_row()))(f"{path}?limit={limit}")
    assert answer.status_code == 400
    assert answer.json()["error"] == f"limit is '{limit}': it must be a whole number, 1 or more"


@pytest.mark.parametrize("name", ["payments", "with/slashes", "ümläut 🚀", 'quo"te', "100%"])
def test_a_group_is_shown(name: str) -> None:
    """Any name can be requested, percent-encoded; the group has members and counters."""
    answer = make_get(make_view(group_row(group=name)))(f"/api/v1/groups/{quote(name)}")
    assert answer.status_code == 200
    assert answer.json()["group"] == name
    assert answer.json()["counters"]["rebalances"]["join"] == 4
    assert len(answer.json()["members"]) == 3


def test_an_unknown_group_gets_a_hint() -> None:
    """A mistyped name is a 404 in JSON with similar names."""
    answer = make_get(make_view(group_row(), group_row(group="billing")))("/api/v1/groups/paymnets")
    assert answer.status_code == 404
    assert answer.json() == {"error": "no group 'paymnets'", "did_you_mean": ["payments"]}


def test_a_name_in_two_clusters_needs_the_cluster() -> None:
    """An ambiguous name is rejected with the clusters to choose from, and found with one of them."""
    get = make_get(make_view(group_row(), group_row(cluster="test")))
    refused = get("/api/v1/groups/payments")
    assert (refused.status_code, refused.json()["did_you_mean"]) == (409, ["prod", "test"])
    assert get("/api/v1/groups/payments?cluster=test").json()["cluster"] == "test"
    assert get("/api/v1/groups/payments?cluster=tset").status_code == 404


def test_a_groups_rebalances_are_listed() -> None:
    """The latest are first, and those of other groups are not included."""
    rows = [rebalance_row("1"), rebalance_row("2", NOW_MS + 1), rebalance_row("3", group="other")]
    get = make_get(make_view(group_row(), *rows))
    assert [r["rebalance_id"] for r in get("/api/v1/groups/payments/rebalances").json()["rebalances"]] == ["2", "1"]
    assert get("/api/v1/groups/nobody/rebalances").status_code == 404


@pytest.mark.parametrize(
    ("path", "meant"), [("/metrcs", "/metrics"), ("/api/v1/message", "/api/v1/messages"), ("/-/redy", "/-/ready")]
)
def test_an_unknown_path_gets_a_hint(path: str, meant: str) -> None:
    """A mistyped path is a 404 in JSON with similar paths."""
    answer = make_get(make_view())(path)
    assert (answer.status_code, answer.json()["did_you_mean"][0]) == (404, meant)


def test_the_overview_has_a_row_per_group() -> None:
    """Version, readiness and age accompany the rows, which are in order or of one cluster only."""
    get = make_get(
        make_view(group_row(group="b"), group_row(), group_row(cluster="test"), query_row(), diagnosis_row(), lag_row())
    )
    answer = get("/api/v1/overview").json()
    assert (answer["ready"], answer["data_age_ms"], answer["at_ms"]) == (False, 1_000, NOW_MS)
    assert answer["ready_text"].startswith("no status yet from the activity of the stream")
    assert [(row["cluster"], row["group"]) for row in answer["groups"]] == [
        ("prod", "b"),
        ("prod", "payments"),
        ("test", "payments"),
    ]
    row = answer["groups"][1]
    assert set(row["windows"]) == {"1m", "5m", "15m"}
    assert (row["state"], row["rebalances_total"], row["owner"]) == ("Stable", 6, None)
    assert len(get("/api/v1/overview?cluster=test").json()["groups"]) == 1


def test_rebalances_are_limited_and_dated() -> None:
    """`limit` gives the latest ones, `since_ms` those that were not over by then, `until_ms` those that had begun."""
    ongoing = rebalance_row("4", NOW_MS + 4)
    assert ongoing.value is not None
    endless = json.loads(ongoing.value) | {
        "outcome": "ongoing",
        "completed_at_ms": None,
        "started_before_ms": NOW_MS - 99,
    }
    rows = [rebalance_row(str(number), NOW_MS + number) for number in (1, 2)]
    get = make_get(make_view(group_row(), *rows, ongoing._replace(value=json.dumps(endless).encode())))

    def ids(query: str) -> list[str]:
        found = get(f"/api/v1/groups/payments/rebalances?{query}").json()["rebalances"]
        return [each["rebalance_id"] for each in found]

    assert ids("") == ["2", "1", "4"], "by their beginning"
    assert len(ids("limit=1")) == 1
    assert set(ids(f"since_ms={NOW_MS + 2}")) == {"4", "2"}
    began = {
        each["rebalance_id"]: each["started_before_ms"]
        for each in get("/api/v1/groups/payments/rebalances").json()["rebalances"]
    }
    assert ids(f"until_ms={began['1']}") == ["4"], "what began then is not before it"
    assert ids(f"until_ms={began['1'] + 1}&limit=1") == ["1"], "the latest of those"


@pytest.mark.parametrize(
    "query", ["limit=many", "limit=-1", "limit=", "since_ms=1.5", "since_ms=²", "until_ms=now", "limit=" + "9" * 99]
)
def test_a_number_that_is_none_is_refused(query: str) -> None:
    """An invalid parameter is a 400 that names it, never an unfiltered answer."""
    answer = make_get(make_view(group_row()))(f"/api/v1/groups/payments/rebalances?{quote(query, safe='=')}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["error"]


def test_a_rebalance_is_shown_with_its_findings() -> None:
    """The findings about it, the cause first; findings about other rebalances are left out."""
    rows = [
        finding_row("a", finding_id="follows", primary=False, rebalance_ids=("1", "2")),
        finding_row("b", finding_id="cause", rebalance_ids=("2",), started_at_ms=NOW_MS),
        finding_row("c", finding_id="other", rebalance_ids=("1",)),
    ]
    get = make_get(make_view(group_row(), rebalance_row("1"), rebalance_row("2"), *rows))
    answer = get("/api/v1/groups/payments/rebalances/2").json()
    assert answer["rebalance"]["rebalance_id"] == "2"
    assert [each["finding_id"] for each in answer["findings"]] == ["cause", "follows"]


def test_the_past_of_a_group_is_explained() -> None:
    """A finding that resolved long ago is of no list of the present, but of its group's and of its rebalance's."""
    resolved = finding_row(state="resolved", resolved_at_ms=NOW_MS - 7_200_000, rebalance_ids=("0-42",))
    view = make_view(group_row(), group_row(group="calm"), rebalance_row("0-42"), resolved)
    view.forget_expired(NOW_MS)
    get = make_get(view)
    assert get("/api/v1/findings").json() == get("/api/v1/findings?group=calm").json() == {"findings": []}
    listed = get("/api/v1/findings?group=payments").json()["findings"]
    shown = get("/api/v1/groups/payments/rebalances/0-42").json()["findings"]
    assert [each["finding_id"] for each in listed] == [each["finding_id"] for each in shown] == ["f1"]
    assert get("/api/v1/findings?group=payments&state=firing").json() == {"findings": []}


def test_the_rebalances_of_a_deleted_group_are_shown() -> None:
    """A report names them, so its links work; the group itself is not shown any more."""
    resolved = finding_row(state="resolved", resolved_at_ms=NOW_MS - 7_200_000, rebalance_ids=("0-42",))
    view = make_view(group_row(state="Deleted", updated_at_ms=NOW_MS - 7_200_000), rebalance_row("0-42"), resolved)
    view.forget_expired(NOW_MS)
    get = make_get(view)
    assert get("/api/v1/groups/payments").status_code == 404
    assert len(get("/api/v1/groups/payments/rebalances").json()["rebalances"]) == 1
    assert get("/api/v1/groups/payments/rebalances/0-42").status_code == 200
    assert get("/api/v1/groups/payments/advice").status_code == 200
    assert len(get("/api/v1/findings?group=payments").json()["findings"]) == 1
    assert get("/api/v1/groups/another/rebalances").status_code == 404


def test_an_unknown_rebalance_gets_a_hint() -> None:
    """An unknown id is a 404 with similar ids."""
    answer = make_get(make_view(group_row(), rebalance_row("7-1234")))("/api/v1/groups/payments/rebalances/7-1243")
    assert (answer.status_code, answer.json()["did_you_mean"]) == (404, ["7-1234"])


@pytest.mark.parametrize("name", ["a/rebalances", "rebalances", "a/rebalances/b", "/", "..", "%2F", "a?b", "grüße"])
def test_no_name_is_ambiguous_when_it_is_encoded(name: str) -> None:
    """With every slash as %2F each group is reached, and so are its rebalances, whatever its name."""
    get = make_get(make_view(group_row(group=name), group_row(group="a"), rebalance_row("1", group=name)))
    encoded = quote(name, safe="").replace("..", "%2E%2E")
    assert get(f"/api/v1/groups/{encoded}").json()["group"] == name
    assert len(get(f"/api/v1/groups/{encoded}/rebalances").json()["rebalances"]) == 1
    assert get(f"/api/v1/groups/{encoded}/rebalances/1").json()["rebalance"]["group"] == name


def test_data_is_never_taken_for_a_page() -> None:
    """Names come from others: a header forbids browsers to guess the type of the API's answers."""
    answer = make_get(make_view(group_row(group="<script>alert(1)</script>")))("/api/v1/groups")
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/metrics", "/-/ready", "/healthz", "/api/v1/groups", "/no"])
def test_every_answer_has_safe_headers(path: str) -> None:
    """The page has its own policy; everything else may not run or be framed, and no header names the server."""
    headers = make_get(make_view(group_row()))(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    is_page = path in {"/", "/page/page.js"}
    assert headers["content-security-policy"] == (
        CONTENT_SECURITY_POLICY if is_page else SAFE_HEADERS["content-security-policy"]
    )


def test_scrapes_at_the_same_time_share_one_rendering() -> None:
    """Simultaneous requests of several Prometheus servers share one rendering; later ones get a new one."""
    begun, release, rendered = threading.Event(), threading.Event(), []

    def render(style: Style) -> bytes:
        rendered.append(style)
        begun.set()
        assert release.wait(30)
        return b"body\n"

    async def scrape() -> list[bytes]:
        scrapes = SharedScrapes(render)
        first = [asyncio.create_task(scrapes.body(Style.TEXT, gzip=gzip)) for gzip in (False, True, False, True)]
        while not begun.is_set():
            await asyncio.sleep(0)
        cancelled = first.pop(0)
        cancelled.cancel()
        release.set()
        bodies = await asyncio.gather(*first)
        return [*bodies, await scrapes.body(Style.TEXT, gzip=False)]

    packed, plain, packed_too, later = asyncio.run(scrape())
    assert (plain, later, gunzip(packed), packed_too) == (b"body\n", b"body\n", b"body\n", packed)
    assert rendered == [Style.TEXT, Style.TEXT]


def test_scrapes_do_not_wait_for_followers_of_events() -> None:
    """Nor for settings files that are read again: both use the threads of the event loop, which they may fill."""
    release = threading.Event()

    async def scrape() -> bytes:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        other = asyncio.create_task(asyncio.to_thread(release.wait, 30))
        scraped = asyncio.create_task(SharedScrapes(lambda _: b"body\n").body(Style.TEXT, gzip=True))
        await asyncio.wait([scraped, other], return_when=asyncio.FIRST_COMPLETED)
        assert not other.done()
        release.set()
        await other
        return await scraped

    assert gunzip(asyncio.run(scrape())) == b"body\n"


def test_a_rendering_that_fails_is_tried_again() -> None:
    """A failure is not cached."""
    answers = iter([ValueError("once"), b"body\n"])

    def render(_: Style) -> bytes:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    async def scrape() -> bytes:
        scrapes = SharedScrapes(render)
        with pytest.raises(ValueError, match="once"):
            await scrapes.body(Style.TEXT, gzip=False)
        return await scrapes.body(Style.TEXT, gzip=False)

    assert asyncio.run(scrape()) == b"body\n"

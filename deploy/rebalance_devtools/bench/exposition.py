"""Measures the cost of a scrape: 1,000 groups with about 100 series each, with few and with all of them changed.

The first table is processor time inside the exporter, separately for rendering and compression. The second is the time
that a Prometheus waits over HTTP while others scrape at the same time and the fleet keeps changing.
"""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from rebalance_contract import (
    Counters,
    DiagnosisStatus,
    Generation,
    GroupLag,
    GroupSnapshot,
    GroupState,
    GroupTiming,
    GroupType,
    GroupWindow,
    Member,
    MemberTiming,
    Pane,
    Panes,
    QueryStatus,
    Rebalance,
    RebalanceOutcome,
    TimingWindow,
    TopicLag,
    encode,
)
from rebalance_contract.api import Readiness
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.metrics.formats import Style, compress
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.server import collect_rarely, make_app, make_view
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import GROUPS, HEARTBEATS, LAG, REBALANCES, STATUS, Row, View
from rebalance_exporters.web.reloading import Settings
from rebalance_exporters.web.server import Signals, serve
from rebalance_kafka.clock import epoch_ms

_GROUPS, _MEMBERS, _TOPICS, _PARTITIONS = 1_000, 5, 10, 12
_SHARES = {"none": 0, "2 %": 50, "all": 1}
_ROUNDS = 15
_SCRAPERS, _SCRAPES = 20, 15
_HEADERS = {"Accept": Style.OPENMETRICS.value, "Accept-Encoding": "gzip"}
# No query sends heartbeats here, so the staleness limit must never be reached.
_CONFIG = ExportConfig(kafka={"bootstrap.servers": "unused:9092"}, stale_after_seconds=1e6)


def measure() -> Iterator[str]:
    """Yield the tables' lines."""
    collect_rarely()
    view = _fill()
    yield from _measure_costs(view)
    yield ""
    yield from _measure_waits(view)


def _measure_costs(view: View) -> Iterator[str]:
    exposition = Exposition(limit_groups=_GROUPS, version="bench")
    body = _render(exposition, view)
    series = sum(line.startswith(b"kafka_rebalance_") for line in body.splitlines())
    sizes = f"{len(body) / 1e6:.1f} MB, {len(compress(body)) / 1e6:.2f} MB as gzip"
    yield f"{_GROUPS:,} groups, {series:,} series, {sizes};"
    yield f"processor time of one scrape as OpenMetrics, median of {_ROUNDS} (worst)"
    yield ""
    yield "| groups changed | rendering, ms | gzip, ms | together, ms |"
    yield "|---|---:|---:|---:|"
    for share, every in _SHARES.items():
        renderings, packings = [], []
        for round_number in range(_ROUNDS):
            view.apply(_change(round_number, every))
            began = time.process_time()
            body = _render(exposition, view)
            rendered = time.process_time()
            compress(body)
            renderings.append((rendered - began) * 1000)
            packings.append((time.process_time() - rendered) * 1000)
        together = [a + b for a, b in zip(renderings, packings, strict=True)]
        cells = " | ".join(
            f"{statistics.median(each):.0f} ({max(each):.0f})" for each in (renderings, packings, together)
        )
        yield f"| {share} | {cells} |"


def _measure_waits(view: View) -> Iterator[str]:
    with _serving(view) as port:
        _scrape(port, 1)
        command = [sys.executable, "-m", __name__, str(port)]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = json.loads(result.stdout)
    yield f"{_SCRAPERS} scrapers at once, each {_SCRAPES} times without a pause; 2 % of the groups change a second"
    yield ""
    yield "| | p50 | p99 | worst |"
    yield "|---|---:|---:|---:|"
    p50, p99 = np.percentile(seconds, [50, 99])
    yield f"| seconds until /metrics was read | {p50:.2f} | {p99:.2f} | {max(seconds):.2f} |"


def _render(exposition: Exposition, view: View) -> bytes:
    ready, loaded = Readiness(True, "ready"), ReadProgress(loaded=True)
    return exposition.render(view.fleet(), loaded, ready, epoch_ms(), Style.OPENMETRICS)


# --- Serving and scraping ---


@contextmanager
def _serving(view: View) -> Iterator[int]:
    """Serve the view over HTTP while the block runs, and change it every second; yields the port."""
    signals, settings, listening = Signals(), Settings("", "", epoch_ms), threading.Event()
    app = make_app(_CONFIG, view, lambda: ReadProgress(loaded=True), settings=settings, stop=signals.stop)
    listener = socket.create_server(("127.0.0.1", 0))
    server = threading.Thread(target=serve, args=(app, listener, settings, signals, lambda *_: listening.set()))
    writer = threading.Thread(target=_go_on_changing, args=(view, signals.stop))
    server.start()
    writer.start()
    try:
        listening.wait()
        yield listener.getsockname()[1]
    finally:
        signals.stop.set()
        server.join()
        writer.join()
        listener.close()


def _go_on_changing(view: View, stop: threading.Event) -> None:
    round_number = 0
    while not stop.wait(1):
        round_number += 1
        view.apply(_change(round_number, _SHARES["2 %"]))


def _scrape(port: int, times: int) -> list[float]:
    """Return the duration of each of `times` consecutive scrapes, in seconds."""
    connection, seconds = http.client.HTTPConnection("127.0.0.1", port), []
    for _ in range(times):
        began = time.perf_counter()
        connection.request("GET", "/metrics", headers=_HEADERS)
        connection.getresponse().read()
        seconds.append(time.perf_counter() - began)
    connection.close()
    return seconds


def _scrape_together(port: int) -> list[float]:
    with ThreadPoolExecutor(_SCRAPERS) as pool:
        waits = pool.map(lambda _: _scrape(port, _SCRAPES), range(_SCRAPERS))
        return [seconds for each in waits for seconds in each]


# --- Rows as the stream writes them ---


def _fill() -> View:
    view, at_ms = make_view(_CONFIG), epoch_ms()
    status = QueryStatus("bench", "membership", True, at_ms, at_ms, 500, last_batch_at_ms=at_ms)
    diagnosis = DiagnosisStatus("bench", at_ms, probed_at_ms=at_ms)
    view.apply([Row(STATUS, b"bench/query/membership", encode(status))])
    view.apply([Row(STATUS, b"bench/diagnosis", encode(diagnosis))])
    for number in range(_GROUPS):
        view.apply(_describe(number, 0, at_ms))
    return view


def _change(round_number: int, every: int) -> list[Row]:
    """Return the rows of one round in which one in `every` groups changed; 0 means none."""
    numbers = range(round_number % every, _GROUPS, every) if every else ()
    return [row for number in numbers for row in _describe(number, round_number + 1, epoch_ms())]


def _describe(number: int, round_number: int, at_ms: int) -> list[Row]:
    """Return all rows that the stream writes about a change of a group."""
    group = f"payments-enricher-{number:05d}"
    key = f"bench/{group}".encode()
    rebalance = _rebalance(group, round_number, at_ms)
    return [
        Row(GROUPS, key, encode(_snapshot(group, round_number, at_ms)), at_ms),
        Row(REBALANCES, key + f"/{rebalance.rebalance_id}".encode(), encode(rebalance), at_ms),
        Row(LAG, key, encode(_lag(group, number, round_number, at_ms)), at_ms),
        Row(HEARTBEATS, key, encode(_timing(group, round_number, at_ms)), at_ms),
    ]


def _snapshot(group: str, round_number: int, at_ms: int) -> GroupSnapshot:
    members = tuple(
        Member(f"consumer-{i}-{group}", f"consumer-{i}", f"/10.0.0.{i}", partitions={_topic(i): [0, 1, 2]})
        for i in range(_MEMBERS)
    )
    return GroupSnapshot(
        "bench",
        group,
        type=GroupType.CLASSIC,
        state=GroupState.STABLE,
        protocol_type="consumer",
        protocol="cooperative-sticky",
        generation=round_number,
        members=members,
        counters=Counters(generations_completed=round_number, duration_ms=2_000 * round_number),
        windows=Panes((Pane(at_ms - at_ms % 10_000, generations_completed=1, rebalances=1, rebalancing_ms=2_000),)),
        first_seen_ms=1,
        last_rebalance_ms=at_ms,
        updated_at_ms=at_ms,
        coordinator=round_number % 3,
    )


def _rebalance(group: str, round_number: int, at_ms: int) -> Rebalance:
    return Rebalance(
        cluster="bench",
        group=group,
        rebalance_id=f"7-{round_number}",
        type="classic",
        reason="departure",
        outcome=RebalanceOutcome.COMPLETED,
        generation_from=round_number - 1,
        generation_to=round_number,
        generations=(Generation(round_number, "departure", assigned_at_ms=at_ms),),
        generations_aborted=0,
        started_after_ms=None,
        started_before_ms=at_ms - 2_000,
        join_ended_at_ms=None,
        completed_at_ms=at_ms,
        sync_ms=None,
        duration_min_ms=2_000,
        duration_max_ms=None,
        protocol="cooperative-sticky",
        leader=None,
        members_before=(),
        members_after=(),
        joined=(),
        left=(),
    )


def _topic(number: int) -> str:
    return f"orders-of-region-{number:02d}"


def _lag(group: str, number: int, round_number: int, at_ms: int) -> GroupLag:
    places = list(range(_PARTITIONS))
    each = TopicLag(places, [round_number] * len(places), [500] * len(places), 500 * len(places))
    window = GroupWindow(1, 0, 1, 0.03, 120 * (round_number + 1), 6_000, 0.5, 2_000)
    return GroupLag(
        "bench",
        group,
        at_ms,
        total=500 * _TOPICS * _PARTITIONS,
        topics={_topic(i): each for i in range(_TOPICS)},
        oldest_unread_ms=at_ms - 5_000,
        commits=120 * (round_number + 1),
        first_commit_ms=1,
        last_commit_ms=at_ms,
        log_partition=0,
        last_log_offset=round_number * _GROUPS + number,
        windows=dict.fromkeys(("1m", "5m", "15m"), window),
    )


def _timing(group: str, round_number: int, at_ms: int) -> GroupTiming:
    members = tuple(
        MemberTiming(None, f"consumer-{i}", f"/10.0.0.{i}", "java", at_ms, 800.0 + round_number, 0.9)
        for i in range(_MEMBERS)
    )
    worst = TimingWindow(900.0 + round_number, 0.9, 1_200.0, 0.95, 60)
    return GroupTiming("bench", group, at_ms, dict.fromkeys(("1m", "5m", "15m"), worst), members)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_scrape_together(int(sys.argv[1]))))

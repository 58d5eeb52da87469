"""A real Prometheus that scrapes the real exporter, which is fed recorded incidents in two parts.

Two parts, because a counter must grow between scrapes for a rate to be non-zero. The exporter's clock stands at the end
of the recordings, so that its sliding windows are full.
"""

from __future__ import annotations

import gzip
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from exporters.contract_rows import diagnosis_row, impact_row, log_row, query_row, records_row
from exporters.replayed import topic_row
from exporters.serving import serving_app
from grafana.boards import ALL, Asked, expand
from prometheus.rig import ask, prometheus
from rebalance_contract import QuarantineCount, RecordCount, ReportCount, ReportTotals, WatchedTopic, encode
from rebalance_deploy.observability import PrometheusOptions, write_prometheus_config
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.server import make_app
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import FINDINGS, STATUS, Row, View
from rebalance_exporters.web.reloading import Settings
from rebalance_exporters.web.server import Signals
from rebalance_streaming.recordings.recording import RecordedLine, read_lines
from rebalance_streaming.recordings.replay import Replay, make_engine
from waiting import wait_for

STORIES = Path(__file__).parents[1] / "golden" / "stories"

#: Two classic groups and one of KIP-848, recorded minutes apart, all with probes and client metrics; of their clients
#: only kafka-python reports the age of its heartbeats.
RECORDINGS = ("held_interpreter-sick-1.jsonl", "poll_overrun-1.jsonl.gz", "reconciliation_stuck-1.jsonl.gz")

CLUSTER = "default"
_DEADLINE_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Scraped:
    """A Prometheus server to query.

    `at` is the evaluation time in seconds since 1970: after a scrape that was in time. Null: now.
    """

    url: str
    at: float | None = None

    def instant(self, expr: str) -> list[dict[str, Any]]:
        """Return the series of an expression, without NaN values."""
        found = self._ask("query", query=expr, time=self.at or time.time())["result"]
        return [series for series in found if series["value"][1] != "NaN"]

    def over_time(self, expr: str) -> list[dict[str, Any]]:
        """Return the series of an expression over the last half minute that have a number at any time."""
        now = self.at or time.time()
        found = self._ask("query_range", query=expr, start=now - 30, end=now, step=2)["result"]
        return [series for series in found if any(value != "NaN" for _, value in series["values"])]

    def values_of(self, label: str, selector: str) -> list[str]:
        """Return the values of a label among the series that match a selector."""
        values: list[str] = self._ask(f"label/{label}/values", **{"match[]": selector})
        return values

    def _ask(self, path: str, **parameters: str | float) -> Any:
        answer = ask(f"{self.url}/api/v1/{path}?{urlencode(parameters)}")
        assert answer["status"] == "success", answer
        return answer["data"]


@dataclass(frozen=True, slots=True)
class Live(Scraped):
    """A Prometheus, and the view behind what it scraped."""

    view: View = field(kw_only=True)


def run(here: Scraped, asked: Asked, chosen: Mapping[str, str] = ALL) -> list[dict[str, Any]]:
    """Return the result of a panel's query, sent as Grafana would send it."""
    expr = expand(asked.expr, chosen)
    return here.instant(expr) if asked.instant else here.over_time(expr)


@dataclass(slots=True)
class Clock:
    """The exporter's clock: it stands still, so that nothing becomes stale on a slow machine."""

    now_ms: int

    def __call__(self) -> int:
        return self.now_ms


@contextmanager
def live(directory: Path) -> Iterator[Live]:
    """Serve and scrape until the block ends; yields when everything has been fed and scraped a few times."""
    lines = [read_recording(name) for name in RECORDINGS]
    clock = Clock(max(line.timestamp_ms for each in lines for line in each))
    view = View(group_expiry_seconds=3600, keep_rebalances=100)
    feed(view, [row for each in lines for row in rows_of(each[: len(each) // 2])], 1, clock.now_ms)
    with _serving(directory, view, clock) as port, _scraping(directory, port) as url:
        here = Live(url, view=view)
        _await_scrapes(here, "kafka_rebalance_monitor_rows_total")
        clock.now_ms += 1_000
        feed(view, [row for each in lines for row in rows_of(each)], 2, clock.now_ms)
        # Series from the second part need enough scrapes for a rate.
        _await_scrapes(here, 'kafka_rebalance_findings_total{rule="poll_overrun"}')
        _await_scrapes(here, 'kafka_rebalance_findings_total{rule="reconciliation_stuck"}')
        scraped = wait_for(lambda: here.instant("timestamp(up) and up == 1"), "a scrape in time", _DEADLINE_SECONDS)
        yield replace(here, at=float(scraped[0]["value"][1]) + 0.001)


def _await_scrapes(here: Live, selector: str) -> None:
    wait_for(
        lambda: here.instant(f"min(count_over_time({selector}[5m])) >= 4"),
        lambda: f"four scrapes of {selector}; there are findings {here.instant('kafka_rebalance_findings_total')}",
        _DEADLINE_SECONDS,
    )


def feed(view: View, rows: Sequence[Row], part: int, now_ms: int) -> None:
    """Feed rows to the view, with the stream's own status at that time; one row is broken on purpose."""
    counts = [
        RecordCount("membership", 2, 3, "decoded", 100 * part),
        RecordCount("membership", 2, None, "tombstone", 10 * part),
        # A record type that no version of Kafka has.
        RecordCount("membership", 99, None, "unsupported", part),
        RecordCount("activity", 1, 3, "decoded", 1_000 * part),
    ]
    status = [
        _query("membership", now_ms, state_rows=2, state_bytes=200_000),
        _query("activity", now_ms, state_rows=0, state_bytes=0),
        diagnosis_row(
            cluster=CLUSTER,
            updated_at_ms=now_ms,
            read_until_ms=now_ms - 900,
            groups=3,
            committing_groups=3,
            groups_with_lag=3,
            probed_at_ms=now_ms - 2_000,
            quarantined=(QuarantineCount("rules", "KeyError", part),),
        ),
        records_row(*counts, cluster=CLUSTER),
        _reports(part),
        log_row(
            WatchedTopic(
                "__consumer_offsets",
                50,
                skipped_records=part,
                lost_positions=part,
                rewinds=part,
                recreations=part,
                added_partitions=part,
                removed_partitions=part,
            ),
            cluster=CLUSTER,
        ),
        # Too large for a row: it has no silences.
        impact_row("0-0", cluster=CLUSTER, group="crowd", is_truncated=True, lag_peak=part),
    ]
    view.apply([*rows, *status, Row(FINDINGS, b"not/a/finding", b"{}")])


def _query(name: str, now_ms: int, **state: int) -> Row:
    times = {"started_at_ms": now_ms - 60_000, "updated_at_ms": now_ms, "last_batch_at_ms": now_ms}
    row = {
        "batch_ms": 400,
        "input_rows": 50,
        "source_lag_records": 3,
        "event_delay_ms": 900,
        "read_records": 9,
        "wanted_records": 9,
        **times,
        **state,
    }
    return query_row(name, cluster=CLUSTER, **row)


def _reports(part: int) -> Row:
    totals = ReportTotals(CLUSTER, (ReportCount("rebalance-monitor.client-metrics", "decoded", 20 * part),))
    return Row(STATUS, f"{CLUSTER}/client_metrics".encode(), encode(totals))


def read_recording(name: str) -> list[RecordedLine]:
    path = STORIES / name
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return list(read_lines([file]))


def rows_of(lines: Sequence[RecordedLine]) -> list[Row]:
    """Return the rows that the stream would have written for a recording."""
    state = Replay(CLUSTER, engine=make_engine(CLUSTER))
    made = (topic_row(row) for row in itertools.chain(state.feed(lines), state.finish()))
    return [row for row in made if row is not None]


@contextmanager
def _serving(directory: Path, view: View, clock: Clock) -> Iterator[int]:
    owners = directory / "owners.yaml"
    owners.write_text("owners: [{group: 'poll-.*', team: payments}]")
    config = ExportConfig(
        kafka={"bootstrap.servers": "unused:9092"},
        collect_members=True,
        collect_partitions=True,
        owners_file=str(owners),
    )
    settings, signals = Settings(str(owners), "", clock), Signals()
    loaded = ReadProgress(loaded=True)
    app = make_app(config, view, lambda: loaded, clock, settings=settings, stop=signals.stop)
    with serving_app(app, settings, signals) as served:
        yield served.port


@contextmanager
def _scraping(directory: Path, port: int) -> Iterator[str]:
    file = write_prometheus_config(directory, PrometheusOptions(scrape_seconds=0.5), targets=[f"127.0.0.1:{port}"])
    # The dashboards are documented to need no rules.
    config = yaml.safe_load(file.read_text())
    del config["rule_files"]
    file.write_text(yaml.safe_dump(config))
    with prometheus(directory, file) as server:
        yield server.url

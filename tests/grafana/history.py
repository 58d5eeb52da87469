"""The samples that a Prometheus would have scraped during recorded incidents: a history to view dashboards with.

python -m grafana.history DIRECTORY writes blocks for `prometheus --storage.tsdb.path=DIRECTORY/data` that end now.
Every series comes from the real diagnosis and the real exposition, as of each scrape; only times are shifted, so that
all recordings end together.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from exporters.contract_rows import NOW_MS
from exporters.page.storm import CALM, calm_rows
from grafana.live import feed, read_recording, rows_of
from rebalance_contract.api import Readiness
from rebalance_exporters.metrics.formats import Style
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import FINDINGS, Row, View
from rebalance_streaming.recordings.recording import RecordedLine

#: Recordings, and the groups that they are shown as.
INCIDENTS = {
    "idle_lock_real-sick-1.jsonl.gz": "payments-enricher",
    "crash_loop-1.jsonl.gz": "checkout-audit",
    "poll_overrun-1.jsonl.gz": "orders-projection",
    "reconciliation_stuck-1.jsonl.gz": "ledger-writer",
    "rolling_deploy-1.jsonl.gz": "search-indexer",
    "stalled_consumer-1.jsonl.gz": "inventory-sync",
}

_HISTORY_MS = 900_000
_SCRAPE_MS = 10_000
_TARGET = 'job="rebalance-monitor",instance="monitor:9642"'
_SAMPLE = re.compile(r"^(\w+)(\{.*\})? (\S+)$")
_LOADED, _READY = ReadProgress(loaded=True), Readiness(True, "ready")


def write(directory: Path, now_ms: int) -> None:
    """Write the blocks. Raises CalledProcessError if promtool rejects them."""
    directory.mkdir(parents=True, exist_ok=True)
    samples: dict[str, list[str]] = {}
    for name, group in INCIDENTS.items():
        for family, line in scrape(read_recording(name), now_ms, group):
            samples.setdefault(family, []).append(line)
    for family, line in scrape_calm(now_ms):
        samples.setdefault(family, []).append(line)
    text = "".join(f"# TYPE {family} unknown\n" + "".join(lines) for family, lines in samples.items()) + "# EOF\n"
    file = directory / "history.om"
    file.write_text(text, "utf-8")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(file), str(directory / "data")], check=True
    )


def scrape(lines: Sequence[RecordedLine], now_ms: int, group: str) -> Iterator[tuple[str, str]]:
    """Yield the samples of every scrape of a recording as (name, line), without the monitor's own."""
    end_ms = max(line.timestamp_ms for line in lines)
    begin_ms = min(line.timestamp_ms for line in lines)
    view, exposition = View(group_expiry_seconds=3600, keep_rebalances=100), _exposition()
    for at_ms in range(end_ms - (end_ms - begin_ms) // _SCRAPE_MS * _SCRAPE_MS, end_ms + 1, _SCRAPE_MS):
        _take(view, rows_of([line for line in lines if line.timestamp_ms <= at_ms]), at_ms)
        recorded = next((name for _, name in view.fleet().groups if name != "crowd"), "crowd")
        for found in _samples(exposition, view, at_ms):
            if "_monitor_" not in found[1] and 'group="crowd"' not in found[0]:
                yield found[1], _move(found, at_ms, now_ms - end_ms).replace(f'"{recorded}"', f'"{group}"')


def scrape_calm(now_ms: int) -> Iterator[tuple[str, str]]:
    """Yield the samples of inactive groups, and the monitor's own."""
    view = View(group_expiry_seconds=3600, keep_rebalances=100)
    rows = [row for number, name in enumerate(CALM) for row in calm_rows(name, members=2 + number % 3, lag=number % 5)]
    feed(
        view,
        [
            row._replace(
                value=(row.value or b"").replace(b'"prod"', b'"default"'),
                key=(row.key or b"").replace(b"prod/", b"default/"),
            )
            for row in rows
        ],
        1,
        NOW_MS,
    )
    samples = list(_samples(_exposition(), view, NOW_MS))
    for ago_ms in range(_HISTORY_MS, -1, -_SCRAPE_MS):
        for found in samples:
            yield found[1], _move(found, NOW_MS, now_ms - NOW_MS - ago_ms, kept=ago_ms)


def _exposition() -> Exposition:
    return Exposition(limit_groups=100, version="1", collect_members=True, collect_partitions=True)


def _samples(exposition: Exposition, view: View, at_ms: int) -> Iterator[re.Match[str]]:
    text = exposition.render(view.fleet(), _LOADED, _READY, at_ms, Style.TEXT, owners=Owners())
    for line in text.decode().splitlines():
        found = _SAMPLE.match(line)
        if found:
            yield found


def _take(view: View, rows: Sequence[Row], at_ms: int) -> None:
    """Feed a replay's rows to the view; findings that the replay no longer contains are withdrawn."""
    kept = {row.key for row in rows if row.topic == FINDINGS}
    known = [
        f"{each.cluster}/{each.group}/{each.rule}/{each.finding_id}".encode()
        for of in view.fleet().findings.values()
        for each in of.findings
    ]
    feed(view, [*rows, *(Row(FINDINGS, key, None) for key in known if key not in kept)], 1, at_ms)


def _move(sample: re.Match[str], at_ms: int, by_ms: int, kept: int = 0) -> str:
    """Return a sample shifted in time; values that are times are shifted too, by `kept` more for inactive groups."""
    name, labels, value = sample[1], sample[2] or "{}", sample[3]
    if name.endswith("_timestamp_seconds"):
        value = str(float(value) + (by_ms + kept) / 1000)
    labels = labels[:-1] + ("," if len(labels) > 2 else "") + _TARGET + "}"
    return f"{name}{labels} {value} {(at_ms + by_ms) / 1000}\n"


if __name__ == "__main__":
    write(Path(sys.argv[1]), time.time_ns() // 1_000_000)

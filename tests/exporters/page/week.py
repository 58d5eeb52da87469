"""Two weeks of a fleet, for the report: recurring recorded incidents, the last of which ended before NOW_MS.

In the second week one group recovers, another fails, and deploys continue as before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from exporters.contract_rows import stream_rows
from exporters.page.storm import CALM, Incident, calm_rows, replay_incident
from rebalance_exporters.state.view import REBALANCES, Row, View

_HOUR_MS = 3_600_000

#: A recording, the group that it is shown as, and for each repetition the hours since its last record.
_COURSE: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("crash_loop-1", "payments-enricher", (320, 260, 210, 126, 79, 78, 77, 54, 53, 31, 30, 29, 8, 6, 5, 3)),
    ("long_batches-sick-1", "orders-projection", tuple(range(12, 330, 24))),
    ("poll_overrun-1", "checkout-audit", (327, 230, 148, 147, 146, 100, 99, 76, 75, 52, 51, 28, 27, 26, 4)),
    ("rolling_deploy-1", "search-indexer", (316, 270, 244, 196, 148, 100, 76, 28)),
    ("rolling_deploy-1", "fraud-scoring", (292, 124, 52)),
    ("reconciliation_stuck-1", "ledger-writer", (250, 226)),
    ("process_pause-1", "geo-lookup", (290, 150, 50, 2)),
    ("coordinator_restart-1", "price-updates", (338, 99)),
)


def week_view() -> View:
    """A view that has read all of its rows."""
    view = View(group_expiry_seconds=3600, keep_rebalances=10_000)
    view.apply([*stream_rows(), *(row for name in CALM for row in calm_rows(name, members=3, lag=0))])
    for recording, group, hours in _COURSE:
        for number, each in enumerate(hours):
            view.apply(_happened(Incident(recording, group, each * _HOUR_MS), number))
    return view


def _happened(incident: Incident, number: int) -> Iterator[Row]:
    """Yield the rows of one repetition of an incident, with ids of their own."""
    rows = list(replay_incident(incident))
    ids = {_id_of(row) for row in rows if row.topic == REBALANCES}
    for row in rows:
        value = row.value or b""
        for each in ids:
            value = value.replace(b'"%s"' % each, b'"%s.%d"' % (each, number))
        yield row._replace(key=_key_of(row, ids, number), value=value)


def _id_of(row: Row) -> bytes:
    name: str = json.loads(row.value or b"{}")["rebalance_id"]
    return name.encode()


def _key_of(row: Row, ids: set[bytes], number: int) -> bytes | None:
    path, _, last = (row.key or b"").rpartition(b"/")
    return b"%s/%s.%d" % (path, last, number) if last in ids else row.key

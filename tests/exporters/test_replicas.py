"""Two exporters that read the same topics in different orders."""

import random
from collections.abc import Iterable

import pytest

from exporters.api.test_overview import finding_row
from exporters.contract_rows import (
    NOW_MS,
    diagnosis_row,
    group_row,
    impact_row,
    make_view,
    probed_lag_row,
    query_row,
    rebalance_row,
    records_row,
    totals_row,
)
from rebalance_contract import CountedImpact, GroupTiming, MemberTiming, RecordCount, TopicLag, encode
from rebalance_contract.api import Readiness
from rebalance_exporters.api.overview import make_overview
from rebalance_exporters.metrics.formats import Style
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import Row, View

CLUSTERS, GROUPS = ("prod", "test"), ("a", "payments", "z/slash", "grüße")


def rows_of(cluster: str, group: str) -> list[Row]:
    """Return the stream's rows about one group over time."""
    key = f"{cluster}/{group}".encode()
    topics = {topic: TopicLag([0, 1], [5, 5], [895, 895], 1_790) for topic in ("orders", "b", "a")}
    members = tuple(MemberTiming(None, f"c-{i}", "h", "java", NOW_MS, 5.0 * i) for i in (2, 0, 1))
    rows = [group_row(cluster=cluster, group=group, generation=n)._replace(at_ms=NOW_MS + n) for n in range(3)]
    rows += [probed_lag_row(n, topics=topics, last_log_offset=n, cluster=cluster, group=group) for n in range(3)]
    rows += [Row("heartbeats", key, encode(GroupTiming(cluster, group, NOW_MS, {}, members)))]
    if cluster == "prod":
        rows += [rebalance_row(f"0-{n}", NOW_MS, group=group) for n in range(2)]
        rows += [impact_row(f"0-{n}", group=group, lag_peak=peak) for n in range(2) for peak in (5, 7)]
        rows += [totals_row(CountedImpact(lost_partition_ms=lost), group) for lost in (5, 7)]
    if (cluster, group) == ("prod", "payments"):
        rows += [finding_row(str(n), finding_id=f"f{n}", rule=f"rule_{n % 2}") for n in (3, 1, 2)]
    return rows


def partitions() -> list[list[Row]]:
    """Return the rows by Kafka partition: their order is fixed within a partition, but not between partitions."""
    apart: dict[tuple[str, bytes | None, str], list[Row]] = {}
    for cluster in CLUSTERS:
        for group in GROUPS:
            for row in rows_of(cluster, group):
                apart.setdefault((row.topic, row.key, cluster), []).append(row)
        counts = [RecordCount("membership", kind, 3, "decoded", 7) for kind in (2, 1, 0)]
        apart["status", b"records", cluster] = [records_row(*counts, cluster=cluster)]
        apart["status", b"query", cluster] = [query_row(name, cluster=cluster) for name in ("membership", "activity")]
        apart["status", b"diagnosis", cluster] = [diagnosis_row(cluster=cluster)]
    return list(apart.values())


def read(chance: random.Random) -> View:
    """Return a view that read the partitions with some interleaving and batch size."""
    waiting, view = [list(rows) for rows in partitions()], make_view()
    while waiting:
        batch: list[Row] = []
        for _ in range(chance.randint(1, 9)):
            if waiting:
                chosen = chance.choice(waiting)
                batch.append(chosen.pop(0))
                waiting = [rows for rows in waiting if rows]
        view.apply(batch)
    return view


def pages(views: Iterable[View]) -> list[tuple[bytes, bytes, bytes, bytes]]:
    """Return the pages of each view: both expositions, the overview, and the rebalances of one group."""
    ready, loaded, found = Readiness(True, "ready"), ReadProgress(loaded=True), []
    for view in views:
        exposition = Exposition(limit_groups=6, version="1", collect_partitions=True, collect_members=True)
        fleet = view.fleet()
        text, rich = (exposition.render(fleet, loaded, ready, NOW_MS + 999, style) for style in Style)
        rows = make_overview(fleet, ready, NOW_MS + 999, version="1", owners=Owners())
        kept = b",".join(each.document() for each in view.rebalances(("prod", "payments")))
        found.append((text, rich, encode(rows), kept))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_two_exporters_show_the_same(seed: int) -> None:
    """For any batches and interleaving every page is the same, byte by byte."""
    chance = random.Random(seed)
    first, second = pages([read(chance), read(chance)])
    assert first == second
    assert first[0].count(b"kafka_rebalance_group_info{") == 6, "the limit leaves the same groups out"

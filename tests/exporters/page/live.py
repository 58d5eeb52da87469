"""A page with a view whose rows change while a browser shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from exporters.api.test_overview import FINDING
from exporters.contract_rows import (
    NOW_MS,
    PAYMENTS,
    WINDOWS,
    group_row,
    lag_row,
    rebalance_row,
    stream_rows,
)
from exporters.page.browser import Browser
from exporters.serving import serving
from rebalance_contract import (
    Advice,
    Alternative,
    Evidence,
    Finding,
    Generation,
    Member,
    Moves,
    Rebalance,
    Subject,
    SubjectMember,
    decode,
    encode,
)
from rebalance_exporters.state.view import FINDINGS, REBALANCES, Row, View


@contextmanager
def showing(browser: Browser, view: View, address: str = "#/", **window: int | bool) -> Iterator[str]:
    """Open the page with a view and wait until it is live; yield the server's address."""
    with serving(view) as served:
        base = f"http://127.0.0.1:{served.port}/"
        browser.show(f"{base}{address}", **window)
        browser.wait_live()
        browser.wait_loaded()
        yield base
        browser.driver.get("about:blank")


def make_view(*rows: Row) -> View:
    """A view of a healthy stream."""
    view = View(group_expiry_seconds=3600, keep_rebalances=1_000)
    view.apply([*stream_rows(), *rows])
    return view


def make_rebalance(rebalance_id: str, group: str = "payments", **changes: object) -> Rebalance:
    """A rebalance in which a member of PAYMENTS left and another one took over."""
    value = rebalance_row(rebalance_id, group=group).value
    assert value is not None
    before, left = PAYMENTS.members[0], Member("c-9", "c-gone", "/10.0.0.9", partitions={"orders": [2]})
    after = PAYMENTS.members[:2]
    made = replace(
        decode(value, Rebalance),
        reason="departure",
        generations=(Generation(7, "departure", assigned_at_ms=NOW_MS - 60_000),),
        members_before=(before, left),
        members_after=after,
        joined=("c-2",),
        left=("c-9",),
        started_before_ms=NOW_MS - 65_000,
        completed_at_ms=NOW_MS - 60_000,
        join_ended_at_ms=NOW_MS - 62_000,
        sync_ms=2_000,
        duration_min_ms=5_000,
        duration_max_ms=5_000,
        moves=Moves({"orders": [2]}, kept=3),
    )
    return replace(made, **changes)


def put(rebalance: Rebalance) -> Row:
    """A rebalance under its key."""
    key = f"{rebalance.cluster}/{rebalance.group}/{rebalance.rebalance_id}"
    return Row(REBALANCES, key.encode(), encode(rebalance))


def put_finding(**changes: object) -> Row:
    """A finding with all optional fields, under its key."""
    full = replace(
        FINDING,
        rebalances=1,
        rebalance_ids=("1",),
        subject=Subject((SubjectMember("c-9", "c-gone", "/10.0.0.9"),)),
        evidence=(Evidence("log", "members", "4 departures", "lost, not leaving"),),
        alternatives=(Alternative("rolling_deploy", "no new host"),),
        missing=("no client metrics from 10.0.0.9",),
        advice=(Advice("session.timeout.ms", "10 s", "45 s", "3 x the longest pause"),),
    )
    finding: Finding = replace(full, **changes)
    return Row(FINDINGS, f"prod/{finding.group}/{finding.rule}/".encode(), encode(finding))


def losing(group: str, seconds: int) -> list[Row]:
    """A group that lost this many partition seconds in the last minutes."""
    windows = {name: replace(window, lost_partition_ms=seconds * 1_000) for name, window in WINDOWS.items()}
    return [group_row(group=group), lag_row(group=group, windows=windows)]


def group_names(browser: Browser) -> list[str]:
    """The group names in the table, from top to bottom."""
    return browser.texts("#groups tbody a.name")

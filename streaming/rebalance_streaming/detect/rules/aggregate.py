"""What several groups suffer at the same time (catalogue §1.8, §4.5): a cause outside all of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from rebalance_contract import Subject
from rebalance_streaming.detect.config import Thresholds
from rebalance_streaming.detect.episode import Past
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.detect.wording import say

_LEAST_HOSTS, _LEAST_COORDINATORS = 2, 2


def cluster_wide(
    losses: Iterable[tuple[str, Past]],
    coordinator_of: Callable[[str], int | None],
    thresholds: Thresholds,
    now_ms: int,
) -> Iterator[Verdict]:
    """Groups on several coordinators and hosts lost members within a minute: network or cluster, not an application."""
    recent = [(name, past) for name, past in losses if past.left_ms >= now_ms - thresholds.resolve_after_ms]
    if len({name for name, _ in recent}) < thresholds.wide_groups:
        return
    recent.sort(key=lambda each: each[1].left_ms)
    times = [past.left_ms for _, past in recent]
    for i, (_, first) in enumerate(recent):
        end = bisect_right(times, first.left_ms + thresholds.wide_window_ms)
        if end - i < thresholds.wide_groups:
            continue
        near = recent[i:end]
        groups = sorted({name for name, _ in near})
        hosts = sorted({past.member.host for _, past in near})
        brokers = sorted({broker for name in groups if (broker := coordinator_of(name)) is not None})
        if len(groups) < thresholds.wide_groups or len(hosts) < _LEAST_HOSTS or len(brokers) < _LEAST_COORDINATORS:
            continue
        yield say(
            "cluster_wide_disturbance",
            first.left_ms,
            Subject(hosts=tuple(hosts)),
            rebalance_ids=tuple(past.rebalance_id for _, past in near),
            count=len(groups),
            groups=", ".join(groups[:10]),
            hosts=len(hosts),
            brokers=len(brokers),
            coordinators=", ".join(map(str, brokers)),
            limits=thresholds,
        )
        return

"""The metrics of heartbeats and polls, from what the clients of a group report, if they do."""

from __future__ import annotations

from collections.abc import Callable

from rebalance_contract import GroupTiming, MemberTiming, TimingWindow
from rebalance_exporters.metrics.series import WINDOW, Metric, Samples, in_seconds, window_samples


def _per_timing_window(read: Callable[[TimingWindow], float | None]) -> Callable[[GroupTiming], Samples]:
    return lambda timing: window_samples(timing.windows, read)


def _per_member(read: Callable[[MemberTiming], float | None]) -> Callable[[GroupTiming], Samples]:
    """Turn a reader of one member into one of all; of clients that share name and host, the largest value counts."""

    def read_all(timing: GroupTiming) -> Samples:
        values: dict[tuple[str, ...], float] = {}
        for member in timing.members:
            value, labels = read(member), member_labels(member)
            if value is not None:
                values[labels] = max(value, values.get(labels, value))
        return sorted(values.items())

    return read_all


def member_labels(member: MemberTiming) -> tuple[str, str]:
    """Return the client id and host that name a member in labels and survive a rejoin."""
    return member.client_id or "", member.host or ""


#: Rendered once per report of a group's clients; absent if no client reports.
TIMING_METRICS: tuple[Metric[GroupTiming], ...] = (
    Metric(
        "window_heartbeat_age_max_seconds",
        "gauge",
        "Oldest last heartbeat that a member reported in the last 1, 5 and 15 minutes.",
        WINDOW,
        _per_timing_window(lambda window: in_seconds(window.heartbeat_age_max_ms)),
    ),
    Metric(
        "window_heartbeat_headroom_ratio",
        "gauge",
        "Smallest share of the session timeout that was left when a member reported, 1 to 0; at 0 it is removed. "
        "Below a third for long: heartbeats are late.",
        WINDOW,
        _per_timing_window(lambda window: window.heartbeat_headroom),
    ),
    Metric(
        "window_poll_gap_max_seconds",
        "gauge",
        "Longest time since a member's last poll in the last 1, 5 and 15 minutes. Close to max.poll.interval: its "
        "batches are too large.",
        WINDOW,
        _per_timing_window(lambda window: in_seconds(window.poll_gap_max_ms)),
    ),
    Metric(
        "window_poll_headroom_ratio",
        "gauge",
        "Smallest share of max.poll.interval that was left when a member reported, 1 to 0; at 0 it leaves the group. "
        "Below a fifth: the next slow batch costs a rebalance.",
        WINDOW,
        _per_timing_window(lambda window: window.poll_headroom),
    ),
)

_MEMBER = ("client_id", "host")

#: Off by default: series per member.
MEMBER_METRICS: tuple[Metric[GroupTiming], ...] = (
    Metric(
        "member_heartbeat_age_seconds",
        "gauge",
        "Age of the member's last heartbeat when it last reported.",
        _MEMBER,
        _per_member(lambda member: in_seconds(member.heartbeat_age_ms)),
    ),
    Metric(
        "member_heartbeat_headroom_ratio",
        "gauge",
        "Share of the member's session timeout that was left when it last reported.",
        _MEMBER,
        _per_member(lambda member: member.heartbeat_headroom),
    ),
    Metric(
        "member_heartbeat_response_max_seconds",
        "gauge",
        "Longest response time of the member's heartbeats that its client last reported, of about a minute. Long in "
        "all groups of one coordinator: that broker is busy; in one member alone: its network.",
        _MEMBER,
        _per_member(lambda member: in_seconds(member.heartbeat_response_ms)),
        unused="To tell a slow coordinator from a slow client while heartbeats are late.",
    ),
    Metric(
        "member_poll_age_seconds",
        "gauge",
        "Time since the member's last poll when it last reported.",
        _MEMBER,
        _per_member(lambda member: in_seconds(member.poll_age_ms)),
    ),
)

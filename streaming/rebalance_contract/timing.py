"""Heartbeat and poll timing as reported by the clients of a group."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_contract.codec import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class MemberTiming:
    """Heartbeat and poll timing of one client as it last reported. Times in milliseconds; null: not reported.

    `heartbeat_headroom` is the remaining share of the session, 1 to 0, and negative once it has expired;
    `poll_headroom` is the same for max.poll.interval. `heartbeat_rate` is in heartbeats per second. `delivery_ms` is
    the delay of the report, `tick_late_ms` how late the reporting thread woke.
    """

    member_id: str | None
    client_id: str | None
    host: str | None
    library: str | None
    reported_at_ms: int
    heartbeat_age_ms: float | None = None
    heartbeat_headroom: float | None = None
    heartbeat_rate: float | None = None
    heartbeat_response_ms: float | None = None
    poll_age_ms: float | None = None
    poll_headroom: float | None = None
    delivery_ms: int = 0
    tick_late_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TimingWindow:
    """The worst values that any member of a group reported in one sliding window; null if no member reported one.

    Headrooms are defined as in `MemberTiming`. `reports` counts the reports of all members.
    """

    heartbeat_age_max_ms: float | None = None
    heartbeat_headroom: float | None = None
    poll_gap_max_ms: float | None = None
    poll_headroom: float | None = None
    reports: int = 0


@dataclass(frozen=True, slots=True)
class GroupTiming:
    """Heartbeat timing of one group: topic `…heartbeats`, key `cluster/group`.

    `windows` are named as in `WINDOWS_MS` and are over all members. `is_truncated`: members were left out of `members`
    so that the row fits.
    """

    cluster: str
    group: str
    at_ms: int
    windows: dict[str, TimingWindow]
    members: tuple[MemberTiming, ...]
    is_truncated: bool = False
    schema_version: int = SCHEMA_VERSION

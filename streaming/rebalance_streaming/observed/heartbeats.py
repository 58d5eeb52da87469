"""Heartbeat and poll timing per member and group, in sliding windows, from what clients report.

The session timeout comes from the group's own records; the client's report is used where records have none (KIP-848).
For the poll timeout the client's report comes first. A heartbeat age is used only while the member has partitions:
while it joins, its age grows harmlessly.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract import WINDOWS_MS, GroupTiming, Member, MemberTiming, TimingWindow
from rebalance_contract.clients import RESPONSE_MAX
from rebalance_streaming.observed.clients import ClientHistory, ClientReport
from rebalance_streaming.observed.departures import session_of
from rebalance_streaming.observed.fingerprints import make_fingerprint, poll_limit_ms
from rebalance_streaming.observed.history import GroupHistory

#: A client that has not reported for this long is no longer shown.
_SILENT_MS = 900_000


def time_group(history: GroupHistory, now_ms: int) -> GroupTiming | None:
    """Return a group's timing at a time in epoch milliseconds; null when none of its clients reports."""
    pairs = [
        (member, client)
        for member in _members(history)
        if (client := history.clients.of(member))
        and (last := client.latest()) is not None
        and now_ms - last.emitted_ms <= _SILENT_MS
    ]
    if not pairs:
        return None
    return GroupTiming(
        history.cluster,
        history.group,
        now_ms,
        {name: _window(pairs, now_ms - length) for name, length in WINDOWS_MS.items()},
        tuple(timing for member, client in pairs if (timing := _timing(member, client)) is not None),
    )


def _members(history: GroupHistory) -> tuple[Member, ...]:
    return () if history.snapshot is None else history.snapshot.members


def _timing(member: Member, client: ClientHistory) -> MemberTiming | None:
    last = client.latest()
    if last is None:
        return None
    age = last.heartbeat_age_ms
    # While it joins it sends no heartbeats by design.
    beating = None if last.assigned == 0 else age
    return MemberTiming(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host,
        library=client.library,
        reported_at_ms=last.emitted_ms,
        heartbeat_age_ms=age,
        heartbeat_headroom=_headroom(beating, _session(member, client)),
        heartbeat_rate=last.heartbeat_rate,
        heartbeat_response_ms=last.values.get(RESPONSE_MAX),
        poll_age_ms=last.poll_age_ms,
        poll_headroom=_headroom(last.poll_age_ms, _poll(member, client)),
        delivery_ms=max(0, last.observed_ms - last.emitted_ms),
        tick_late_ms=last.tick_late_ms,
    )


def _session(member: Member, client: ClientHistory) -> int:
    return member.session_timeout_ms or client.config.session_timeout_ms or session_of(member)


def _poll(member: Member, client: ClientHistory) -> int | None:
    return client.config.max_poll_interval_ms or poll_limit_ms(member, make_fingerprint(member, client))


def _headroom(age_ms: float | None, limit_ms: int | None) -> float | None:
    return None if age_ms is None or not limit_ms else round(1 - age_ms / limit_ms, 3)


def _window(pairs: list[tuple[Member, ClientHistory]], from_ms: int) -> TimingWindow:
    ages, headrooms, polls, poll_headrooms, reports = [], [], [], [], 0
    for member, client in pairs:
        session, poll = _session(member, client), _poll(member, client)
        for report in _since(client, from_ms):
            reports += 1
            if report.heartbeat_age_ms is not None and report.assigned != 0:
                ages.append(report.heartbeat_age_ms)
                headrooms.append(_headroom(report.heartbeat_age_ms, session))
            if report.poll_age_ms is not None:
                polls.append(report.poll_age_ms)
                poll_headrooms.append(_headroom(report.poll_age_ms, poll))
    return TimingWindow(
        heartbeat_age_max_ms=max(ages, default=None),
        heartbeat_headroom=min((each for each in headrooms if each is not None), default=None),
        poll_gap_max_ms=max(polls, default=None),
        poll_headroom=min((each for each in poll_headrooms if each is not None), default=None),
        reports=reports,
    )


def _since(client: ClientHistory, from_ms: int) -> Iterator[ClientReport]:
    for report in reversed(client.reports):
        if report.emitted_ms < from_ms:
            return
        yield report

"""Advice on settings, with numbers: all formulas of the catalogue, one per setting and purpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_contract import USUAL_SESSION_MS, Advice, ClientConfig, Member
from rebalance_contract.client_settings import (
    EAGER_ASSIGNORS,
    JAVA,
    KAFKA_PYTHON,
    KAFKAJS,
    MIXES_NOT,
    OWN_SESSION,
    ClientBound,
    SessionSetting,
    has_cooperative,
    has_poll_records,
    longest_poll_interval_ms,
    session_bound,
    session_or_usual,
    session_setting,
)
from rebalance_streaming.detect.wording import advise
from rebalance_streaming.observed.departures import Departure
from rebalance_streaming.observed.fingerprints import Fingerprint, poll_limit_ms
from rebalance_streaming.observed.progress import Flow

_USUAL_HEARTBEAT_MS = 3_000
#: group.initial.rebalance.delay.ms: the default, and the longest delay that is proposed.
_LOWEST_DELAY_MS, _HIGHEST_DELAY_MS = 3_000, 60_000
#: Factor on the number of members that would just keep up, so that existing lag is worked off, too.
_HEADROOM = 1.3
#: The default of max.poll.records (Java and kafka-python).
_DEFAULT_POLL_RECORDS = 500
_LOWEST_POLL_INTERVAL_MS = 60_000
#: A request timeout above this is not meant for heartbeats (kafka-python's is 305 s).
_LONGEST_REQUEST_MS = 60_000
#: Variants of starvation with a workaround until the upgrade, or in addition to it.
_WORKAROUNDS = frozenset({"lock_contention", "native_code", "event_loop_blocked"})


# --- Polls and batches ---


def fewer_records(limit_ms: int, batch_ms: float, records: int | None) -> Advice:
    """Return the max.poll.records that makes a batch take half of max.poll.interval.

    `batch_ms` is how long the batch took, at least half of `limit_ms`; `records` is the max.poll.records of the client
    (null: not reported).
    """
    share = 0.5 * limit_ms / max(1.0, batch_ms)
    most = max(1, math.floor((records or _DEFAULT_POLL_RECORDS) * share))
    if records:
        # At least one record fewer, also for a batch that took exactly half of the limit.
        return advise("fewer_records", records=records, most=max(1, min(most, records - 1)))
    return advise("fewer_records_by_default", share=share, most=most, default=_DEFAULT_POLL_RECORDS)


def longer_poll_interval(record_ms: float, limit_ms: int, library: str | None = None) -> tuple[Advice, ...]:
    """Return the max.poll.interval for records that take longer than half of it each, within the library's limit.

    Empty if it is that long already.
    """
    proposed = poll_interval_for(record_ms, library)
    return (advise("longer_poll_interval", limit=limit_ms, proposed=proposed),) if proposed > limit_ms else ()


def poll_interval_for(gap_ms: float, library: str | None = None) -> int:
    """Return the max.poll.interval in milliseconds that is twice the longest time between two polls."""
    most_ms = longest_poll_interval_ms(library)
    return max(_LOWEST_POLL_INTERVAL_MS, min(1000 * math.ceil(min(2 * gap_ms, most_ms) / 1000), most_ms))


def shorter_batches(limit_ms: int, batch_ms: float, records: int | None) -> tuple[Advice, ...]:
    """Return advice that keeps a batch within max.poll.interval: fewer records, a longer interval, or both.

    A longer interval is only proposed if a single record takes more than half of it: then fewer records do not help.
    """
    if not records or batch_ms / records <= 0.5 * limit_ms:
        return (fewer_records(limit_ms, batch_ms, records),)
    longer = longer_poll_interval(batch_ms / records, limit_ms)
    return longer if records == 1 else (fewer_records(limit_ms, batch_ms, records), *longer)


def poll_overrun_advice(departure: Departure, config: ClientConfig) -> tuple[Advice, ...]:
    """Return what to change for a member whose batch took longer than max.poll.interval; `config` is as reported."""
    limit, library = poll_limit(departure, config), departure.client.library
    batch_ms = _batch_ms(departure, limit or 0)
    if not has_poll_records(library):
        poll = advise("poll_per_message")
        return (poll,) if limit is None else (poll, *longer_poll_interval(batch_ms, limit, library))
    # Without the limit no number can be computed.
    return *(() if limit is None else shorter_batches(limit, batch_ms, config.max_poll_records)), advise("worker_pool")


def worker_overrun_advice(limit_ms: int | None) -> tuple[Advice, ...]:
    """Return what to change for a worker of Kafka Connect that did not poll within its rebalance timeout.

    The worker logs "worker poll timeout has expired" and its current activity (DistributedHerder.java).
    """
    return advise("poll_as_worker"), advise("longer_worker_wait", limit=limit_ms)


def poll_limit(departure: Departure, config: ClientConfig) -> int | None:
    """Return a member's max.poll.interval (ms), from its records or else its reports; null if neither has it."""
    return departure.poll_ms or config.max_poll_interval_ms


def _batch_ms(departure: Departure, limit: int) -> float:
    """Return how long the batch took: at least until the member was gone, and until it came back if it did."""
    away = max(0, departure.away_ms or 0)
    # A static member does not leave: its session has to run out after its limit.
    static = departure.member.group_instance_id is not None
    return float(max(limit, departure.silence_ms or 0 if static else 0) + away)


def stalled_barrier_advice(departure: Departure | None) -> tuple[Advice, ...]:
    """Return what to change for a member that delayed a rebalance because it did not poll; null: not known which."""
    limit = None if departure is None else departure.poll_ms
    return advise("keep_polling"), advise("short_wait_of_all", limit=limit)


def cooperative_advice(protocol: str | None, fingerprints: Sequence[Fingerprint], why: str) -> tuple[Advice, ...]:
    """Return how the group migrates to a cooperative assignor; empty if it is not eager or a client has none.

    `fingerprints` are the fingerprints of its members' clients, `why` is the benefit.
    """
    if protocol not in EAGER_ASSIGNORS or not all(has_cooperative(each.library, each.release) for each in fingerprints):
        return ()
    libraries = {each.library for each in fingerprints}
    at_once = " and ".join(sorted(MIXES_NOT & libraries)) or None
    if libraries == {JAVA} and all(each.release >= (3,) for each in fingerprints):
        return (advise("cooperative_java", protocol=protocol, why=why),)
    if at_once and libraries <= MIXES_NOT:
        return (advise("cooperative_at_once", protocol=protocol, library=at_once, why=why),)
    return (advise("cooperative_in_two", protocol=protocol, at_once=at_once, why=why),)


# --- Sessions and heartbeats ---


@dataclass(frozen=True, slots=True)
class MemberSession:
    """The session of a member: the setting behind it, its length in milliseconds, and the client's own bound.

    `known_ms` is null if its records do not carry it, `heartbeat_ms` is its heartbeat interval, `request_ms` its
    request.timeout.ms (null: not reported), and `bound` is null if the client accepts every value that brokers accept.
    """

    setting: SessionSetting
    known_ms: int | None
    heartbeat_ms: int
    request_ms: int | None = None
    bound: ClientBound | None = None

    @property
    def now_ms(self) -> int:
        """The length of the session (ms); the default if it is not known."""
        return session_or_usual(self.known_ms)


def session_of_member(
    member: Member, fingerprint: Fingerprint, group_type: str, config: ClientConfig | None = None
) -> MemberSession:
    """Return the session of a member of a group; `config`: the settings that its client reports, null: none."""
    config = config or ClientConfig()
    poll_ms, request_ms = poll_limit_ms(member, fingerprint) or config.max_poll_interval_ms, config.request_timeout_ms
    bound = session_bound(fingerprint.library, fingerprint.release, poll_ms=poll_ms, request_ms=request_ms)
    setting = session_setting(group_type, member.session_timeout_ms)
    own_bound = None if setting.of_group else bound
    return MemberSession(setting, member.session_timeout_ms, fingerprint.heartbeat_ms, request_ms, own_bound)


def longer_session(
    of: MemberSession, *, pause_ms: float | None = None, with_requests: bool = False
) -> tuple[Advice, ...]:
    """Return the session timeout that holds three heartbeats and twice the longest pause, if it is longer than now.

    `pause_ms` null: no pause to cover. `with_requests`: the session also outlasts an unanswered request, if the client
    reports its request timeout.
    """
    heartbeat_ms, least_ms = of.heartbeat_ms, 0
    times = {"3 x heartbeat interval": 3 * heartbeat_ms}
    if pause_ms is not None:
        times["2 x longest pause + heartbeat interval"] = math.ceil(2 * pause_ms) + heartbeat_ms
        least_ms = math.ceil(pause_ms) + heartbeat_ms
    if with_requests and of.request_ms is not None and of.request_ms <= _LONGEST_REQUEST_MS:
        times["request.timeout.ms + heartbeat interval"] = of.request_ms + heartbeat_ms
    return _session_for(times, of, least_ms)


def session_for_absence(of: MemberSession, absence_ms: float) -> tuple[Advice, ...]:
    """Return the session that outlasts the longest absence of a static member."""
    times = {"1.5 x longest absence": 1_000 * math.ceil(1.5 * absence_ms / 1_000)}
    return _session_for(times, of, math.ceil(absence_ms))


def session_for_failover(sessions: Sequence[MemberSession]) -> tuple[Advice, ...]:
    """Return the session with which the group's member with the shortest session outlasts a broker's restart."""
    shortest = min(sessions, key=lambda each: each.now_ms, default=None)
    return () if shortest is None else _session_for({"time a broker takes to restart": 0}, shortest, USUAL_SESSION_MS)


def _session_for(times: dict[str, int], of: MemberSession, least_ms: int) -> tuple[Advice, ...]:
    """Return the session timeout for the longest of some times, never below the usual one; empty if it is that long.

    Brokers accept no more than the setting's limit, and clients may accept less. That limit is proposed if it covers
    `least_ms`, the time to outlast; otherwise the limit has to be raised as well. Nothing is proposed if `least_ms` is
    above the longest session that brokers accept from members by default.
    """
    longest_ms, raised = of.setting.longest_ms, None
    if least_ms > longest_ms:
        if least_ms > OWN_SESSION.longest_ms:
            return ()
        raised = ClientBound(longest_ms, f"{of.setting.longest_by} of the brokers", "they take no session above it")
        longest_ms = OWN_SESSION.longest_ms
    proposed = min(longest_ms, max(*times.values(), USUAL_SESSION_MS))
    most = f"{longest_ms}"
    if of.setting.of_group and raised is None:
        most += f" ({of.setting.longest_by} of the brokers)"
    if of.bound is not None and proposed > of.bound.longest_ms:
        if of.bound.longest_ms > max(least_ms, of.now_ms):
            proposed, most = of.bound.longest_ms, f"{of.bound.longest_ms} ({of.bound.setting}: {of.bound.why})"
        else:
            raised = of.bound
    if proposed <= of.now_ms:
        return ()
    longer = advise(
        "session",
        setting=f"{of.setting.name} (of the group)" if of.setting.of_group else of.setting.name,
        session=of.known_ms if of.known_ms is not None else f"{of.now_ms} (the default, not reported)",
        proposed=proposed,
        raised=raised,
        formula=f"max({', '.join(times)}, {USUAL_SESSION_MS}), at most {most}",
    )
    return (longer,)


def shortens(session_ms: int | None) -> bool:
    """Whether a shorter session can be proposed: it is known, and above the usual one."""
    return session_ms is not None and session_ms > USUAL_SESSION_MS


def heartbeat_for(session_ms: int) -> int:
    """Return the usual heartbeat interval (ms), or a third of the session if that is shorter."""
    return min(_USUAL_HEARTBEAT_MS, session_ms // 3)


def starvation_advice(departure: Departure, variant: str | None, upgrade: Advice | None) -> tuple[Advice, ...]:
    """Return what to change for a client whose heartbeats starve; never a larger session timeout alone."""
    advice = [] if upgrade is None else [upgrade]
    if departure.client.library in (KAFKA_PYTHON, None) and variant == "idle_lock":
        advice.append(advise("idle_lock", heartbeat=departure.client.heartbeat_ms))
    if variant in _WORKAROUNDS:
        advice.append(advise(variant))
    return tuple(advice)


def blocked_heartbeat_advice(departure: Departure, of: MemberSession) -> tuple[Advice, ...]:
    """Return what to change for a client that sends heartbeats only between messages."""
    client = departure.client
    by_hand = client.library == KAFKAJS
    first = advise("heartbeat_by_hand") if by_hand else advise("own_heartbeat_thread", version=client.version)
    silence_ms = departure.silence_ms or departure.session_ms
    return first, *_session_for({"2 x longest time between two heartbeats": 2 * silence_ms}, of, silence_ms)


# --- Stops and names ---


def graceful_stop_advice(departure: Departure, *, names: bool) -> tuple[Advice, ...]:
    """Return what to change if instances are killed without leaving their group; `names`: they can be static."""
    close = advise("close_on_sigterm", java=departure.client.library == JAVA)
    return close, advise("grace_period"), *((advise("name_for_restarts"),) if names else ())


# --- Groups ---


def initial_delay_for(spread_ms: int) -> int:
    """Return the group.initial.rebalance.delay (ms) that covers members which join within `spread_ms`."""
    return min(_HIGHEST_DELAY_MS, max(_LOWEST_DELAY_MS, spread_ms + 1_000))


def members_for(flow: Flow, working: int) -> int:
    """Return how many members are needed to keep up with production, given `working` now; at most one per partition."""
    return min(flow.partitions, math.ceil(_HEADROOM * flow.produced / (flow.consumed / working)))

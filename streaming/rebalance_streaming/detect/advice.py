"""Settings to change, with numbers: the catalogue's formulas (§5) in one place."""

from __future__ import annotations

import math

from rebalance_contract import Advice
from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.departures import Departure
from rebalance_streaming.detect.fingerprints import AIOKAFKA, JAVA, KAFKA_PYTHON, KAFKAJS, LIBRDKAFKA

#: What clients fetch per poll unless told otherwise (Java and kafka-python).
_DEFAULT_POLL_RECORDS = 500
_LOWEST_POLL_INTERVAL_MS = 60_000
#: The setting is an int.
_LONGEST_POLL_INTERVAL_MS = 2**31 - 1
_USUAL_SESSION_MS = 45_000
#: group.max.session.timeout.ms of brokers; they refuse more.
_LONGEST_SESSION_MS = 1_800_000


def fewer_records(limit_ms: int, batch_ms: float, records: int | None) -> Advice:
    """Return the max.poll.records that makes a batch take half of max.poll.interval.

    `batch_ms` is how long the batch took, at least half of `limit_ms`; `records` how many it may have had, null: not
    told.
    """
    share = 0.5 * limit_ms / max(1.0, batch_ms)
    formula = "max(1, floor(0.5 x max.poll.interval / seconds per record))"
    if records:
        return Advice("max.poll.records", str(records), f"at most {_allowed(records, limit_ms, batch_ms)}", formula)
    by_default = _allowed(_DEFAULT_POLL_RECORDS, limit_ms, batch_ms)
    proposed = f"{share:.0%} of what it is: at most {by_default}, if that is the default of {_DEFAULT_POLL_RECORDS}"
    return Advice("max.poll.records", None, proposed, formula)


def _allowed(records: int, limit_ms: int, batch_ms: float) -> int:
    return max(1, math.floor(records * 0.5 * limit_ms / max(1.0, batch_ms)))


def longer_poll_interval(record_ms: float, limit_ms: int) -> Advice:
    """Return the max.poll.interval for records that take longer than half of it each."""
    longest_ms = min(2 * record_ms, _LONGEST_POLL_INTERVAL_MS)
    proposed = max(_LOWEST_POLL_INTERVAL_MS, min(1000 * math.ceil(longest_ms / 1000), _LONGEST_POLL_INTERVAL_MS))
    return Advice(
        "max.poll.interval.ms",
        str(limit_ms),
        f"{proposed}, which is also the longest that one stuck member can hold up the group",
        "1000 x ceil(2 x longest time per record in seconds)",
    )


def poll_overrun_advice(departure: Departure, client: ClientHistory | None) -> tuple[Advice, ...]:
    """Return what to change for a member whose batch took longer than max.poll.interval."""
    limit = poll_limit(departure, client)
    batch_ms = _batch_ms(departure, limit or 0)
    pool = Advice("code", None, "or hand the batch to a worker pool, pause() and keep polling", "-")
    if departure.client.library == LIBRDKAFKA:
        poll = Advice("code", None, "poll at least once per message and hand long work to a thread while paused", "-")
        return (poll,) if limit is None else (poll, longer_poll_interval(batch_ms, limit))
    if limit is None:
        # Without the limit there is no number to give.
        return (pool,)
    return *shorter_batches(limit, batch_ms, None if client is None else client.config.max_poll_records), pool


def poll_limit(departure: Departure, client: ClientHistory | None) -> int | None:
    """Return a member's max.poll.interval in milliseconds: by its records, else its own word; null: neither."""
    told = None if client is None else client.config.max_poll_interval_ms
    # aiokafka's rebalance time-out is its session time-out.
    return told if departure.client.library == AIOKAFKA else departure.poll_ms or told


def _batch_ms(departure: Departure, limit: int) -> float:
    """Return how long the batch took: at least until the member was gone, and until it came back if it did."""
    away = 0 if departure.back_ms is None else max(0, departure.back_ms - departure.to_ms)
    # A static member is gone only a session after its limit (F11).
    static = departure.member.group_instance_id is not None
    return float(max(limit, departure.silence_ms or 0 if static else 0) + away)


def shorter_batches(limit_ms: int, batch_ms: float, records: int | None) -> tuple[Advice, ...]:
    """Return what keeps a batch within max.poll.interval: fewer records, a longer interval, or both.

    The interval grows only where a single record takes more than half of it, so that fewer records do not help.
    """
    if not records or batch_ms / records <= 0.5 * limit_ms:
        return (fewer_records(limit_ms, batch_ms, records),)
    longer = longer_poll_interval(batch_ms / records, limit_ms)
    return (longer,) if records == 1 else (fewer_records(limit_ms, batch_ms, records), longer)


def stalled_barrier_advice(departure: Departure | None) -> tuple[Advice, ...]:
    """Return what to change for a member that held up a rebalance because it did not poll."""
    limit = departure.poll_ms if departure is not None else None
    return (
        Advice(
            "code", None, "poll in a loop or from a timer; pause() partitions and keep polling while work is long", "-"
        ),
        Advice(
            "max.poll.interval.ms",
            None if limit is None else str(limit),
            "twice the longest batch, and the same in all members: the largest one bounds the wait",
            "2 x seconds per record x max.poll.records",
        ),
        Advice(
            "partition.assignment.strategy", None, "cooperative-sticky, so that the others keep working meanwhile", "-"
        ),
    )


def longer_session(
    session_ms: int, longest_silence_ms: int, heartbeat_ms: int, request_timeout_ms: int | None = None
) -> Advice:
    """Return the session time-out that outlasts the longest pause seen, and an unanswered request where one is told."""
    proposed = max(3 * heartbeat_ms, 2 * longest_silence_ms + heartbeat_ms, _USUAL_SESSION_MS)
    formula = "max(3 x heartbeat interval, 2 x longest pause + heartbeat interval, 45000)"
    if request_timeout_ms is not None:
        proposed = max(proposed, request_timeout_ms + heartbeat_ms)
        formula = formula.replace("45000", "request.timeout + heartbeat interval, 45000")
    return Advice("session.timeout.ms", str(session_ms), str(min(proposed, _LONGEST_SESSION_MS)), formula)


def starvation_advice(departure: Departure, variant: str | None, upgrade: Advice | None) -> tuple[Advice, ...]:
    """Return what to change for a client whose heartbeats starve; never a larger session time-out alone."""
    advice = [] if upgrade is None else [upgrade]
    if departure.client.library in (KAFKA_PYTHON, None) and variant == "idle_lock":
        advice.append(
            Advice(
                "metadata_max_age_ms",
                "300000 (the default, not told)",
                str(departure.client.heartbeat_ms),
                "heartbeat_interval_ms: until the upgrade, it bounds how long an idle poll keeps the lock",
            )
        )
    if variant == "lock_contention":
        advice.append(Advice("code", None, "until the upgrade, time.sleep(0.001) in each turn of the poll loop", "-"))
    if variant == "native_code":
        advice.append(
            Advice("code", None, "move the native call that keeps the interpreter's lock to a process of its own", "-")
        )
    if variant == "event_loop_blocked":
        advice.append(Advice("code", None, "move blocking work out of the event loop, to a process or threads", "-"))
    return tuple(advice)


def blocked_heartbeat_advice(departure: Departure) -> tuple[Advice, ...]:
    """Return what to change for a client that sends heartbeats only between messages."""
    session = departure.session_ms
    busy = departure.silence_ms or session
    first = (
        Advice("code", None, "call heartbeat() between messages inside eachMessage or eachBatch", "-")
        if departure.client.library == KAFKAJS
        else Advice("upgrade", departure.client.version, "a client with a heartbeat thread of its own", "-")
    )
    return (
        first,
        Advice(
            "session.timeout.ms",
            str(session),
            str(min(max(_USUAL_SESSION_MS, 2 * busy), _LONGEST_SESSION_MS)),
            "2 x longest time between two heartbeats",
        ),
    )


def graceful_stop_advice(departure: Departure) -> tuple[Advice, ...]:
    """Return what to change where instances are killed without leaving their group."""
    close = "consumer.wakeup() and close()" if departure.client.library == JAVA else "consumer.close()"
    return (
        Advice("code", None, f"{close} on SIGTERM", "-"),
        Advice("terminationGracePeriodSeconds", None, "longest batch + 10 s", "max batch time + 10 s"),
        Advice("group.instance.id", None, "a stable name per instance, if restarts are short", "static membership"),
    )


def longer_static_session(session_ms: int, absence_ms: float, *, of_client: bool = True) -> Advice:
    """Return the session that outlasts a static member's longest absence; a KIP-848 group's is not its clients'."""
    proposed = min(_LONGEST_SESSION_MS, max(_USUAL_SESSION_MS, 1_000 * math.ceil(1.5 * absence_ms / 1_000)))
    return Advice(
        "session.timeout.ms" if of_client else "consumer.session.timeout.ms (of the group)",
        str(session_ms),
        str(proposed),
        "ceil(1.5 x longest absence), at most 1800000",
    )


def absent_instance_advice(session_ms: int) -> tuple[Advice, ...]:
    """Return what to change where a static instance is gone for good and its place stays until its session ends."""
    return (
        Advice("operation", None, "removeMembersFromConsumerGroup for the instance when scaling in", "-"),
        Advice(
            "session.timeout.ms",
            str(session_ms),
            "no longer than a restart needs",
            "max(45000, ceil(1.5 x p95 restart))",
        ),
        Advice("group.instance.id", None, "stable names that are used again, not one per pod", "-"),
    )

"""Settings to change, with numbers: the catalogue's formulas (§5) in one place."""

from __future__ import annotations

import math

from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.departures import Departure
from rebalance_streaming.detect.fingerprints import JAVA, KAFKA_PYTHON, LIBRDKAFKA
from rebalance_streaming.groups.events import Advice

#: What clients fetch per poll unless told otherwise (Java and kafka-python).
_DEFAULT_POLL_RECORDS = 500
_LOWEST_POLL_INTERVAL_MS = 60_000
_USUAL_SESSION_MS = 45_000


def fewer_records(limit_ms: int, batch_ms: float, records: int | None) -> Advice:
    """Return the max.poll.records that makes a batch take half of max.poll.interval.

    `batch_ms` is how long the batch took that was too long; `records` how many it may have had, null: not told.
    """
    share = 0.5 * limit_ms / max(batch_ms, limit_ms)
    formula = "max(1, floor(0.5 x max.poll.interval / seconds per record))"
    if records is not None:
        return Advice("max.poll.records", str(records), f"at most {max(1, math.floor(records * share))}", formula)
    by_default = max(1, math.floor(_DEFAULT_POLL_RECORDS * share))
    proposed = f"{share:.0%} of what it is: at most {by_default}, if that is the default of {_DEFAULT_POLL_RECORDS}"
    return Advice("max.poll.records", None, proposed, formula)


def longer_poll_interval(record_ms: float, limit_ms: int) -> Advice:
    """Return the max.poll.interval for records that take longer than half of it each."""
    proposed = max(_LOWEST_POLL_INTERVAL_MS, 1000 * math.ceil(2 * record_ms / 1000))
    return Advice(
        "max.poll.interval.ms",
        str(limit_ms),
        f"{proposed}, which is also the longest that one stuck member can hold up the group",
        "1000 x ceil(2 x longest time per record in seconds)",
    )


def poll_overrun_advice(departure: Departure, client: ClientHistory | None) -> tuple[Advice, ...]:
    """Return what to change for a member whose batch took longer than max.poll.interval."""
    limit = departure.poll_ms or 0
    away = max(0, departure.back_ms - departure.to_ms) if departure.back_ms is not None else 0
    batch_ms = float(limit + away)
    told = None if client is None else client.config.max_poll_records
    if departure.client.library == LIBRDKAFKA:
        return (
            Advice("code", None, "poll at least once per message and hand long work to a thread while paused", "-"),
            longer_poll_interval(batch_ms, limit),
        )
    advice = [fewer_records(limit, batch_ms, told)]
    if told == 1:
        advice = [longer_poll_interval(batch_ms, limit)]
    advice.append(Advice("code", None, "or hand the batch to a worker pool, pause() and keep polling", "-"))
    return tuple(advice)


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


def longer_session(session_ms: int, longest_silence_ms: int, heartbeat_ms: int) -> Advice:
    """Return the session time-out that outlasts the longest pause seen."""
    proposed = max(3 * heartbeat_ms, 2 * longest_silence_ms + heartbeat_ms, _USUAL_SESSION_MS)
    return Advice(
        "session.timeout.ms",
        str(session_ms),
        str(min(proposed, 1_800_000)),
        "max(3 x heartbeat interval, 2 x longest pause + heartbeat interval, 45000)",
    )


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
    return tuple(advice)


def blocked_heartbeat_advice(departure: Departure) -> tuple[Advice, ...]:
    """Return what to change for a client that sends heartbeats only between messages."""
    session = departure.session_ms
    busy = departure.silence_ms or session
    return (
        Advice("upgrade", departure.client.version, "a client with a heartbeat thread of its own", "-"),
        Advice(
            "session.timeout.ms",
            str(session),
            str(max(_USUAL_SESSION_MS, 2 * busy)),
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

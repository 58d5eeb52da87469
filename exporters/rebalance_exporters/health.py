"""Whether what is served can be trusted: pure functions of the picture, the reading's progress and `now`."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_exporters.view import Picture
from rebalance_streaming.groups.events import QueryStatus

#: The query whose rows make the groups; the other one (commits) may lag without making the picture wrong.
MEMBERSHIP = "membership"

_IS_IT_RUNNING = "is `rebalance-monitor stream` running?"
_TRIGGERS_WITHOUT_BATCH = 3


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """How far the reader of the output topics is.

    `read` and `wanted` count log positions from the start to the ends found at the start. `kafka_error` is the
    latest complaint of the Kafka client, null since anything was read again. `failure` is set once the reader's
    thread ended although nobody asked it to.
    """

    missing_topics: tuple[str, ...] = ()
    read: int = 0
    wanted: int = 0
    loaded: bool = False
    kafka_error: str | None = None
    kafka_errors: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Readiness:
    """The verdict and one line that says what is awaited."""

    ready: bool
    text: str


def judge_readiness(picture: Picture, progress: ReadProgress, now_ms: int, stale_after_seconds: float) -> Readiness:
    """Ready means: the picture is loaded, and the stream of every cluster seen is caught up and alive."""
    awaited = _judge_reading(progress) or _judge_streams(picture, now_ms, stale_after_seconds)
    if awaited is None:
        return Readiness(True, "ready")
    if progress.kafka_error is not None:
        awaited = f"{awaited} (Kafka says: {progress.kafka_error})"
    return Readiness(False, " ".join(awaited.split()))


def status_age_seconds(status: QueryStatus, now_ms: int) -> float:
    """Return how old a status is; never negative, whatever two clocks think of each other."""
    return max(0, now_ms - status.updated_at_ms) / 1000


def _judge_reading(progress: ReadProgress) -> str | None:
    if progress.failure is not None:
        return f"the reader stopped: {progress.failure}; restart the exporter"
    if progress.missing_topics:
        names = ", ".join(progress.missing_topics)
        return f"waiting for topic {names}: `rebalance-monitor stream` creates what is missing"
    if not progress.loaded and not progress.wanted:
        return "asking Kafka for the stream's topics"
    if not progress.loaded:
        return f"reading the picture: {progress.read:,} of {progress.wanted:,}"
    return None


def _judge_streams(picture: Picture, now_ms: int, stale_after_seconds: float) -> str | None:
    membership = {status.cluster: status for status in picture.queries if status.query == MEMBERSHIP}
    clusters = sorted({status.cluster for status in picture.queries} | {cluster for cluster, _ in picture.groups})
    if not clusters:
        return f"no word from the stream yet: {_IS_IT_RUNNING}"
    for cluster in clusters:
        if cluster not in membership:
            return f"no word yet from the stream of cluster {cluster}: {_IS_IT_RUNNING}"
        awaited = _judge_stream(membership[cluster], now_ms, stale_after_seconds)
        if awaited is not None:
            return f"{awaited} [cluster {cluster}]"
    return None


def _judge_stream(status: QueryStatus, now_ms: int, stale_after_seconds: float) -> str | None:
    age = status_age_seconds(status, now_ms)
    if age > stale_after_seconds:
        return f"no batch for {age:.0f} s: {_IS_IT_RUNNING}"
    if not status.caught_up:
        behind = "" if status.source_lag_records is None else f": {status.source_lag_records:,} log positions behind"
        return f"stream not caught up{behind}"
    # A query may hang while its process still reports: then its last batch ages and its status does not.
    patience = max(stale_after_seconds, _TRIGGERS_WITHOUT_BATCH * status.trigger_ms / 1000)
    if status.last_batch_at_ms is not None and now_ms - status.last_batch_at_ms > patience * 1000:
        return (
            f"no batch for {(now_ms - status.last_batch_at_ms) / 1000:.0f} s: the stream reports but does not advance"
        )
    return None

"""The recorder: writes every record of the monitored topics as a JSON line that `replay` reads.

It reads like the stream: offset commits read-committed, all other records read-uncommitted. It joins no consumer group.
Lines are in order of arrival; within a partition, commits are in offset order, and so are all other records.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import msgspec
from confluent_kafka import KafkaError, KafkaException

from rebalance_kafka.clock import epoch_ms
from rebalance_kafka.follower import LEADER_IS_AWAITED, Follower, Record
from rebalance_kafka.positions import Positions, start_at_beginning, start_at_end
from rebalance_kafka.properties import LIBRDKAFKA
from rebalance_streaming.errors import StreamError
from rebalance_streaming.wire.records import OFFSET_COMMIT_PREFIXES

#: Timestamp of a record without one, as in Kafka clients.
_NO_TIME = -1


@dataclass(slots=True)
class RecordProgress:
    """Progress of a recording, for display by another thread.

    `share` is the share of the records that existed at the start that has been read, 0 to 1; null before it is known.
    """

    records: int = 0
    share: float | None = None


def record(
    kafka: Mapping[str, str],
    offsets_topic: str,
    other_topics: Iterable[str],
    *,
    from_beginning: bool,
    to_end: bool,
    stop: threading.Event,
    progress: RecordProgress | None = None,
) -> Iterator[bytes]:
    """Yield one JSON line per record until `stop` is set or, with `to_end`, the ends found at the start are reached.

    Topics in `other_topics` that do not exist yet are recorded once they do. Raises StreamError if the cluster cannot
    be read. `progress` is updated meanwhile.
    """
    progress = progress or RecordProgress()
    wanted = dict.fromkeys((offsets_topic, *other_topics))
    with closing(_follow(kafka, wanted, from_beginning, "read_uncommitted")) as groups:
        if offsets_topic in groups.missing:
            raise StreamError(f"there is no topic {offsets_topic} on this cluster yet: no group has ever committed")
        with closing(_follow(kafka, (offsets_topic,), from_beginning, "read_committed")) as commits:
            while not stop.is_set() and not (to_end and groups.at_end and commits.at_end):
                others = [each for each in groups.poll() if each.topic != offsets_topic or not _is_commit(each)]
                yield from map(_line, others)
                committed = [each for each in commits.poll() if _is_commit(each)]
                yield from map(_line, committed)
                progress.records += len(others) + len(committed)
                progress.share = _share(groups.positions, commits.positions)


def _follow(kafka: Mapping[str, str], topics: Iterable[str], from_beginning: bool, isolation: str) -> Follower:
    """Return a follower that has found its topics. Raises StreamError if the cluster cannot be read."""
    start = start_at_beginning if from_beginning else start_at_end
    try:
        isolated = {**kafka, f"{LIBRDKAFKA}isolation.level": isolation}
        follower = Follower(isolated, topics, name="record", start=start, on_error=_refuse_lasting)
        follower.look()
    except KafkaException as error:
        servers = kafka.get("bootstrap.servers", "")
        raise StreamError(f"cannot read from {servers}: {error.args[0].str()}") from None
    return follower


def _refuse_lasting(error: KafkaError, topic: str | None) -> None:
    """Raise StreamError for lasting errors of a topic; unavailable brokers and missing leaders are temporary.

    `error.retriable()` cannot be used, because the client sets it only for errors of requests.
    """
    if topic is not None and error.code() not in LEADER_IS_AWAITED:
        raise StreamError(f"cannot read {topic}: {error.str()}")


def _share(*several: Positions) -> float:
    wanted = sum(each.wanted for each in several)
    return sum(each.read for each in several) / wanted if wanted else 1.0


def _is_commit(record: Record) -> bool:
    return record.key is not None and record.key[:2] in OFFSET_COMMIT_PREFIXES


def _line(record: Record) -> bytes:
    return msgspec.json.encode(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": _NO_TIME if record.timestamp_ms is None else record.timestamp_ms,
            "received_at_ms": epoch_ms(),
            "key_hex": _hex(record.key),
            "value_hex": _hex(record.value),
            "headers": [(name, _hex(value)) for name, value in record.headers],
        }
    )


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()

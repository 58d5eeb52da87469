"""Made-up client metrics: mutated golden values of all formats, and well-formed reports with impossible numbers.

    python -m fuzz.reports SECONDS [SEED]

decodes, packs, judges and shows such values for this much processor time (with `tests` and the source roots on
PYTHONPATH). It stops at the first value that makes anything fail, or that takes more than 50 ms per 100 kB to decode,
and prints its seed.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from fuzz.timing import share_of_time, unless_busy
from goldens import FOLDER
from histories import CLUSTER, GROUP, MINUTE, SECOND, T0, commits, lost, member, probe, snapshot, unpacked
from rebalance_contract import ClientActivity, decode, encode
from rebalance_contract.clients import CLIENT_VALUES
from rebalance_exporters.state.view import Row, View
from rebalance_streaming.activity.clients import FAILED, TOO_SLOW, MetricRecord, pack_messages
from rebalance_streaming.activity.rows import MAX_PACKED_BYTES
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import Input, Output, address
from rebalance_streaming.wire.metrics.errors import UndecodableError
from rebalance_streaming.wire.metrics.formats import FORMATS, decode_metrics

GOLDEN = {
    path.name: path.read_bytes() for path in sorted((FOLDER / "client-metrics").iterdir()) if path.suffix != ".md"
}

EXTREMES: tuple[Any, ...] = (
    *(0, 0.0, -0.0, 1, -1, 1e-300, 5e-324, 1e308, -1e308, float("inf"), float("-inf"), float("nan")),
    *(2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**30), 253402300799999),
    *("NaN", "Infinity", "-Infinity", "1e400", "0", "-1", "", "\x00", "x" * 40_000, "²", None, True, [], {}, [[]]),
)
USUAL: tuple[Any, ...] = (1, 2, 500, 3_000, 10_000, 45_000, 300_000, 0.33, 12.5)
SETTINGS = (
    *("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms", "max_poll_records"),
    *("fetch_max_wait_ms", "metadata_max_age_ms", "request_timeout_ms", "auto_commit_interval_ms", "group_protocol"),
)
LIBRARIES = ("kafka-python", "confluent-kafka", "apache-kafka-java", "aiokafka", "sarama", "kafkajs", None)
MEMBERS = tuple(member(f"{name}-1", [number]) for number, name in enumerate(("a", "b", "consumer-g-1")))
LOST_MS = T0 + MINUTE


def mutated(chance: random.Random, value: bytes) -> bytes:
    """Return a value with bytes changed, cut out, doubled or moved."""
    raw = bytearray(value)
    for _ in range(chance.randint(1, 6)):
        start = chance.randrange(len(raw) + 1)
        piece = raw[start : start + chance.choice((1, 2, 8, 64))]
        raw[start : start + len(piece)] = chance.choice(
            (
                b"",
                piece * 2,
                piece * 50,
                chance.randbytes(len(piece)),
                chance.choice((b"[", b"{", b"\xff", b"9" * 30, b"-")),
            )
        )
    return bytes(raw)


def altered(chance: random.Random, node: Any, share: float) -> Any:
    """Return a document with some of its leaves replaced by values that no client sends."""
    if isinstance(node, dict):
        return {key: altered(chance, child, share) for key, child in node.items() if chance.random() > share / 10}
    if isinstance(node, list):
        return [altered(chance, child, share) for child in node]
    return chance.choice(EXTREMES) if chance.random() < share else node


def report(chance: random.Random, at_ms: int, who: int) -> bytes:
    """Return a well-formed report of one of the members; each of its numbers is usual with probability one half."""

    def number() -> Any:
        return chance.choice(EXTREMES if chance.random() < 0.3 else USUAL)

    def moment() -> Any:
        return number() if chance.random() < 0.2 else at_ms - chance.choice((0, 1, 5_000, 200_000, 400_000))

    metrics = {name: number() for name in CLIENT_VALUES if chance.random() < 0.7}
    each = MEMBERS[who]
    document = {
        "schema": "rebalance-monitor/client-metrics/1",
        "emitted_ms": moment(),
        "interval_ms": number(),
        "tick_late_ms": number(),
        "seq": number(),
        "process": {"host": each.host, "start_ms": moment(), "pid": number(), "cpu_s": number()},
        "client": {
            "client_id": each.client_id,
            "group_id": chance.choice((GROUP, None, GROUP)),
            "member_id": chance.choice((each.member_id, None)),
            "library": chance.choice(LIBRARIES),
            "version": chance.choice(("1.4.6", "2.0.2", "", "x", None)),
            "config": {name: number() for name in SETTINGS if chance.random() < 0.8},
        },
        "app": {"last_poll_return_ms": moment(), "waiting_since_ms": chance.choice((None, moment()))},
        "metrics": {"consumer-metrics": metrics},
    }
    if chance.random() < 0.3:
        document["statistics"] = altered(chance, json.loads(GOLDEN["librdkafka-classic.json"]), 0.05)
    return json.dumps(document).encode()


def any_value(chance: random.Random) -> bytes:
    """Return a value of any format, with changed bytes or changed meaning."""
    value = chance.choice(list(GOLDEN.values()))
    if value[:1] in (b"{", b"[") and chance.random() < 0.6:
        return json.dumps(altered(chance, json.loads(value), chance.choice((0.02, 0.2, 0.8)))).encode()
    return mutated(chance, value)


def check_decoding(chance: random.Random) -> float:
    """Decode one made-up value; only UndecodableError is allowed. Return the share of the allowed time."""
    value, pinned = any_value(chance), chance.choice((None, None, *FORMATS))
    return share_of_time(lambda: _decode(value, pinned), value, "decoding")


def _decode(value: bytes, pinned: str | None) -> None:
    try:
        for each in decode_metrics(value, T0, pinned=pinned):
            assert all(point.value is None or 0 <= point.value < 1e20 for point in each.points)
    except UndecodableError as error:
        assert error.reason  # noqa: PT017 - both outcomes are right


def check_judging(chance: random.Random, messages: int = 12) -> None:
    """Let made-up clients report on a group that loses a member, judge it, and show the result.

    Nothing may fail or be quarantined, the size of rows stays bounded, and the exporter accepts all of them.
    """
    said: list[str] = []
    engine = Engine(
        EngineConfig(cluster=CLUSTER, source_topic="__consumer_offsets", detect=DetectConfig()), said.append
    )
    view = View(group_expiry_seconds=3600, keep_rebalances=3)
    engine.apply(snapshot(T0, *MEMBERS), T0)
    for number in range(messages):
        at_ms = T0 + number * 10 * SECOND
        reported: list[Input] = [
            *(decode(encode(row), ClientActivity) for row in _rows(chance, at_ms)),
            commits(at_ms, {0: number, 1: 7, 2: number}),
            *unpacked(probe(at_ms, "Stable", MEMBERS, ends={0: number * 10, 1: number * 9, 2: number})),
        ]
        if at_ms == LOST_MS:
            reported += [lost(at_ms - 5_000, MEMBERS[1], MEMBERS), snapshot(at_ms, MEMBERS[0], MEMBERS[2])]
        for row in reported:
            engine.apply(row, at_ms)
        publish(view, engine.advance(at_ms))
    publish(view, engine.finish(LOST_MS + messages * 10 * SECOND))
    assert not said


def publish(view: View, rows: Iterable[Output]) -> None:
    """Feed an exporter with the rows that the diagnosis publishes; it rejects none of them."""
    view.apply([Row(topic, key.encode(), value) for topic, key, value in map(address, rows)])
    assert not [kind for kind, count in view.fleet().refused.items() if count]


def _rows(chance: random.Random, at_ms: int) -> Iterator[ClientActivity]:
    values = [report(chance, at_ms, who) for who in range(len(MEMBERS))]
    values.append(any_value(chance))
    sent = [MetricRecord("m", value, chance.choice((at_ms, at_ms, -1, 2**62))) for value in values]
    packed = pack_messages(sent, {}, cluster=CLUSTER, pane_ms=5 * SECOND, now_ms=at_ms)
    assert sum(packed.counts.values()) == len(values)
    assert not {outcome for _, outcome in packed.counts} & {FAILED, TOO_SLOW}, packed.counts
    for _, row in packed.rows:
        assert len(encode(row)) <= MAX_PACKED_BYTES
        yield row


def run(seconds: float, seed: int) -> tuple[int, float]:
    """Run for this much processor time from a seed; return the number of values, and the largest share of time.

    Raises the first exception that any of them raises.
    """
    ends, first, slowest = time.process_time() + seconds, seed, 0.0
    while time.process_time() < ends:
        try:
            for _ in range(20):
                seed += 1
                slowest = max(slowest, unless_busy(lambda: check_decoding(random.Random(seed))))  # noqa: B023
            check_judging(random.Random(seed), messages=30)
        except BaseException:
            sys.stdout.write(f"seed {seed}\n")
            raise
    return seed - first, slowest


if __name__ == "__main__":
    tried, slowest = run(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sys.stdout.write(f"{tried} values, nothing failed, slowest {slowest:.0%} of its time\n")

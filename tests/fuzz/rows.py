"""Made-up rows of the monitor's own topics: valid ones, with changed bytes or changed meaning.

    python -m fuzz.rows SECONDS [SEED]

feeds such rows to the exporter's view, and to the engine as the diagnosis does, for this much processor time (with
`tests` and the source roots on PYTHONPATH), and shows and judges the result. The first row that makes anything fail, or
that takes more than 50 ms per 100 kB, is written to standard output with its seed.
"""

from __future__ import annotations

import copy
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from exporters.contract_rows import NOW_MS
from exporters.test_mutated_rows import NAMES, ROWS, VALUES, places, show_everything
from fuzz.reports import EXTREMES, mutated, publish
from fuzz.timing import share_of_time, unless_busy
from histories import (
    CLUSTER,
    GROUP,
    MINUTE,
    SECOND,
    T0,
    commits,
    lost,
    member,
    packed,
    probe,
    report,
    snapshot,
    unpacked,
)
from rebalance_contract import ContractError, CountActivity, encode
from rebalance_contract.clients import HEARTBEAT_AGE
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.state.view import View
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import decode_input

MEMBERS = tuple(member(f"{name}-1", [number]) for number, name in enumerate("abc"))
LOST_MS = T0 + MINUTE
#: Approximate size of the largest generated row.
_LARGE_BYTES = 200_000
#: Limit of the address space of the whole process.
_MOST_BYTES = 3 * 2**30

#: Topic by its short name, key, value.
Sent = tuple[str, bytes, bytes]


def rows_for_the_engine(at_ms: int) -> list[Sent]:
    """Return a valid row of each kind that the diagnosis reads."""
    reported = [
        *unpacked(probe(at_ms, "Stable", MEMBERS, ends={0: 10, 1: 9, 2: 8}, stable={0: 10, 1: 9, 2: 8})),
        commits(at_ms, {0: 1, 1: 7, 2: None}),
        packed(report(at_ms, MEMBERS[1], {HEARTBEAT_AGE: 1.5})),
        CountActivity(CLUSTER, "__consumer_offsets", 7, at_ms, ((1, 3, "decoded", 5),)),
    ]
    group = f"{CLUSTER}/{GROUP}".encode()
    return [
        ("groups", group, encode(snapshot(at_ms, *MEMBERS))),
        ("rebalances", group + b"/r", encode(lost(at_ms, MEMBERS[1], MEMBERS))),
        *(("activity", GROUP.encode(), encode(each)) for each in reported),
    ]


def changed(chance: random.Random, value: bytes) -> bytes:
    """Return a row with some values or bytes changed."""
    if chance.random() < 0.2:
        return mutated(chance, value)
    document = json.loads(value)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        container, key = chance.choice([*places(document)])
        what = chance.random()
        if what < 0.7:
            container[key] = copy.deepcopy(chance.choice((*VALUES, *EXTREMES)))
        elif what < 0.8:
            del container[key]
        elif what < 0.9:
            repeat(chance, container, key)
        elif isinstance(container, dict):
            container[chance.choice(NAMES)] = copy.deepcopy(container[key])
        if not document:
            break
    return json.dumps(document).encode()


def repeat(chance: random.Random, container: Any, key: Any) -> None:
    """Make a list, or the names in an object, very long."""
    inner = container[key]
    room = chance.choice((2, 100, _LARGE_BYTES // (len(json.dumps(inner)) + 20)))
    if isinstance(inner, list) and inner:
        container[key] = [copy.deepcopy(inner[number % len(inner)]) for number in range(room)]
    elif isinstance(inner, dict) and inner:
        values = list(inner.values())
        inner |= {str(number): copy.deepcopy(values[number % len(values)]) for number in range(room)}


def check_view(chance: random.Random, count: int = 5) -> float:
    """Let an exporter read rows, and render everything after each; return the largest share of the allowed time."""
    view = View(group_expiry_seconds=3600, keep_rebalances=3)
    exposition = Exposition(limit_groups=9, version="1", collect_partitions=True, collect_members=True)
    view.apply(ROWS)
    slowest = 0.0
    for _ in range(count):
        row = chance.choice(ROWS)
        assert row.value is not None
        other = row._replace(value=changed(chance, row.value), at_ms=chance.choice((None, 0, -1, 2**62, NOW_MS)))
        slowest = max(slowest, share_of_time(lambda: view.apply([other]), other.value, f"view, {row.topic}"))  # noqa: B023
        show_everything(view, exposition, NOW_MS + chance.choice((0, 5_000, 60_000, -60_000)))
        defects = [kind for kind, n in view.fleet().refused.items() if kind[1] == "failed" and n]
        assert not defects, other
    return slowest


def check_engine(chance: random.Random, count: int = 12) -> tuple[float, Counter[str]]:
    """Let a diagnosis read rows among valid ones, and judge; return the same share, and quarantined by reason."""
    said: list[str] = []
    engine = Engine(
        EngineConfig(cluster=CLUSTER, source_topic="__consumer_offsets", detect=DetectConfig()), said.append
    )
    view, slowest = View(group_expiry_seconds=3600, keep_rebalances=3), 0.0
    for number in range(count):
        at_ms = LOST_MS + number * 10 * SECOND
        right = rows_for_the_engine(at_ms)
        topic, key, value = chance.choice(right)
        odd = (topic, key, changed(chance, value))
        slowest = max(slowest, share_of_time(lambda: take(engine, [odd], at_ms), odd[2], f"engine, {topic}"))  # noqa: B023
        take(engine, right, at_ms)
        publish(view, engine.advance(at_ms + chance.choice((0, 1, 5)) * SECOND))
    # A row for which memory ran out was quarantined like any other; with more memory it is accepted.
    assert not [line for line in said if "MemoryError" in line], said
    return slowest, Counter(line.partition("): ")[0] for line in said)


def take(engine: Engine, rows: Iterable[Sent], at_ms: int) -> None:
    """Feed rows as the diagnosis process does."""
    for topic, key, value in rows:
        try:
            row = decode_input(topic, key, value)
        except ContractError:
            continue
        if row is not None:
            engine.apply(row, at_ms)


def check(seed: int) -> tuple[float, Counter[str]]:
    """Try view and engine once."""
    of_view = check_view(random.Random(seed))
    of_engine, aside = check_engine(random.Random(seed))
    return max(of_view, of_engine), aside


def run(seconds: float, seed: int) -> tuple[int, float, Counter[str]]:
    """Run for this much processor time from a seed; return rounds, largest share, and quarantined counts by reason."""
    ends, first, slowest, aside = time.process_time() + seconds, seed, 0.0, Counter[str]()
    while time.process_time() < ends:
        seed += 1
        try:
            share, reported = unless_busy(lambda: check(seed))  # noqa: B023
        except BaseException:
            sys.stdout.write(f"seed {seed}\n")
            raise
        slowest, aside = max(slowest, share), aside + reported
    return seed - first, slowest, aside


if __name__ == "__main__":
    # With this limit a row that takes gigabytes fails with its seed; otherwise the kernel kills the process silently.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    tried, slowest, aside = run(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sys.stdout.write(f"{tried} rounds, nothing escaped, slowest {slowest:.0%} of its time; set aside: {dict(aside)}\n")

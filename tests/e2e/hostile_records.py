"""How the monitor handles a log that contains garbage, and a group that is deleted and created again."""

import random
import struct
from collections import Counter
from collections.abc import Iterator
from functools import partial

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from e2e.pages import page
from e2e.rig import DEADLINE_SECONDS, Watched, count_log, kind_of, query_of
from rebalance_deploy.broker_log import GroupTruth, read_truth
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_devtools.bench import fill
from rebalance_streaming.wire.partitioner import partition_for_group
from rebalance_streaming.wire.records import OFFSETS_TOPIC
from waiting import wait_for as wait_up_to

HOSTILE_RECORDS = 1_000
HEALTHY, RETURNING = "healthy", "returning"

Record = tuple[bytes, bytes | None]

#: The monitor may show a thousand partitions beside these groups, so that reading its page takes a while.
wait_for = partial(wait_up_to, seconds=DEADLINE_SECONDS, every=0.5)


def spec(group: str, name: str) -> ConsumerSpec:
    """Return the specification of a consumer whose session outlives a pause of the machine."""
    return ConsumerSpec("confluent-kafka", group, "orders", name, session_timeout_ms=45_000)


def hostile_records(seed: int) -> Iterator[Record]:
    """Yield records that no broker writes: truncated, random, of wrong versions, with absurd lengths, empty, unknown.

    None has a null key, which a broker rejects for a compacted topic.
    """
    chance = random.Random(seed)
    sound = [
        (fill.group_key("foreign"), fill.group_value(3, 4, 1_700_000_000_000)),
        (fill.commit_key("foreign", "orders", 1), fill.commit_value(7, 1_700_000_000_000)),
    ]
    while True:
        key, value = chance.choice(sound)
        cut = chance.randrange(len(value))
        yield from (
            (key, value[:cut]),
            (key, value + chance.randbytes(chance.randrange(1, 9))),
            (key, struct.pack(">h", chance.choice([-1, -32768, 9, 32767])) + value[2:]),
            (key, value[:2] + b"\x7f\xff\xff\xff" + value[6:]),
            (key, value[:2] + b"\xff\xff" + value[4:]),
            (key[: chance.randrange(len(key))], value),
            (chance.randbytes(chance.randrange(1, 40)), chance.randbytes(chance.randrange(60))),
            (struct.pack(">h", chance.choice([18, 24, 900, -5])) + chance.randbytes(8), value),
            (b"", value),
            (key, b""),
            (struct.pack(">hh", 2, 30_000) + b"g", None),
            (key, None),
            (key, value),
            (struct.pack(">hi", 5, chance.randrange(2**31)), chance.randbytes(20)),
        )


def write_to_offsets_topic(bootstrap: str, records: list[Record], partition: int) -> None:
    """Write with the client id of the broker's own admin tool, the only one allowed to write to internal topics."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client", "log_level": 0})
    refused: list[object] = []
    for key, value in records:
        producer.produce(
            OFFSETS_TOPIC, value, key, partition, on_delivery=lambda error, _: error and refused.append(error)
        )
    assert producer.flush(120) == 0
    assert not refused


def hold_hostile_records_distort_nothing(rig: Watched, *others: str) -> None:
    """Write 1,000 garbage records: each is counted, the monitor stays ready, a healthy group is right.

    They are written to partitions without records of that group or of the broker's other present and future groups: a
    coordinator that finds foreign records beside its own reloads its partition, and may fail to.
    """
    rig.start(spec(HEALTHY, "h1"))
    wait_for(lambda: rig.counts().get(HEALTHY) == rig.expected_counts()[HEALTHY], "the healthy group")
    found = hostile_records(seed=7)
    records = [next(found) for _ in range(HOSTILE_RECORDS)]
    admin = AdminClient({"bootstrap.servers": rig.broker.bootstrap, "log_level": 0})
    partitions = len(admin.list_topics(OFFSETS_TOPIC, timeout=60).topics[OFFSETS_TOPIC].partitions)
    own = {partition_for_group(group, partitions) for group in (HEALTHY, RETURNING, *others)}
    partition = next(each for each in range(partitions) if each not in own)
    write_to_offsets_topic(rig.broker.bootstrap, records, partition)
    expected = Counter(kind_of(query_of(key), key, value) for key, value in records)
    assert {outcome for *_, outcome in expected} == {"corrupt", "unsupported", "tombstone", "decoded"}

    # Groups of other tests may continue meanwhile, so the totals are compared with two reads of the log: they include
    # everything of the earlier read and nothing beyond the later one.
    written = count_log(rig.broker.bootstrap)
    assert not expected - written
    wait_for(
        lambda: not written - rig.record_totals(),
        lambda: f"every record to be counted, as {written - rig.record_totals()}",
    )
    reported = rig.record_totals()
    assert not reported - count_log(rig.broker.bootstrap)

    rig.start(spec(HEALTHY, "h2"))
    wait_for(lambda: rig.counts().get(HEALTHY) == rig.expected_counts()[HEALTHY], "the rebalance after the flood")
    assert page(f"{rig.url}/-/ready")


def hold_a_deleted_group_goes_on_counting(rig: Watched) -> None:
    """Check that deleting a group resets its generation but no total."""
    member = spec(RETURNING, "r1")
    rig.start(member)
    rig.leave(member)
    wait_for(lambda: rig.counts().get(RETURNING) == rig.expected_counts()[RETURNING], "two rebalances")
    before = rig.counts()[RETURNING].completed
    assert before >= 2
    admin = AdminClient({"bootstrap.servers": rig.broker.bootstrap, "log_level": 0})
    admin.delete_consumer_groups([RETURNING])[RETURNING].result(120)
    wait_for(lambda: rig.counts()[RETURNING].generation == 0, "the deletion to be seen")
    assert rig.counts()[RETURNING].completed == before
    written = rig.broker.log_path.stat().st_size

    def returned() -> GroupTruth:
        lines = rig.broker.log_path.read_bytes()[written:].decode(errors="replace").splitlines()
        return read_truth(lines).get(RETURNING, GroupTruth())

    def is_counted() -> bool:
        # One rebalance, unless the member's session expires on a stalled machine.
        truth, counts = returned(), rig.counts()[RETURNING]
        same = (counts.generation, counts.completed) == (truth.generation, before + len(truth.completed))
        return bool(truth.completed) and same

    rig.clients[member.client_id] = rig.spawn(member)
    wait_for(is_counted, lambda: f"the return to be counted, {returned()} after {before}: {rig.counts()[RETURNING]}")
    assert 1 in returned().completed

"""Observes a running stream from outside: its processes, status, batches and findings."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from e2e.rig import DEADLINE_SECONDS, Rig, count_log, family, read_topic, samples
from faults.churn import Churn
from faults.reporting import IS_FULL, Figures
from rebalance_contract import (
    ContractError,
    DiagnosisStatus,
    Finding,
    QueryStatus,
    Rebalance,
    ReportTotals,
    Status,
    decode,
    decode_status,
)
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.checkpoint import query_path
from waiting import wait_for

CONFIG = StreamConfig()
#: Suffixes of counter names.
_COUNTERS = ("_total", "_sum", "_count", "_bucket")
#: Counters of groups that begin at 0 at each start of an exporter, because the exporter itself counts them.
COUNTED_BY_EXPORTERS = ("kafka_rebalance_state_seconds_total", "kafka_rebalance_findings_total")
_LOOK_SECONDS = 0.3
#: A fault may cost this much time after its end.
_BACK_SECONDS = 30.0
_T = TypeVar("_T")


def processes(rig: Rig, what: str) -> list[int]:
    """Return the processes of the stream with this word in their command line."""
    found = []
    for pid in family(rig.monitor.stream.process.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if what in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


def jvm_of(rig: Rig) -> int:
    """Return the process of Spark's driver."""
    return wait_for(lambda: processes(rig, "org.apache.spark.deploy.SparkSubmit"), "the driver's JVM")[0]


def diagnosis_of(rig: Rig) -> int:
    """Return the process of the diagnosis."""
    (pid,) = wait_for(lambda: processes(rig, "rebalance_streaming.diagnosis.worker"), "the diagnosis' process")
    return pid


def worker_of(rig: Rig) -> int:
    """Return a Python worker of Spark, waiting until there is one."""

    def workers() -> list[int]:
        daemons = _daemons(rig)
        return [pid for pid in daemons if _parent_of(pid) in daemons]

    return wait_for(workers, "a Python worker")[-1]


def parents_of_workers(rig: Rig) -> list[int]:
    """Return the processes from which Spark forks its Python workers."""
    daemons = _daemons(rig)
    return [pid for pid in daemons if _parent_of(pid) not in daemons]


def _daemons(rig: Rig) -> list[int]:
    return processes(rig, "rebalance_streaming.spark.worker_daemon")


def _parent_of(pid: int) -> int | None:
    """Return the parent of a process, or null if it has exited."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4_096


def statuses(rig: Rig) -> list[Status]:
    """Return the latest of each status that the stream published."""
    return _statuses(dict(read_topic(rig.broker.bootstrap, CONFIG.status_topic)).values())


def all_statuses(rig: Rig) -> list[Status]:
    """Return every status still in the topic, in order within a partition only."""
    return _statuses(value for _, value in read_topic(rig.broker.bootstrap, CONFIG.status_topic))


def _statuses(values: Iterable[bytes | None]) -> list[Status]:
    found: list[Status] = []
    for value in values:
        with contextlib.suppress(ContractError):
            found.append(decode_status(value or b""))
    return [each for each in found if each.cluster == CONFIG.cluster]


def restarts(rig: Rig) -> dict[str, int]:
    """Return the number of restarts of each query."""
    return {each.query: each.restarts for each in statuses(rig) if isinstance(each, QueryStatus)}


def await_log_read(rig: Rig, until_ms: int) -> None:
    """Wait until the published groups include everything that the log contained at a time."""

    def read_until_ms() -> int:
        found = [each for each in statuses(rig) if isinstance(each, QueryStatus) and each.query == "membership"]
        return max((each.read_until_ms for each in found), default=0)

    wait_for(lambda: read_until_ms() > until_ms, "the membership to have read the log", DEADLINE_SECONDS)


def judged_at_ms(rig: Rig) -> int:
    """Return the time of the latest status in which the diagnosis was healthy."""
    return max((each.updated_at_ms for each in statuses(rig) if isinstance(each, DiagnosisStatus)), default=0)


def await_judgement(rig: Rig) -> None:
    """Wait until the diagnosis has reported twice more that it is healthy, so that everything read before is judged."""
    now = judged_at_ms(rig)
    wait_for(lambda: judged_at_ms(rig) > now + 2_000, "the diagnosis to go on", 240, every=0.5)


def set_aside(rig: Rig) -> Counter[tuple[str, str]]:
    """Return the number of rows, groups or rules that the diagnosis quarantined, by stage and reason."""
    found = [each for each in statuses(rig) if isinstance(each, DiagnosisStatus)]
    return Counter({(each.stage, each.reason): each.count for one in found for each in one.quarantined})


def report_outcomes(rig: Rig, topic: str) -> Counter[str]:
    """Return the number of messages of a topic of client metrics, or of probes, by outcome."""
    totals = [each for each in statuses(rig) if isinstance(each, ReportTotals)]
    return Counter({each.outcome: each.count for one in totals for each in one.reports if each.topic == topic})


def open_findings(rig: Rig) -> dict[str, str]:
    """Return the rule of each firing finding, by finding id."""
    latest: dict[bytes | None, Finding] = {}
    for key, value in read_topic(rig.broker.bootstrap, CONFIG.findings_topic):
        with contextlib.suppress(ContractError):
            latest[key] = decode(value or b"", Finding)
    return {each.finding_id: each.rule for each in latest.values() if each.state == "firing"}


def decoded_rows(rig: Rig, topic: str, kind: type[_T]) -> Iterator[_T]:
    """Yield the latest row of each key of a topic, if it is of this kind."""
    for value in dict(read_topic(rig.broker.bootstrap, topic)).values():
        with contextlib.suppress(ContractError):
            yield decode(value or b"", kind)


def causes_of(rig: Rig, group: str) -> set[str]:
    """Return the rebalances of a group that have a published cause."""
    found = decoded_rows(rig, CONFIG.findings_topic, Finding)
    return {name for each in found if each.group == group and each.primary for name in each.rebalance_ids}


def rebalances_of(rig: Rig, group: str) -> set[str]:
    """Return the rebalances of a group."""
    return {each.rebalance_id for each in decoded_rows(rig, CONFIG.rebalances_topic, Rebalance) if each.group == group}


def total(rig: Rig, name: str, **labels: str) -> float:
    """Return the sum of the samples of one of the monitor's own series that have these labels."""
    return sum(
        value
        for each, found, value in samples(rig.monitor.url)
        if each == f"kafka_rebalance_monitor_{name}" and labels.items() <= found.items()
    )


def end_of(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Return the offset that the next record of a partition will get."""
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    place = TopicPartition(topic, partition)
    return int(admin.list_offsets({place: OffsetSpec.latest()})[place].result(30).offset)


def await_first_row(rig: Rig, topic: str) -> None:
    """Return when the next new row of a topic is written, with a delay of a few milliseconds."""
    settings = {
        "bootstrap.servers": rig.broker.bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 10,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, end_of(rig.broker.bootstrap, topic))])
    wait_for(lambda: consumer.poll(0.01), f"a row of {topic}", DEADLINE_SECONDS, every=0)
    consumer.close()


def running_batch(rig: Rig, query: str) -> int | None:
    """Return the batch that a query has begun and not committed, or null between two batches."""
    home = Path(query_path(str(rig.directory / "checkpoint"), query))
    # In this order: a batch that is committed in between is not mistaken for a running one.
    begun, done = _last_batch(home / "offsets"), _last_batch(home / "commits")
    return begun if begun > done else None


def _last_batch(folder: Path) -> int:
    names = (each.name for each in folder.iterdir()) if folder.exists() else ()
    return max((int(name) for name in names if name.isdigit()), default=-1)


def assert_counted(rig: Rig, *groups: str) -> None:
    """Wait until /metrics agrees with the broker's log for these groups, and every record was counted once."""
    assert_groups_counted(rig, *groups)
    assert_records_counted(rig)


def assert_groups_counted(rig: Rig, *groups: str) -> None:
    """Wait until /metrics agrees with the broker's log for these groups."""
    wait_for(
        lambda: _of(rig.counts(), groups) == _of(rig.expected_counts(), groups),
        lambda: f"/metrics {_of(rig.counts(), groups)} to be what the broker's log says: {rig.expected_counts()}",
        DEADLINE_SECONDS,
        every=0.5,
    )


def assert_records_counted(rig: Rig) -> None:
    """Wait until every record of the log was counted once."""
    wait_for(
        lambda: rig.record_totals() == count_log(rig.broker.bootstrap),
        lambda: f"every record to be counted: {rig.record_totals()} are not {count_log(rig.broker.bootstrap)}",
        DEADLINE_SECONDS,
        every=0.5,
    )


def note_back(figures: Figures, since: float) -> None:
    """Note that the monitor is back after a fault that ended at a monotonic time; in `make faults`, not too late."""
    seconds = time.monotonic() - since
    figures.note("back after", seconds, "s")
    assert not IS_FULL or seconds <= _BACK_SECONDS, f"{seconds:.1f} s"


def await_back(rig: Rig, churn: Churn, figures: Figures) -> None:
    """Wait, from the end of a fault, until clients have rebalanced and /metrics counts all records up to then."""
    since = time.monotonic()
    churn.await_cycles()
    wanted = count_log(rig.broker.bootstrap)
    wait_for(
        lambda: (found := rig.record_totals()) and all(found[kind] >= count for kind, count in wanted.items()),
        lambda: f"every record to be counted: {rig.record_totals()} are not {wanted}",
        DEADLINE_SECONDS,
        every=0.2,
    )
    note_back(figures, since)


def _of(counts: dict[str, object], groups: Iterable[str]) -> dict[str, object]:
    return {group: counts.get(group) for group in groups}


@contextlib.contextmanager
def watching_counters(rig: Rig) -> Iterator[None]:
    """Check that no counter of a group on /metrics decreases while the block runs.

    Exceptions are those that exporters count themselves, which begin at 0 after a restart.
    """
    highest: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    fallen: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(_LOOK_SECONDS):
            for name, labels, value in samples(rig.url):
                if "group" not in labels or not name.endswith(_COUNTERS) or name in COUNTED_BY_EXPORTERS:
                    continue
                key = name, frozenset(labels.items())
                if value < highest.get(key, 0.0):
                    fallen.append(f"{name}{labels}: {value} after {highest[key]}")
                highest[key] = max(value, highest.get(key, 0.0))

    thread = threading.Thread(target=look, name="watching-counters")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert highest
    assert not fallen, fallen[:10]

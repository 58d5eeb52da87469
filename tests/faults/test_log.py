"""A watched log that loses records or is recreated under a running monitor: it is reported, nothing else is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from faults.observing import end_of, note_back, total
from faults.reporting import Figures
from faults.written_log import WATCHED, WrittenLog, create, running_log
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

_READERS = ("membership", "activity")
_NOTICED_SECONDS = 120.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenLog]:
    """A log that the tests damage, and a monitor watching it."""
    with running_log(tmp_path_factory.mktemp("log")) as running:
        yield running


def skipped(log: WrittenLog) -> dict[str, int]:
    """Return how many positions each of the two readers of the log skipped."""
    return {query: int(total(log.rig, "log_skipped_positions_total", query=query, topic=WATCHED)) for query in _READERS}


def recreations(log: WrittenLog) -> int:
    """Return how often the membership query saw the log recreated."""
    return int(total(log.rig, "log_recreations_total", query="membership", topic=WATCHED))


def taken(log: WrittenLog) -> int:
    """Return how many group records were counted, or reported as skipped."""
    totals = log.rig.record_totals().items()
    decoded = sum(n for (query, _, _, outcome), n in totals if (query, outcome) == ("membership", "decoded"))
    return decoded + skipped(log)["membership"]


@pytest.mark.faults(11, fast=0, full=3)
def test_what_retention_took_from_a_stopped_stream_is_counted(log: WrittenLog, rounds: int):
    """Each reader reports the exact number of missing positions; later records are counted in full.

    The alert on these totals is tested in deploy/prometheus/tests/monitor.yml.
    """
    admin = AdminClient({"bootstrap.servers": log.bootstrap, "log_level": 0})
    for number in range(rounds):
        kept, taken = f"kept-{number}", f"taken-{number}"
        partition = log.partition_of(taken)
        log.write_generations(kept, 2)
        log.await_generations(kept)
        before = skipped(log)
        assert log.rig.monitor.stream.process.terminate(45) == 0
        position = end_of(log.bootstrap, WATCHED, partition)
        log.write_generations(taken, 10)
        gap = 7 + number
        place = TopicPartition(WATCHED, partition, position + gap)
        admin.delete_records([place])[TopicPartition(WATCHED, partition)].result(30)
        log.write_generations(kept, 2)
        log.rig.monitor.stream.start()
        wanted = {query: count + gap for query, count in before.items()}
        wait_for(lambda: skipped(log) == wanted, lambda: f"{wanted}, not {skipped(log)}", _NOTICED_SECONDS)  # noqa: B023
        log.write_generations(kept, 3)
        log.await_generations(kept)
        assert log.rig.counts()[taken].generation == 10
        assert skipped(log) == wanted


@pytest.mark.faults(12, fast=0, full=5)
def test_a_log_that_was_made_anew_is_told(log: WrittenLog, rounds: int, figures: Figures):
    """Each record of the new log is counted or reported as skipped, and after that each is counted.

    Records written before the recreation was noticed are reported as skipped if the source went back from its position
    in the old log and had read on before; the records it read then count as well.
    """
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": log.bootstrap, "log_level": 0})
    for number in range(rounds):
        old, early = f"old-{number}", f"early-{number}"
        log.write_generations(old, 5)
        log.await_generations(old)
        before, made = taken(log), recreations(log)
        admin.delete_topics([WATCHED])[WATCHED].result(30)
        wait_for(lambda: WATCHED not in admin.list_topics(timeout=30).topics, "the topic to be gone")
        create(log.bootstrap)
        wait_for(lambda: WATCHED in admin.list_topics(timeout=30).topics, "the topic to be there")
        began = time.monotonic()
        log.write_generations(early, 10)
        wait_for(lambda: recreations(log) == made + 1, "it to be told", _NOTICED_SECONDS)  # noqa: B023
        log.write_generations(old, 5)
        wait_for(
            lambda: taken(log) >= before + 15,  # noqa: B023
            lambda: f"15 more records than {before}, not {taken(log)}",  # noqa: B023
            _NOTICED_SECONDS,
        )
        note_back(figures, began)
        log.write_generations(old, 1)
        wait_for(lambda: log.rig.counts()[old].generation == 11, "the group to go on", _NOTICED_SECONDS)  # noqa: B023
        counted = log.rig.counts()[old]
        log.write_generations(old, 4)
        wanted = replace(counted, generation=15, completed=counted.completed + 4)
        wait_for(
            lambda: log.rig.counts()[old] == wanted,  # noqa: B023
            lambda: f"{wanted}, not {log.rig.counts()[old]}",  # noqa: B023
            _NOTICED_SECONDS,
        )
        assert recreations(log) == made + 1

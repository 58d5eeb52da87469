"""The benchmark of cold starts: its log, its load, its process measurements, and a small run of all of it."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_devtools.bench import commit_load
from rebalance_devtools.bench.cluster_log import Shape, Truth, filled_broker
from rebalance_devtools.bench.cold_start import LagReading, Options, _lag_age, make_options, measure
from rebalance_devtools.bench.cold_start_table import Result, lines
from rebalance_devtools.bench.commit_load import Commit, Load
from rebalance_devtools.bench.process_trees import read_cpu, read_memory

SMALL = Shape(groups=30, partitions=3, commits=900, source_partitions=5, seed=7)


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Return the group's committed offsets from its coordinator, by topic and partition."""
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(120)
    return {(each.topic, each.partition): each.offset for each in answer.topic_partitions}


@pytest.mark.broker
def test_the_log_and_the_load_on_it_are_what_the_truth_says(tmp_path: Path):
    """The lag known to the generator equals the lag calculated from a broker's answers, before the load and after it.

    Commits of real members pass through the coordinator.
    """
    output = str(tmp_path / "commits.json")
    with filled_broker(SMALL, tmp_path / "logs") as broker:
        check_truth(broker)
        load = Load(broker.bootstrap, SMALL, commits_per_second=300, seconds=1.2, repeats=2)
        with commit_load.start(load, output) as process:
            assert process.wait(240) == 0
        commits = commit_load.read(output)
        assert len(commits) == load.requests == 120
        last = {commit.group: commit.lag for commit in sorted(commits, key=lambda commit: -commit.lag)}
        truth = Truth(SMALL)
        assert last == {group: lag - 2 * SMALL.partitions for group, lag in truth.group_lags.items()}
        ends = 500 * SMALL.partitions
        assert ends - sum(committed(broker.bootstrap, "group-00003").values()) == last["group-00003"]


def check_truth(broker: EmbeddedKafka) -> None:
    """Compare the offsets of some groups with the truth."""
    truth = Truth(SMALL)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    for group in ("group-00000", "group-00017", "group-00029"):
        ends = {
            place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=60)[1]
            for place in ((truth.topics[group], partition) for partition in range(SMALL.partitions))
        }
        held = committed(broker.bootstrap, group)
        assert tuple(ends[place] - held[place] for place in sorted(ends)) == truth.lags[group]
        assert sum(truth.lags[group]) == truth.group_lags[group]
    consumer.close()


def test_equal_seeds_give_equal_truths_and_others_do_not():
    """A log can be reproduced by its seed."""
    assert Truth(SMALL).lags == Truth(Shape(30, 3, 900, 5, 7)).lags
    assert Truth(SMALL).lags != Truth(Shape(30, 3, 900, 5, 8)).lags


def test_groups_that_caught_up_have_no_lag():
    """Each group ends at the end of its topic, and advances by one record with each commit."""
    truth = Truth(replace(SMALL, caught_up=True))
    assert set(truth.group_lags.values()) == {0}
    last = SMALL.rounds - 1
    assert [truth.offset("group-00001", 2, number) for number in (last, last + 1, last + 2)] == [500, 501, 502]


def test_offsets_rise_from_round_to_round_and_stay_below_the_end():
    """No group of the log moves back or beyond the end, not even after its last round."""
    truth = Truth(SMALL)
    offsets = [truth.offset("group-00001", 2, number) for number in range(SMALL.rounds + 50)]
    assert offsets == sorted(set(offsets))
    assert offsets[0] > 0
    assert offsets[SMALL.rounds - 1] == 500 - truth.lags["group-00001"][2]
    assert offsets[-1] < 500


@pytest.mark.parametrize(
    "given",
    [
        {"groups": 0},
        {"groups": 10, "partitions": 10, "commits": 99},
        {"groups": 1, "partitions": 1, "commits": 1_000},
        {"groups": 2, "partitions": 1, "commits": 10, "live_rate": 1_000.0},
        {"peer": "kminion:/nowhere"},
        {"peer": "burrow:/bin/true"},
    ],
)
def test_sizes_and_peers_that_cannot_be_are_refused_before_anything_starts(given: dict[str, object]):
    """A wrong option is reported before the log is generated, which takes a minute."""
    with pytest.raises(UserError):
        list(measure(make_options(given)))


def test_a_load_that_repeats_its_offsets_may_last_longer():
    """Until its groups have caught up with their topics."""
    load = Load("", SMALL, commits_per_second=SMALL.keys, seconds=99)
    assert not load.validate()
    assert replace(load, seconds=101).validate()
    assert not replace(load, seconds=198, repeats=2).validate()


def test_the_age_of_lag_is_the_time_until_it_was_shown():
    """A commit replaced by a later one counts as shown with it; one that was never shown is counted separately."""
    commits = [Commit("a", 9, 10.0), Commit("a", 8, 11.0), Commit("b", 5, 11.0)]
    shown = [
        LagReading(10.25, 10.5, {"a": 10, "b": 6}),
        LagReading(11.5, 12.0, {"a": 8, "b": 6}),
        LagReading(12.5, 13.0, {"a": 8}),
    ]
    age = _lag_age(commits, shown, partitions=3)
    assert (age.p50, age.highest) == (1.5, 2.0)
    # The reading that began at 10.25 did not show the first commit yet; the second was sent after it.
    assert (age.least_p50, age.least_p95) == (0.125, pytest.approx(0.2375))
    assert (age.requests, age.unseen) == (3, 1)
    assert (age.commits_per_second, age.reading_seconds) == (6.0, 0.5)


@pytest.mark.processes
def test_processor_time_and_memory_of_descendants_count_too():
    """The resources of a child count for its parent, even after the child has exited."""
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            roots = {"here": process.pid}
            assert read_cpu(roots)["here"] >= 0.3
            memory = read_memory(roots)
            assert 1 < memory.total <= sum(memory.rss.values())
        finally:
            process.kill()
    assert read_cpu({"gone": 2**22 + 1}) == {}


def test_what_was_not_measured_shows_as_a_dash():
    """A monitor that died still has a column, with its last output."""
    text = "\n".join(lines([Result("monitor", outcome="stream ended: too large"), Result("peer", "right", 1.0)]))
    assert "| outcome | stream ended: too large | right |" in text
    assert "| ready after | - | 1.0 s |" in text


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_small_cold_start_becomes_right_and_stays_right(tmp_path: Path):
    """The whole measurement on a small log: every group is shown with its true lag, before and after live commits."""
    options = Options(
        shape=SMALL,
        json_file=tmp_path / "figures.json",
        logs=tmp_path / "logs",
        settle_seconds=1,
        idle_seconds=2,
        live_seconds=5,
        live_rate=60,
    )
    table = "\n".join(measure(options))
    (found,) = json.loads((tmp_path / "figures.json").read_text())["subjects"]
    assert found["outcome"] == "right", table
    assert found["groups_right"] == SMALL.groups
    assert found["right_after_idle"]
    assert found["lag_age"]["unseen"] == 0
    assert "stream: JVM" in table
    assert "Spark alone" in table
    assert (tmp_path / "logs" / "rebalance-monitor" / "stream.log").exists()

"""Runs stories with the prober and the recorder, to make recordings for `replay`.

    python -m rebalance_devtools.stories.record DIRECTORY idle_lock:sick:1 join_barrier:cured:1 …

Takes names STORY:FORM:SEED[:VERSION][:no-metrics][:SECONDSs]; writes `<story>-<form>….jsonl`, the recording, and
`<story>-<form>….truth.json`, what happened according to the clients and the brokers' log. Stories that can share a
broker run together, a few at a time, with one prober and one recorder; for each story only the records of its own group
are kept. A story goes on for 8 s after its outcome, or for the given number of seconds. The prober runs with default
settings. No stream runs; the rows that the prober needs from it, about the
topics that the group uses, are written in its place.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from rebalance_contract import CommitActivity, GroupSnapshot, GroupState, Member, TopicCommits, encode, group_key
from rebalance_deploy.errors import UserError
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.topics import create_topics
from rebalance_devtools.stories.play import StoryRun
from rebalance_devtools.stories.programme import find_story
from rebalance_devtools.stories.script import CONFLUENT, KAFKA_PYTHON, Event
from rebalance_devtools.stories.stage import Stage, open_shared_stage, open_stage
from rebalance_devtools.stories.story import Story, playing
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.wire.records import OFFSETS_TOPIC

METRICS_TOPIC = f"{StreamConfig().topic_prefix}client-metrics"

#: File name of the table of a folder's recordings.
INDEX = "INDEX.md"
#: File name of the list of plays that were not kept, with the reason, one JSON object per line.
VOID = "void.jsonl"

_READY_SECONDS = 60.0
#: Time after the outcome for the prober's last probes and for records in flight.
_LINGER_SECONDS = 8.0
_LARGEST_PLAIN_BYTES = 400_000
#: Number of plays at once; more than the cores, because plays wait most of the time.
_AT_ONCE = 7
_DURATION = re.compile(r"\d+s")
#: Brokers log this about a member whose session or poll interval expired: `has failed` in the classic protocol.
_REMOVED = re.compile(r"[Mm]ember (\S+) (?:in group \S+ )?(?:has failed|fenced from the group because)")
#: Events that may cause the loss of a client.
_DONE_TO_CLIENTS = ("killed", "signal", "network", "dies", "disk_full")
#: Frequent events: of those between two other events of a client, only the first and the last are kept.
_THINNED = ("records", "committed", "processed")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One recording to make. Without `metrics`, clients that could report do not.

    It ends `more_seconds` after the outcome; null: as soon as the last probes and records in flight have arrived.
    """

    story: Story
    cured: bool
    seed: int
    kafka_version: str
    metrics: bool
    more_seconds: int | None = None

    @property
    def linger_seconds(self) -> float:
        """How long the story goes on after its outcome."""
        return _LINGER_SECONDS if self.more_seconds is None else self.more_seconds

    @property
    def group(self) -> str:
        """The group's name, the same every time, so that a repeated recording differs little."""
        form = "cured" if self.cured else "sick" if self.story.cured else "played"
        return f"{self.story.id.replace('_', '-')}-{form}-{self.seed}"

    @property
    def file_name(self) -> str:
        """The recording's name without its extension."""
        form = "" if self.story.cured is None else "-cured" if self.cured else "-sick"
        version = "" if self.kafka_version == self.story.versions[0] else f"-{self.kafka_version}"
        parameters = self.story.draw(random.Random(self.seed))  # noqa: S311 - to be repeatable is the point
        library = self.story.cast(parameters, cured=self.cured).library
        reports = library == CONFLUENT or library.startswith(KAFKA_PYTHON)
        silent = "-no-metrics" if reports and not self.metrics else ""
        more = "" if self.more_seconds is None else f"-{self.more_seconds}s"
        return f"{self.story.id}{form}-{self.seed}{version}{silent}{more}"


def read_wanted(text: str) -> Wanted:
    """Parse STORY:FORM:SEED[:VERSION][:no-metrics][:SECONDSs]. Raises UserError if the text is invalid."""
    parts = text.split(":")
    story = _lengthen(find_story(parts[0]))
    forms = ("played",) if story.cured is None else ("sick", "cured")
    durations = [each for each in parts[3:] if _DURATION.fullmatch(each)]
    versions = [each for each in parts[3:] if each not in ("no-metrics", *durations)] or [story.versions[0]]
    if len(parts) < 3 or parts[1] not in forms or not parts[2].isdigit() or len(versions) != 1 or len(durations) > 1:
        form = "STORY:FORM:SEED[:VERSION][:no-metrics][:SECONDSs]"
        raise UserError(f"{text} is not {form} with FORM {' or '.join(forms)}")
    seconds = next((int(each.removesuffix("s")) for each in durations), None)
    return Wanted(story, parts[1] == "cured", int(parts[2]), versions[0], "no-metrics" not in parts, seconds)


def _lengthen(story: Story) -> Story:
    """Return a story that continues until it has enough symptoms for a recording."""
    return replace(story, enough=max(story.enough, story.enough_recorded or 0), seconds=2 * story.seconds)


def record(wanted: Wanted, target: Path, say: Callable[[str], None]) -> StoryRun:
    """Run one story and write the recording and its truth into `target`."""
    directory = Path(tempfile.mkdtemp(prefix=f"story-{wanted.file_name}-"))
    say(f"{wanted.file_name}: playing in {directory}")
    story = wanted.story
    needs: dict[str, Any] = {"brokers": story.brokers, "zookeeper": story.zookeeper, "config": story.broker_config}
    if story.networked:
        opened = open_shared_stage(directory, kafka_version=wanted.kafka_version, seed=wanted.seed)
    else:
        opened = open_stage(directory, kafka_version=wanted.kafka_version, **needs)
    with opened as stage:
        run = _record_on(stage, wanted, directory)
    lines = list(_keep(directory / "recording.jsonl"))
    target.mkdir(parents=True, exist_ok=True)
    _write(target, wanted.file_name, lines, run)
    seconds = (run.ended_ms - run.started_ms) / 1000
    say(f"{wanted.file_name}: {len(lines)} records, {run.symptoms} symptoms, {seconds:.0f} s")
    shutil.rmtree(directory, ignore_errors=True)
    return run


def record_together(several: Sequence[Wanted], target: Path, say: Callable[[str], None]) -> list[str]:
    """Run many stories on one broker, write each as soon as it is over, and return the names of those that failed.

    All have the same Kafka version. A play in which a client was lost without any action on it is not kept: the machine
    was too busy, and the recording would not match the script.
    """
    directory = Path(tempfile.mkdtemp(prefix="stories-"))
    say(f"playing {len(several)} in {directory}")
    with (
        open_shared_stage(directory, kafka_version=several[0].kafka_version, seed=several[0].seed) as stage,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        _prepare(stage, (METRICS_TOPIC,))
        with _probing(stage, directory), _recording(stage, directory, (METRICS_TOPIC,)):
            futures = {
                wanted.file_name: pool.submit(_record_shared, stage, wanted, directory, target, say)
                for wanted in several
            }
            failed = [name for name, future in futures.items() if not future.result()]
    shutil.rmtree(directory, ignore_errors=True)
    return failed


def _record_shared(stage: Stage, wanted: Wanted, directory: Path, target: Path, say: Callable[[str], None]) -> bool:
    """Run one story as one group of many and write its recording; return false if the play is void."""
    try:
        with playing(
            wanted.story,
            stage,
            cured=wanted.cured,
            seed=wanted.seed,
            directory=directory / wanted.file_name,
            metrics_topic=METRICS_TOPIC if wanted.metrics else None,
            group=wanted.group,
            prepare=lambda play: report_interest(stage.bootstrap, wanted.story, play.group),
        ) as play:
            play.await_seconds(wanted.linger_seconds)
            run = play.run()
    except (UserError, KafkaException) as error:
        _note_void(target, wanted, str(error).splitlines()[0])
        say(f"{wanted.file_name}: {error}")
        return False
    lost = innocents_lost(run, wanted.story.expect(run.parameters).culprits)
    if lost:
        _note_void(target, wanted, f"{', '.join(lost)} lost without anything being done to them")
        say(f"{wanted.file_name}: void, {', '.join(lost)} were lost without anything being done to them")
        return False
    lines = [line for line in _keep(directory / "recording.jsonl") if belongs(line, run)]
    if not lines:
        _note_void(target, wanted, "the recorder had ended")
        say(f"{wanted.file_name}: void, the recorder had ended")
        return False
    target.mkdir(parents=True, exist_ok=True)
    _write(target, wanted.file_name, lines, run, largest_plain_bytes=0)
    say(f"{wanted.file_name}: {len(lines)} records, {(run.ended_ms - run.started_ms) / 1000:.0f} s")
    return True


def _note_void(target: Path, wanted: Wanted, reason: str) -> None:
    """Append a void play to the list, so that statistics can include it."""
    target.mkdir(parents=True, exist_ok=True)
    with (target / VOID).open("a") as file:
        file.write(json.dumps({"name": wanted.file_name, "reason": reason}) + "\n")


def innocents_lost(run: StoryRun, culprits: Iterable[str]) -> list[str]:
    """Return the names of the clients that the broker removed without any action on them."""
    removed = {match[1] for line in run.broker_lines if (match := _REMOVED.search(line))}
    touched = {*culprits, *(event["name"] for event in run.events if event["event"] in _DONE_TO_CLIENTS)}
    names = dict.fromkeys(event["name"] for event in run.events if event["name"])
    return [name for name in names if name not in touched and removed & set(run.member_ids(name))]


def belongs(line: str, run: StoryRun) -> bool:
    """Return whether a recorded line is about the group of a run and not later than its end (then clients are killed).

    Keys of the offsets topic start with a type and the group; keys of other topics are the group.
    """
    fields = json.loads(line)
    key = bytes.fromhex(fields["key_hex"] or "")
    if fields["topic"] == OFFSETS_TOPIC:
        key = key[4 : 4 + int.from_bytes(key[2:4], "big")]
    return key.decode(errors="replace") == run.group and int(fields["timestamp_ms"]) <= run.ended_ms


def _record_on(stage: Stage, wanted: Wanted, directory: Path) -> StoryRun:
    topics = (METRICS_TOPIC,) if wanted.metrics else ()
    _prepare(stage, topics)
    with (
        _probing(stage, directory),
        _recording(stage, directory, topics),
        playing(
            wanted.story,
            stage,
            cured=wanted.cured,
            seed=wanted.seed,
            directory=directory / "clients",
            metrics_topic=METRICS_TOPIC if wanted.metrics else None,
            group=wanted.group,
            prepare=lambda play: report_interest(stage.bootstrap, wanted.story, play.group),
        ) as play,
    ):
        play.await_seconds(wanted.linger_seconds)
        return play.run()


def _prepare(stage: Stage, topics: Iterable[str]) -> None:
    """Create the topics that the recorder needs at its start, replicated to all brokers, as in production."""
    names = (*topics, StreamConfig().groups_topic, StreamConfig().activity_topic)
    create_topics(stage.bootstrap, dict.fromkeys(names, 1), replicas=len(stage.broker_logs))


def report_interest(bootstrap: str, story: Story, group: str) -> None:
    """Publish the topic of a group in place of the stream; without it the prober requests no end offsets."""
    config, topic, now_ms = StreamConfig(), f"t-{group}", int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    if story.group_type == "zookeeper":
        commits = {topic: TopicCommits([0], [0], [now_ms], [now_ms], [1], [1])}
        row = CommitActivity(config.cluster, group, 0, 1, 1, config.pane_ms, ((now_ms, 1),), commits)
        producer.produce(config.activity_topic, key=group, value=encode(row))
    else:
        members = (Member("unknown", "unknown", "/unknown", topics=(topic,)),)
        snapshot = GroupSnapshot(config.cluster, group, type=story.group_type, state=GroupState.STABLE, members=members)
        producer.produce(config.groups_topic, key=group_key(config.cluster, group), value=encode(snapshot))
    producer.flush(30)


@contextmanager
def _probing(stage: Stage, directory: Path) -> Iterator[None]:
    settings = ["probe.listen_host=127.0.0.1", "probe.listen_port=0"]
    if stage.zookeeper:
        settings.append(f"probe.zookeeper={stage.zookeeper}")
    flags = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "rebalance_deploy", "probe", "--bootstrap-server", stage.bootstrap, *flags]
    log = directory / "probe.log"
    with ChildProcess(command, log_path=log) as prober:
        _await(lambda: "serving on" in log.read_text(), prober, "the prober to serve")
        topic, admin = StreamConfig().probes_topic, AdminClient({"bootstrap.servers": stage.bootstrap, "log_level": 0})
        _await(lambda: topic in admin.list_topics(timeout=10).topics, prober, "the probes topic")
        yield


@contextmanager
def _recording(stage: Stage, directory: Path, topics: Iterable[str]) -> Iterator[None]:
    flags = [part for topic in topics for part in ("--topics", topic)]
    command = [sys.executable, "-m", "rebalance_deploy", "record", "--bootstrap-server", stage.bootstrap, *flags]
    with ChildProcess(command, log_path=directory / "recording.jsonl") as recorder:
        yield
        if not recorder.is_running:
            raise UserError(f"the recorder ended early, see {directory / 'recording.jsonl'}")


def _await(condition: Callable[[], bool], process: ChildProcess, what: str) -> None:
    deadline, pause = time.monotonic() + _READY_SECONDS, threading.Event()
    while not condition():
        if not process.is_running or time.monotonic() > deadline:
            raise UserError(f"waited in vain for {what}, see {process.log_path}")
        pause.wait(0.1)


def _keep(path: Path) -> Iterator[str]:
    """Yield the recorded lines, without other output of the recorder."""
    for line in path.read_text().splitlines():
        if line.startswith("{"):
            yield line


def _write(
    target: Path, name: str, lines: list[str], run: StoryRun, *, largest_plain_bytes: int = _LARGEST_PLAIN_BYTES
) -> None:
    for old in (target / f"{name}.jsonl", target / f"{name}.jsonl.gz"):
        old.unlink(missing_ok=True)
    data = ("\n".join(lines) + "\n").encode()
    if len(data) > largest_plain_bytes:
        with gzip.GzipFile(target / f"{name}.jsonl.gz", "wb", mtime=0) as file:
            file.write(data)
    else:
        (target / f"{name}.jsonl").write_bytes(data)
    (target / f"{name}.truth.json").write_text(render_truth(run))


def render_truth(run: StoryRun) -> str:
    """Return a run as readable JSON: one line per field, event and line of the brokers' log."""
    truth = {**run.to_json(), "events": thin(run.events)}
    fields = [
        f'"{key}": {_render_list(value) if isinstance(value, (list, tuple)) else json.dumps(value)}'
        for key, value in truth.items()
    ]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _render_list(values: Iterable[Any]) -> str:
    return "[" + ",".join(f"\n {json.dumps(value)}" for value in values) + "\n]"


def render_index(folder: Path) -> str:
    """Return the table of a folder's recordings: what happens in each, and a summary of the truth."""
    rows = [
        json.loads(path.read_text()) | {"name": path.name.removesuffix(".truth.json")}
        for path in sorted(folder.glob("*.truth.json"))
    ]
    head = (
        "# Recordings\n\nWritten by `python -m rebalance_devtools.stories.record`; README.md says how to read them.\n\n"
        "| recording | what happens | broker | client | seconds | symptoms | diagnosis | culprits |\n"
        "|---|---|---|---|---:|---:|---|---|\n"
    )
    return head + "".join(f"| {' | '.join(_index_row(row))} |\n" for row in rows)


def _index_row(truth: dict[str, Any]) -> tuple[str, ...]:
    story = find_story(truth["story"])
    expected = story.expect(truth["parameters"])
    return (
        truth["name"],
        f"{story.what}{' (cured)' if truth['cured'] else ''}",
        truth["kafka_version"],
        truth["library"],
        f"{(truth['ended_ms'] - truth['started_ms']) / 1000:.0f}",
        str(truth["symptoms"]),
        "none" if truth["cured"] or not expected.diagnosis else expected.diagnosis,
        "" if truth["cured"] else ", ".join(expected.culprits),
    )


def thin(events: Iterable[Event]) -> list[Event]:
    """Return events without the middle of a client's runs of frequent events, separately for each kind."""
    all_events = list(events)
    middle: set[int] = set()
    runs: dict[str, dict[str, list[int]]] = {}
    for number, event in enumerate(all_events):
        of_client = runs.setdefault(event["name"], {})
        if event["event"] not in _THINNED:
            of_client.clear()
            continue
        run = of_client.setdefault(event["event"], [])
        run.append(number)
        middle.update(run[1:-1][-1:])
    return [event for number, event in enumerate(all_events) if number not in middle]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress, for the person who waits


def main(arguments: list[str]) -> int:
    """Make the named recordings; a failure does not stop the others. Return the exit code."""
    target, *names = arguments
    failed = 0
    wanted = [read_wanted(name) for name in names]
    for each in wanted:
        try:
            if not each.story.shared:
                record(each, Path(target), _say)
        except UserError as error:
            _say(f"{each.file_name}: {error}")
            failed += 1
    shared = sorted((each for each in wanted if each.story.shared), key=lambda each: each.kafka_version)
    for _, several in groupby(shared, key=lambda each: each.kafka_version):
        failed += len(record_together(list(several), Path(target), _say))
    Path(target, INDEX).write_text(render_index(Path(target)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

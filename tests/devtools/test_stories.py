"""Stories as data: drawn parameters produce the story, counts are right, recordings stay readable."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rebalance_deploy.errors import UserError
from rebalance_devtools.clients import known_clients
from rebalance_devtools.stories.play import StoryRun
from rebalance_devtools.stories.programme import FOUNDING, STORIES, VARIANTS, find_story
from rebalance_devtools.stories.record import (
    INDEX,
    METRICS_TOPIC,
    belongs,
    innocents_lost,
    read_wanted,
    render_index,
    render_truth,
    thin,
)
from rebalance_devtools.stories.script import (
    CONFLUENT,
    CONNECT,
    FRANZ_GO,
    JAVA,
    KAFKA_PYTHON,
    KAFKAJS,
    SARAMA,
    SHARE,
    SPRING,
    STREAMS,
    Parameters,
    failed_commits,
    processed_twice,
    returns_under_new_ids,
)
from rebalance_devtools.stories.story import Story

SEEDS = range(300)


def drawn(story_id: str) -> list[Parameters]:
    """Return the parameters drawn with many seeds."""
    return [STORIES[story_id].draw(random.Random(seed)) for seed in SEEDS]


def reported(event: str, name: str = "c", t_ms: int = 0, **more: Any) -> dict[str, Any]:
    return {"t_ms": t_ms, "name": name, "process": f"{name}/1", "event": event, **more}


def test_a_fetch_outlasts_the_session():
    """Story A in its fast form: a poll holds the lock for longer than the session, which the broker allows."""
    for each in drawn("idle_lock"):
        assert 6_000 <= each["session_ms"] < each["fetch_wait_ms"] - 2_000
        assert each["heartbeat_ms"] * 3 <= each["session_ms"]


def test_a_batch_outlasts_the_poll_interval_and_the_cure_does_not():
    """Story C: sick batches take longer than allowed, cured ones at most half of it."""
    for each in drawn("long_batches"):
        assert each["batch"] * each["record_ms"] > 1.2 * each["max_poll_ms"]
        assert each["healthy_batch"] >= 1
        assert each["healthy_batch"] * each["record_ms"] <= each["max_poll_ms"] / 2


def test_work_outlasts_the_session_but_not_the_poll_interval():
    """Story D: the two must be distinguishable."""
    for each in drawn("held_interpreter"):
        assert each["session_ms"] + 2_000 < each["hold_ms"] < 300_000
        assert each["hold_ms"] < each["message_every_ms"]


def test_the_same_seed_draws_the_same():
    """A recording or a failure can be reproduced."""
    first, second = ({name: story.draw(random.Random(7)) for name, story in STORIES.items()} for _ in range(2))
    assert first == second


@pytest.mark.parametrize("story", [*FOUNDING, *VARIANTS], ids=lambda story: story.id)
def test_forms_differ_in_what_is_advised(story: Story):
    """The sick and the cured form have different clients, or the story itself distinguishes them."""
    parameters = story.draw(random.Random(1))
    differs = story.cast(parameters, cured=True) != story.cast(parameters, cured=False)
    assert differs or story.id in ("join_barrier", "join_barrier_default")


def test_every_client_can_be_had():
    """All libraries are known, and each story has an expected diagnosis."""
    in_java, foreign = {JAVA, SHARE, STREAMS, CONNECT, SPRING}, {FRANZ_GO, SARAMA, KAFKAJS}
    known = {*in_java, *foreign, CONFLUENT, KAFKA_PYTHON, *known_clients()}
    for story in STORIES.values():
        parameters = story.draw(random.Random(1))
        forms = [story.cast(parameters, cured=cured) for cured in ((False, True) if story.cured else (False,))]
        assert {form.library for form in forms} <= known, story.id
        assert isinstance(story.expect(parameters).diagnosis, str), story.id


def test_returns_are_counted_per_process():
    """A new id of the same process is a return; a new process, or the same id again, is not."""
    events = [reported("assigned", member_id=each) for each in ("c-1", "c-1", "c-2", "c-3")]
    restarted = {**reported("assigned", member_id="c-4"), "process": "c/2"}
    assert returns_under_new_ids([*events, restarted]) == 2


def test_failed_commits_are_counted():
    """Successful commits do not count."""
    assert failed_commits([reported("committed"), reported("commit_failed"), reported("commit_failed")]) == 2


def test_records_handed_out_again_are_counted():
    """To any client, and only records delivered before."""
    first = reported("records", ranges=[["t", 0, 0, 9], ["t", 1, 0, 4]])
    again = reported("records", name="d", ranges=[["t", 0, 5, 12]])
    assert processed_twice([first, again]) == 5


def test_thinning_keeps_the_ends_of_runs():
    """Of consecutive records the first and the last are kept, of rare events all."""
    events = [reported("assigned"), *(reported("records", t_ms=n) for n in range(5)), reported("commit_failed")]
    other = reported("records", name="d", t_ms=9)
    kept = thin([*events[:3], other, *events[3:]])
    assert [(each["name"], each["event"], each["t_ms"]) for each in kept] == [
        ("c", "assigned", 0),
        ("c", "records", 0),
        ("d", "records", 9),
        ("c", "records", 4),
        ("c", "commit_failed", 0),
    ]


def test_thinning_sees_through_events_that_alternate():
    """A client that reports the arrival and the processing of each record does not fill the file."""
    events = [reported(event, t_ms=n) for n in range(9) for event in ("records", "processed")]
    kept = thin([reported("assigned"), *events, reported("lost", t_ms=9)])
    assert [(each["event"], each["t_ms"]) for each in kept] == [
        ("assigned", 0),
        ("records", 0),
        ("processed", 0),
        ("records", 8),
        ("processed", 8),
        ("lost", 9),
    ]


def test_truth_is_json_with_the_members():
    """The file can be read, and has the ids of each client."""
    run = StoryRun(
        story="idle_lock",
        cured=False,
        seed=1,
        kafka_version="3.9.2",
        library="kafka-python-1.4.6",
        parameters={"members": 1},
        group="g",
        topic="t",
        started_ms=1,
        ended_ms=2,
        symptoms=1,
        events=(reported("assigned", member_id="c-1"), reported("assigned", member_id="c-2")),
        broker_lines=("a line",),
    )
    truth = json.loads(render_truth(run))
    assert truth["members"] == {"c": ["c-1", "c-2"]}
    assert (truth["broker_lines"], len(truth["events"])) == (["a line"], 2)


def run_of(*events: dict[str, Any], broker_lines: tuple[str, ...] = ()) -> StoryRun:
    """A run of the group `orders` that ended at 100."""
    return StoryRun("zombie", False, 1, "4.3.1", CONFLUENT, {}, "orders", "t", 0, 100, 0, events, broker_lines)


_FAILED = "Member {} in group orders has failed, removing it from the group"
_FENCED = "[GroupId orders] Member {} fenced from the group because the member session expired."


@pytest.mark.parametrize("line", [_FAILED, _FENCED])
def test_who_is_lost_without_a_reason_makes_a_play_void(line: str):
    """Only culprits and members subject to an action may be lost, with the classic and the newer protocol."""
    in_group = [reported("assigned", name, member_id=f"{name}-id") for name in ("culprit", "touched", "innocent")]
    touched = {**reported("signal", "touched"), "process": ""}
    lost = run_of(*in_group, touched, broker_lines=tuple(line.format(f"{each['name']}-id") for each in in_group))
    assert innocents_lost(lost, ["culprit"]) == ["innocent"]
    assert innocents_lost(run_of(*in_group, touched), ["culprit"]) == []


@pytest.mark.parametrize(
    ("topic", "key", "at_ms", "kept"),
    [
        ("__consumer_offsets", b"\x00\x02\x00\x06orders", 100, True),
        ("__consumer_offsets", b"\x00\x01\x00\x06orders\x00\x01t\x00\x00\x00\x00", 100, True),
        ("__consumer_offsets", b"\x00\x02\x00\x08orders-2", 100, False),
        ("__consumer_offsets", b"\x00\x02\x00\x06orders", 101, False),
        (METRICS_TOPIC, b"orders", 50, True),
        (METRICS_TOPIC, b"orders-2", 50, False),
    ],
)
def test_of_what_many_share_a_play_keeps_its_own(topic: str, key: bytes, at_ms: int, kept: bool):
    """Lines about its group, until its clients are killed."""
    line = json.dumps({"topic": topic, "key_hex": key.hex(), "timestamp_ms": at_ms})
    assert belongs(line, run_of()) is kept


def test_wanted_recordings_are_read():
    """Story, form and seed; then the broker's version, and whether clients report."""
    wanted = read_wanted("idle_lock:cured:7:4.3.1:no-metrics")
    assert (wanted.story.id, wanted.cured, wanted.seed, wanted.kafka_version) == ("idle_lock", True, 7, "4.3.1")
    assert wanted.file_name == "idle_lock-cured-7-4.3.1-no-metrics"
    assert read_wanted("join_barrier:sick:1").file_name == "join_barrier-sick-1"
    assert read_wanted("member_crash:played:1").file_name == "member_crash-1"
    assert read_wanted("member_crash:played:1").linger_seconds < 60
    hour = read_wanted("idle_lock:sick:1:3600s")
    assert (hour.linger_seconds, hour.file_name) == (3_600, "idle_lock-sick-1-3600s")


@pytest.mark.parametrize(
    "text",
    [
        "idle_lock",
        "idle_lock:ill:1",
        "idle_lock:sick:x",
        "idle_lock:played:1",
        "idle_lock:sick:1:2:3",
        "idle_lock:sick:1:1s:2s",
    ],
)
def test_what_is_no_recording_is_refused(text: str):
    """The error shows the expected form."""
    with pytest.raises(UserError, match="is not STORY:FORM:SEED"):
        read_wanted(text)


def test_an_unknown_story_names_the_known_ones():
    """The error lists the known stories."""
    with pytest.raises(UserError, match="no story named idle: choose one of idle_lock, join_barrier"):
        find_story("idle")


GOLDEN = Path(__file__).parents[1] / "golden"
RECORDINGS = (GOLDEN / "stories", GOLDEN / "families")


class Recorded(msgspec.Struct):
    """The compared fields of a record."""

    topic: str
    key_hex: str = ""


RECORDS = msgspec.json.Decoder(Recorded)
TRUTHS = sorted(path for folder in RECORDINGS for path in folder.glob("*.truth.json"))


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: folder.name)
def test_the_index_is_up_to_date(folder: Path):
    """The index agrees with the truths of the recordings."""
    assert (folder / INDEX).read_text() == render_index(folder)


@pytest.mark.recordings
@pytest.mark.parametrize("truth", TRUTHS, ids=lambda path: path.name.removesuffix(".truth.json"))
def test_a_recording_is_about_its_story(truth: Path):
    """There is at least one; it is small, has only the story's group, and both probes and log."""
    said = json.loads(truth.read_text())
    (file,) = truth.parent.glob(truth.name.replace(".truth.json", ".jsonl*"))
    assert file.stat().st_size < 400_000
    content = file.read_bytes()
    records = RECORDS.decode_lines(gzip.decompress(content) if file.suffix == ".gz" else content)
    topics = {record.topic for record in records}
    assert {"__consumer_offsets", "rebalance-monitor.probes"} <= topics
    assert topics <= {"__consumer_offsets", "rebalance-monitor.probes", "rebalance-monitor.client-metrics"}
    keys = [bytes.fromhex(record.key_hex) for record in records if record.topic != METRICS_TOPIC]
    assert all(said["group"].encode() in key for key in keys)
    assert said["symptoms"] == 0 or not said["cured"]

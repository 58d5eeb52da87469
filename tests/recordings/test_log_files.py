"""Files of broker logs beside a recording, and their lines within one: coordinators' log lines are evidence.

The recordings are of real brokers, each with the broker's own log (tests/golden/README.md describes how they were
made).
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from accuracy.outcomes import CLAIMED
from goldens import FOLDER
from rebalance_contract import CoordinatorAct, CoordinatorActivity
from rebalance_streaming.recordings.log_files import LogFileError, read_log_files
from rebalance_streaming.recordings.replay import replay
from rebalance_streaming.time_zones import is_time_zone, local_to_utc

LOGS = FOLDER / "broker-logs"
LINE = (
    b"[2026-11-22 23:58:48,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=12] Group g with "
    b"generation 6 is now empty. (org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
)
AT_MS = 1_795_391_928_123


def opened(data: bytes, name: str = "server.log") -> io.BufferedReader:
    """Return a file as the command line opens it."""
    raw = io.BytesIO(data)
    raw.name = name
    return io.BufferedReader(raw)


def read(*files: bytes, time_zone: str = "UTC") -> list[CoordinatorActivity]:
    return read_log_files([opened(each) for each in files], cluster="c", pane_ms=5_000, time_zone=time_zone)


# --- Files ---


@pytest.mark.parametrize("data", [LINE, gzip.compress(LINE), gzip.compress(LINE)[:-5]], ids=["plain", "gzip", "cut"])
def test_a_log_is_read_compressed_or_not(data: bytes):
    """As written by brokers and compressed by log rotation."""
    ((event,),) = (row.events for row in read(data))
    assert (event.at_ms, event.act) == (AT_MS, CoordinatorAct.EMPTIED)


def test_several_logs_are_put_together():
    """A group's coordinators are on several brokers."""
    other = LINE.replace(b"Group g", b"Group h")
    assert {row.group for row in read(LINE, other)} == {"g", "h"}


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 0), ("Europe/Berlin", 1), ("America/New_York", -5)])
def test_local_times_are_read_with_the_zone_that_is_named(zone: str, hours: int):
    """Kafka's default layout has the broker's local time without a zone."""
    assert read(LINE, time_zone=zone)[0].events[0].at_ms == AT_MS - hours * 3_600_000


def test_the_hour_that_comes_twice_is_the_first_one():
    """In autumn local times are ambiguous; in spring an hour does not exist, and is still parsed."""
    to_utc = local_to_utc("Europe/Berlin")
    autumn, spring = 1_792_895_400_000, 1_774_751_400_000  # 2026-10-25 02:30, 2026-03-29 02:30
    assert to_utc(autumn) == autumn - 2 * 3_600_000
    assert to_utc(spring) in (spring - 3_600_000, spring - 2 * 3_600_000)
    assert not is_time_zone("Europe/Nowhere")
    assert not is_time_zone("../etc/passwd")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "server.log is empty; give a broker's server.log"),
        (b"\n\n", "server.log is empty"),
        (b"hello\nworld\n", "(2 other); it begins with 'hello', and lines like this are expected: [2026-03-01"),
        (b'{"partition": 1, "value_hex": "00"}\n', "is a recording, not a broker's log"),
        (b'{"level": "INFO"}\n', "(1 no_text)"),
        (b"[2026-11-22 23:58:48,123] INFO started (kafka.Kafka)\n", "with level INFO"),
        (b"\x1f\x8bgarbage of some length", "server.log is damaged"),
    ],
)
def test_a_file_that_is_no_log_of_a_coordinator_is_explained(data: bytes, said: str):
    """The content, the expected format, and what to do."""
    with pytest.raises(LogFileError) as caught:
        read(data)
    assert said in str(caught.value)


def test_a_name_that_is_no_time_zone_is_explained():
    """With an example."""
    with pytest.raises(LogFileError, match="'CEST5' is no time zone; give a name such as Europe/Berlin"):
        read(LINE, time_zone="CEST5")


# --- Recordings ---

#: What was done to each group's departed member, as the rule that says so; the brokers it was recorded on.
TRUTH = {
    "overrun": "poll_overrun",
    "killed": "member_crash",
    "kp-killed": "member_crash",
    "closed": "scale_in",
    "barrier": "stalled_member_join_barrier",
}


def rows(version: str, logs: Sequence[CoordinatorActivity] = (), **changes: Any) -> list[dict[str, Any]]:
    with (LOGS / f"broker-{version}.jsonl.gz").open("rb") as file:
        return [json.loads(line) for line in replay([changes.pop("file", file)], output="all", logs=logs, **changes)]


def logs_of(version: str) -> list[CoordinatorActivity]:
    with (LOGS / f"broker-{version}.log.gz").open("rb") as file:
        return read_log_files([file], cluster="default", pane_ms=5_000)


def last_causes(found: list[dict[str, Any]]) -> dict[str, str]:
    """Return the primary cause of the last departure of each group."""
    left = {each["rebalance_id"]: each for each in found if each["kind"] == "rebalance" and each["left"]}
    causes: dict[str, tuple[int, str]] = {}
    for finding in (each for each in found if each["kind"] == "finding" and each["primary"]):
        for name in set(finding["rebalance_ids"]) & left.keys():
            causes[finding["group"]] = max(
                causes.get(finding["group"], (0, "")), (left[name]["started_before_ms"], finding["rule"])
            )
    return {group: rule for group, (_, rule) in causes.items()}


@pytest.mark.recordings
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_with_the_brokers_log_every_departure_is_explained(version: str):
    """The offsets topic alone gives at most a hint of the kill."""
    alone, beside = rows(version), rows(version, logs_of(version))
    causes = last_causes(beside)
    assert {group: causes[group] for group in TRUTH} == TRUTH
    assert confidence_in_a_kill(alone) < CLAIMED <= confidence_in_a_kill(beside)


def confidence_in_a_kill(found: list[dict[str, Any]]) -> float:
    """Return the confidence that the killed member was killed; 0 without such a finding."""
    of_group = (each for each in found if each["kind"] == "finding" and each["group"] == "killed")
    return max((each["confidence"] for each in of_group if each["rule"] == "member_crash"), default=0.0)


@pytest.mark.recordings
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_the_start_of_every_classic_rebalance_is_exact(version: str):
    """It is within the bounds of the offsets topic; for a long join barrier it is far from its end."""
    found = rows(version, logs_of(version))
    impacts = {each["rebalance_id"]: each for each in found if each["kind"] == "rebalance_impact"}
    classic = [each for each in found if each["kind"] == "rebalance" and each["type"] == "classic"]
    assert classic
    for each in classic:
        at_ms = impacts[each["rebalance_id"]]["prepared_at_ms"]
        assert at_ms is not None, each["group"]
        assert (each["started_after_ms"] or 0) - 1_000 <= at_ms <= each["started_before_ms"] + 1_000
    (held,) = [each for each in classic if each["group"] == "barrier" and each["left"]]
    assert held["started_before_ms"] - impacts[held["rebalance_id"]]["prepared_at_ms"] > 20_000
    assert impacts[held["rebalance_id"]]["trigger"] == "join"


@pytest.mark.recordings
@pytest.mark.parametrize("topic", ["rebalance-monitor.broker-logs", "logs-of-ours"])
def test_lines_may_come_as_records_of_the_recording(topic: str):
    """`record` keeps the topic of broker logs like any other, whatever its name: the findings are the same."""
    version = "4.3.1"
    with gzip.open(LOGS / f"broker-{version}.log.gz", "rb") as file:
        lines = file.read().splitlines()
    with (LOGS / f"broker-{version}.jsonl.gz").open("rb") as file, gzip.open(file, "rb") as recording:
        text = recording.read() + b"\n".join(_as_records(lines, topic)) + b"\n"
    inside = rows(version, file=opened(text))
    assert last_causes(inside) == last_causes(rows(version, logs_of(version)))


def _as_records(lines: Sequence[bytes], topic: str) -> Iterator[bytes]:
    at_ms = logs_of("4.3.1")[-1].events[-1].at_ms + 60_000
    for number, line in enumerate(lines):
        value = json.dumps({"log": line.decode()}) if number % 2 else line.decode()
        yield json.dumps(
            {
                "topic": topic,
                "partition": 0,
                "offset": number,
                "timestamp_ms": at_ms,
                "key_hex": None,
                "value_hex": value.encode().hex(),
            }
        ).encode()

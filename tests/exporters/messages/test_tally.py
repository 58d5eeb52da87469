"""Counting the messages of a log: compressed or not, with any bytes, in bounded memory."""

import gzip
import io
from pathlib import Path

import pytest

from exporters.messages.real_lines import LINES
from fuzz.timing import least_time
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.messages import tally as counting
from rebalance_exporters.messages.matching import read_matcher
from rebalance_exporters.messages.tally import lines_of, read_lines, tally

FAILED = "2026-03-01 14:05:{at:02d} INFO Member {member} in group {group} has failed, removing it from the group"


def failed(at: int, member: str = "a", group: str = "orders") -> str:
    return FAILED.format(at=at, member=member, group=group)


def test_messages_are_counted_per_group_and_client():
    """Count, lines, first and last time; significant messages come before ordinary ones."""
    lines = [failed(1), "nothing", "(Re-)joining group orders", "(Re-)joining group orders", failed(2, "b"), failed(9)]
    counted = tally(lines, read_matcher())
    reported = [(each.message.id, each.group, each.client, each.count) for each in counted.entries]
    assert reported == [
        ("broker_member_failed", "orders", "a", 2),
        ("broker_member_failed", "orders", "b", 1),
        ("kp_rejoining", "orders", None, 2),
    ]
    first = counted.entries[0]
    assert (first.first_line, first.last_line) == (1, 6)
    assert (first.first_at, first.last_at) == ("2026-03-01 14:05:01", "2026-03-01 14:05:09")
    assert (counted.lines, counted.is_merged) == (6, False)


def test_a_line_counts_once():
    """If it contains several messages, the longest."""
    for line in LINES:
        assert [each.count for each in tally([line.text], read_matcher()).entries] == [1]


TRACE = """\
[2026-03-01 14:05:01,123] ERROR [Consumer clientId=c1, groupId=orders] Error while committing (com.acme.Worker:41)
org.springframework.kafka.KafkaException: Seek failed; nested exception is {error}
\tat org.springframework.kafka.listener.SeekUtils.seekOrRecover(SeekUtils.java:206)
\tat java.base/java.lang.Thread.run(Thread.java:829)
Caused by: org.apache.kafka.clients.consumer.{error}: Commit cannot be completed since the group has already \
rebalanced and assigned the partitions to another member.
\tat org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.doCommitOffsets(ConsumerCoordinator.java:1)
\t... 40 more""".format(error="CommitFailedException").splitlines()
PYTHON_TRACE = """\
2026-03-01 14:05:01,123 app ERROR commit failed in group_id=orders
Traceback (most recent call last):
  File "app.py", line 12, in work
    consumer.commit()
kafka.errors.UnknownMemberIdError: [Error 25] UnknownMemberIdError

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "app.py", line 14, in work
    raise CommitFailedError
kafka.errors.CommitFailedError: CommitFailedError: Commit cannot be completed since the group has already
            rebalanced and assigned the partitions to another member.""".splitlines()


def reported(lines: list[str]) -> list[tuple[str, str | None, int, str | None, int]]:
    """Return each entry of a log: message, group, count, first time and line."""
    entries = tally(lines, read_matcher()).entries
    return [(each.message.id, each.group, each.count, each.first_at, each.first_line) for each in entries]


def test_a_stack_trace_counts_once_with_the_time_and_the_group_of_its_first_line():
    """However often it repeats its cause; the line is that of the message."""
    trace = ("java_commit_failed", "orders", 1, "2026-03-01 14:05:01,123", 5)
    assert reported(TRACE) == [trace]
    assert reported([*TRACE, failed(9), *TRACE]) == [
        ("java_commit_failed", "orders", 2, "2026-03-01 14:05:01,123", 5),
        ("broker_member_failed", "orders", 1, "2026-03-01 14:05:09", len(TRACE) + 1),
    ]
    assert reported(PYTHON_TRACE) == [("java_commit_failed", "orders", 1, "2026-03-01 14:05:01,123", 13)]


def test_without_a_time_frames_and_causes_belong_to_the_line_above():
    """As in output on standard error; two traces are two events."""
    trace = ['Exception in thread "main" org.apache.kafka.clients.consumer.CommitFailedException: x', *TRACE[2:]]
    assert reported(trace * 2) == [("java_commit_failed", None, 2, None, 4)]
    names = ["kafka.errors.CommitFailedError: CommitFailedError"] * 3
    assert [each[2] for each in reported(names)] == [3]


@pytest.mark.parametrize(
    "prefix", ["2026-03-01T14:05:01.123456789Z stderr F ", "Mar  1 14:05:01 host app[1]: ", "app-1  | "]
)
def test_a_trace_whose_lines_were_shipped_one_by_one_counts_once(prefix: str):
    """With the prefixes that container runtimes, syslog and Compose add to each line."""
    lines = [*TRACE, failed(9), *PYTHON_TRACE, failed(9)]
    assert sorted(each[:3] for each in reported([prefix + line for line in lines])) == [
        ("broker_member_failed", "orders", 2),
        ("java_commit_failed", "orders", 1),
        ("java_commit_failed", "orders", 1),
    ]


def test_traces_below_each_other_are_several():
    """As printed by a program between its log lines."""
    printed = ["2026-03-01 14:05:00 all is well", *TRACE[1:], *TRACE[1:]]
    assert [each[:3] for each in reported(printed)] == [("java_commit_failed", None, 2)]


def test_lines_that_begin_with_blanks_are_events_where_they_have_a_date():
    """As indented by some log shippers; if no line has a time, each line is an event."""
    assert [each[2] for each in reported([f"  {failed(at)}" for at in range(3)])] == [3]
    bare = "Member a in group orders has failed, removing it from the group"
    assert [each[2] for each in reported([f"  {bare}"] * 3)] == [3]


def test_a_text_with_another_error_is_another_entry():
    """Its consequences differ."""
    text = "Offset commit failed on partition t-0 at offset 5: "
    lines = [text + each for each in ("The request timed out.", "This is not the correct coordinator.", "Who knows.")]
    entries = tally(lines * 2, read_matcher()).entries
    assert {(each.message.meaning.id, each.count) for each in entries} == {
        ("commit_retriable", 2),
        ("commit_failed", 2),
    }
    assert [each.message.text.rpartition(": ")[2] for each in entries] == [
        "The request timed out.",
        "This is not the correct coordinator.",
        "{error}",
    ]


@pytest.mark.generated
@pytest.mark.parametrize("line", ["at x", "\t", "a.bException", "", "Caused by: CommitFailedException", "{" * 200])
def test_an_event_without_end_takes_linear_time_and_no_memory(line: str):
    """A log of continuation lines only is counted like any other."""
    few, many = [failed(1), *[line] * 1_000], [failed(1), *[line] * 8_000]
    least = least_time(lambda: tally(few, read_matcher()))
    assert least_time(lambda: tally(many, read_matcher())) < 30 * least + 0.05


def test_memory_has_a_bound(monkeypatch: pytest.MonkeyPatch):
    """Beyond it clients, then groups are merged; no count is lost."""
    monkeypatch.setattr(counting, "_WITH_CLIENT", 3)
    monkeypatch.setattr(counting, "_WITH_GROUP", 5)
    lines = [failed(1, f"m{number}", f"g{number}") for number in range(50)]
    counted = tally(lines, read_matcher())
    assert counted.is_merged
    assert len(counted.entries) == 6
    assert sum(each.count for each in counted.entries) == 50
    assert [each.count for each in counted.entries if each.group is None] == [45]


def test_a_packed_log_reads_as_an_unpacked_one(tmp_path: Path):
    """By its content, whatever its name."""
    plain, packed = tmp_path / "app.log", tmp_path / "app.log.1"
    plain.write_text(f"{failed(1)}\r\n\n{failed(2)}")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_lines(packed)) == list(read_lines(plain)) == [failed(1), "", failed(2)]
    assert list(lines_of(io.BytesIO(gzip.compress(b"a\nb")))) == ["a", "b"]


def test_bytes_that_are_no_text_end_nothing():
    """They are shown escaped."""
    raw = b"\xff\xfe\x00" + failed(1).encode() + b"\n\x00\x80\n"
    assert len(list(lines_of(io.BytesIO(raw)))) == 2
    assert tally(lines_of(io.BytesIO(raw)), read_matcher()).entries[0].count == 1


def test_a_line_without_end_is_read_in_pieces():
    """Ten million bytes without a line break are never in memory at once."""
    lines = lines_of(io.BytesIO(b"x" * 10_000_000))
    assert max(map(len, lines)) == 65_536


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path):
    """A missing file, a directory, and a truncated compressed file."""
    broken = tmp_path / "cut.gz"
    broken.write_bytes(gzip.compress(b"a\n" * 10_000)[:-20])
    for path in (tmp_path / "none.log", tmp_path, broken):
        with pytest.raises(ExporterError, match=rf"^cannot read {path}: \w"):
            list(read_lines(path))

"""Counting the messages of a log: packed or not, with bytes of any kind, in bounded memory."""

import gzip
import io
from pathlib import Path

import pytest

from exporters.messages.real_lines import LINES
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.messages import tally as counting
from rebalance_exporters.messages.matching import read_matcher
from rebalance_exporters.messages.tally import lines_of, read_lines, tally

FAILED = "2026-03-01 14:05:{at:02d} INFO Member {member} in group {group} has failed, removing it from the group"


def failed(at: int, member: str = "a", group: str = "orders") -> str:
    return FAILED.format(at=at, member=member, group=group)


def test_messages_are_counted_per_group_and_client():
    """How often, in which lines, and when first and last; what matters comes before what is ordinary."""
    lines = [failed(1), "nothing", "(Re-)joining group orders", "(Re-)joining group orders", failed(2, "b"), failed(9)]
    counted = tally(lines, read_matcher())
    told = [(each.message.id, each.group, each.client, each.count) for each in counted.entries]
    assert told == [
        ("broker_member_failed", "orders", "a", 2),
        ("broker_member_failed", "orders", "b", 1),
        ("kp_rejoining", "orders", None, 2),
    ]
    first = counted.entries[0]
    assert (first.first_line, first.last_line) == (1, 6)
    assert (first.first_at, first.last_at) == ("2026-03-01 14:05:01", "2026-03-01 14:05:09")
    assert (counted.lines, counted.is_merged) == (6, False)


def test_a_line_counts_once():
    """Of several messages in it, the longest."""
    assert sum(each.count for each in tally([each.text for each in LINES], read_matcher()).entries) == len(LINES)


def test_memory_has_a_bound(monkeypatch: pytest.MonkeyPatch):
    """Beyond it clients, then groups are no longer told apart; none is lost from the counts."""
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
    """They are shown as such."""
    raw = b"\xff\xfe\x00" + failed(1).encode() + b"\n\x00\x80\n"
    assert len(list(lines_of(io.BytesIO(raw)))) == 2
    assert tally(lines_of(io.BytesIO(raw)), read_matcher()).entries[0].count == 1


def test_a_line_without_end_is_read_in_pieces():
    """Ten million bytes without a line break are never held at once."""
    lines = lines_of(io.BytesIO(b"x" * 10_000_000))
    assert max(map(len, lines)) == 65_536


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path):
    """A file that is not there, a folder, and a packed one that breaks off."""
    broken = tmp_path / "cut.gz"
    broken.write_bytes(gzip.compress(b"a\n" * 10_000)[:-20])
    for path in (tmp_path / "none.log", tmp_path, broken):
        with pytest.raises(ExporterError, match=rf"^cannot read {path}: \w"):
            list(read_lines(path))

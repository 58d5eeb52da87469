"""Reading recordings: plain, compressed, truncated, and damaged."""

import gzip
from pathlib import Path

import pytest

from rebalance_streaming.recordings.recording import RecordedLine, ReplayError, read_lines

LINES = [
    f'{{"partition":0,"offset":{offset},"timestamp_ms":{offset},"key_hex":"00","value_hex":null}}\n'.encode()
    for offset in range(3000)
]


def read(content: bytes, directory: Path) -> tuple[list[RecordedLine], list[str]]:
    """Read a file as the command line does; return the lines and the messages."""
    file, said = directory / "recording", list[str]()
    file.write_bytes(content)
    with file.open("rb") as opened:
        return list(read_lines([opened], notify=said.append)), said


@pytest.mark.parametrize(
    "content",
    [
        b"".join(LINES),
        b"".join(LINES)[:-1],
        gzip.compress(b"".join(LINES)),
        gzip.compress(b"".join(LINES[:7])) + gzip.compress(b"".join(LINES[7:])),
    ],
    ids=["plain", "no last line end", "gzip", "gzip in two parts"],
)
def test_all_lines_are_read(tmp_path: Path, content: bytes):
    """Compression is detected by the first bytes, not by the name."""
    lines, said = read(content, tmp_path)
    assert [line.offset for line in lines] == list(range(3000))
    assert said == []


def test_a_cut_last_line_is_left_out_and_reported(tmp_path: Path):
    """A recorder that was killed has written all lines before it."""
    lines, said = read(b"".join(LINES[:5])[:-9], tmp_path)
    assert [line.offset for line in lines] == [0, 1, 2, 3]
    (reported,) = said
    assert "recording line 5 is cut off and left out" in reported


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_of_a_cut_compressed_recording_all_is_read_that_is_there(tmp_path: Path, share: float):
    """Without the end of the file gzip itself would discard its last data."""
    packed = gzip.compress(b"".join(LINES))
    lines, said = read(packed[: int(share * len(packed))], tmp_path)
    assert len(lines) > 3000 * share / 2
    assert [line.offset for line in lines] == list(range(len(lines)))
    assert len(said) <= 1


def test_a_damaged_compressed_recording_is_named(tmp_path: Path):
    """One sentence with the file."""
    with pytest.raises(ReplayError, match="recording is damaged"):
        read(gzip.compress(b"".join(LINES))[:50] + b"\xff" * 100, tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"partition":0,\n', "line 2: "),
        (LINES[0].replace(b'"00"', b'"0x"'), "line 2: key_hex or value_hex is not hexadecimal"),
        (LINES[0].replace(b"null}", b'"00","headers":{"a":"zz"}}'), "line 2: key_hex or value_hex is not hexadecimal"),
        (b"\xff\n", "line 2: "),
    ],
)
def test_a_bad_line_is_named_with_its_file_and_number(tmp_path: Path, line: bytes, said: str):
    """Only a last line can be truncated; otherwise the file is no recording."""
    with pytest.raises(ReplayError, match=f"recording {said}"):
        read(LINES[0] + line + LINES[1], tmp_path)

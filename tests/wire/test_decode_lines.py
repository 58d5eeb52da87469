"""The `decode` filter: JSON lines in, the same lines with decoded fields out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_streaming.recordings.decode_lines import decode_line, decode_stream

KEY = "00010002673100066f726465727300000003"
VALUE = "000300000000000000640000000700000000019b76daa800"
#: A classic group's value: protocol type, generation 1, protocol "p", leader "m", one member.
GROUP_KEY = "000200026731"


def decoded(**fields: Any) -> dict[str, Any]:
    """Decode one object."""
    answer = json.loads(decode_line(json.dumps(fields), 1))
    assert isinstance(answer, dict)
    return answer


def group_value(protocol_type: str, subscription: bytes, assignment: bytes) -> str:
    """Encode a group of one member in version 0."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(2, "big") + value.encode()

    def octets(value: bytes) -> bytes:
        return len(value).to_bytes(4, "big") + value

    member = text("m") + text("c") + text("/h") + bytes(4) + octets(subscription) + octets(assignment)
    return (bytes(2) + text(protocol_type) + b"\0\0\0\1" + text("p") + text("m") + b"\0\0\0\1" + member).hex()


def test_a_commit_is_shown_under_kafkas_names_next_to_what_came_with_it() -> None:
    """The given fields stay, in front; outcome, type, versions, key and value are added."""
    assert decoded(offset=7, key_hex=KEY, value_hex=VALUE) == {
        "offset": 7,
        "key_hex": KEY,
        "value_hex": VALUE,
        "outcome": "decoded",
        "type": 1,
        "type_name": "OFFSET_COMMIT",
        "key_version": 0,
        "value_version": 3,
        "key": {"group": "g1", "topic": "orders", "partition": 3},
        "value": {"offset": 100, "leaderEpoch": 7, "metadata": "", "commitTimestamp": 1767225600000},
    }


def test_a_null_value_is_a_tombstone() -> None:
    """Its key is shown, version and value are null, and there is no error."""
    answer = decoded(key_hex=KEY, value_hex=None)
    assert (answer["outcome"], answer["value_version"], answer["value"]) == ("tombstone", None, None)
    assert answer["key"]["group"] == "g1"
    assert "error" not in answer


@pytest.mark.parametrize(
    ("fields", "outcome", "error"),
    [
        pytest.param({"key_hex": "00120000", "value_hex": ""}, "unsupported", "type 18", id="unknown type"),
        pytest.param({"key_hex": KEY, "value_hex": "0005"}, "unsupported", "version 5", id="unknown version"),
        pytest.param({"key_hex": KEY, "value_hex": VALUE + "00"}, "corrupt", "left over", id="trailing byte"),
        pytest.param({"key_hex": KEY, "value_hex": VALUE[:-2]}, "corrupt", "wanted", id="truncated"),
        pytest.param({"key_hex": "", "value_hex": VALUE}, "corrupt", "no record type", id="empty key"),
        pytest.param({"key_hex": None, "value_hex": VALUE}, "corrupt", "key is null", id="null key"),
    ],
)
def test_what_cannot_be_read_says_why(fields: dict[str, Any], outcome: str, error: str) -> None:
    """Unsupported and corrupt records have an error that names the cause."""
    answer = decoded(**fields)
    assert answer["outcome"] == outcome
    assert error in answer["error"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("not json", "line 4: not JSON"),
        ('{"key_hex": "00"', "line 4: not JSON"),
        ("[" * 100_000, "line 4: not JSON"),
        ("[1]", "line 4: not a JSON object"),
        ("{}", "line 4: key_hex is missing"),
        ('{"key_hex": "0g", "value_hex": null}', "line 4: key_hex is not hexadecimal"),
        ('{"key_hex": "000", "value_hex": null}', "line 4: key_hex is not hexadecimal"),
        (f'{{"key_hex": "{KEY}", "value_hex": "zz"}}', "line 4: value_hex is not hexadecimal"),
        ('{"key_hex": 5, "value_hex": null}', "line 4: key_hex is not a string"),
    ],
)
def test_a_bad_line_is_answered_by_its_number_and_what_is_wrong(line: str, error: str) -> None:
    """The output has outcome corrupt, no type, and an error that starts with the line's number."""
    answer = json.loads(decode_line(line, 4))
    assert (answer["outcome"], answer["type"], answer["key"]) == ("corrupt", None, None)
    assert answer["error"].startswith(error)


def test_a_stream_goes_on_behind_bad_lines_and_counts_blank_ones() -> None:
    """Blank lines are skipped but numbered, so that the number is the one an editor shows."""
    good = json.dumps({"key_hex": KEY, "value_hex": VALUE})
    answers = [json.loads(line) for line in decode_stream(["\n", good + "\n", "  \n", "oops\n", good])]
    assert [answer["outcome"] for answer in answers] == ["decoded", "corrupt", "decoded"]
    assert answers[1]["error"].startswith("line 4:")


def test_every_line_can_be_printed_anywhere() -> None:
    """Output is ASCII: neither a terminal's encoding nor a lone surrogate in a passed-on field can stop the stream."""
    line = decode_line('{"note": "\\ud800 \\u00fc", "key_hex": "zz"}', 1)
    assert line.isascii()
    assert json.loads(line)["note"] == "\ud800 ü"


def test_a_consumer_groups_members_are_read() -> None:
    """An empty assignment means no partitions, and unreadable bytes are shown with the reason."""
    answer = decoded(key_hex=GROUP_KEY, value_hex=group_value("consumer", b"\xff\xff", b""))
    assert answer["members"] == [
        {
            "memberId": "m",
            "subscription": {"error": "version -1", "raw": "//8="},
            "assignment": {"version": 0, "data": {"assignedPartitions": [], "userData": None}, "bytes_left": 0},
        }
    ]
    assert "subscription" not in answer["value"]["members"][0]


def test_other_groups_members_stay_opaque() -> None:
    """Only protocol type "consumer" uses the consumer protocol; the bytes of others are shown unchanged."""
    answer = decoded(key_hex=GROUP_KEY, value_hex=group_value("sr", b'{"', b"{}"))
    assert "members" not in answer
    assert answer["value"]["members"][0]["subscription"] == "eyI="


@pytest.mark.generated
@settings(deadline=None)
@given(st.lists(st.text() | st.dictionaries(st.text(), st.text() | st.none()).map(json.dumps)))
def test_there_is_one_answer_per_line_that_is_not_blank(lines: list[str]) -> None:
    """For any lines there are no exceptions, no line is dropped, and every output is an object with an outcome."""
    answers = [json.loads(line) for line in decode_stream(lines)]
    assert len(answers) == sum(bool(line.strip()) for line in lines)
    assert all(answer["outcome"] in {"decoded", "tombstone", "unsupported", "corrupt"} for answer in answers)

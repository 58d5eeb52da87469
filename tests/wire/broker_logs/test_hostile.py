"""Lines made to cost time, and random ones: producers with access to a broker log topic must not stop the stream.

Bounds are of processor time and ten times the measured values; they detect growth faster than the length.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.timing import least_time
from rebalance_streaming.wire.broker_logs.decode import MAX_LINE, decode_record
from rebalance_streaming.wire.broker_logs.texts import TEXTS

MARK = "[GroupCoordinator id=1 topic=__consumer_offsets partition=12] "
SECONDS = 1.0

#: A full line each: the beginning of a text, and repeated words of texts.
LINES = {
    "in group": f"{MARK}Member " + " in group" * (MAX_LINE // 10),
    "brackets": f"{MARK}[GroupId " + "] " * (MAX_LINE // 3),
    "marks": "[GroupCoordinator " * (MAX_LINE // 19),
    "parentheses": MARK + " (" * (MAX_LINE // 3),
    "reasons": f"{MARK}Preparing to rebalance group g in state Stable with old generation 1 (reason: "
    + "; client reason: " * (MAX_LINE // 18),
    "members": f"{MARK}Group g removed dynamic members who haven't joined: [" + "a, " * (MAX_LINE // 4) + "a]",
    "digits": f"{MARK}Group g with generation " + "9" * (MAX_LINE - 200) + " is now empty",
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_costs_what_its_length_costs(name: str):
    """Ten of the longest worst-case lines take less than a second of processor time."""
    value = "\n".join([LINES[name]] * 10).encode()
    assert least_time(lambda: decode_record(value, None)) < SECONDS


@pytest.mark.generated
@given(
    st.sampled_from(TEXTS),
    st.lists(
        st.text(max_size=20) | st.sampled_from([" in group ", "] ", "Set(", "5", "Stable"]), min_size=8, max_size=8
    ),
    st.sampled_from(["", ".", " (x.GroupCoordinator)", ")."]),
)
def test_any_value_in_any_text_ends_in_an_outcome(text, values, end):
    """For any values in a text, each line is counted once and there are no exceptions."""
    words = text.template.words
    line = words[0] + "".join(value + after for value, after in zip(values, words[1:], strict=False)) + end
    lines = decode_record(f"[2026-11-22 23:58:48,123] INFO {MARK}{line}".encode(errors="replace"), None)
    assert sum(lines.counts.values()) >= 1


@pytest.mark.generated
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="replace")))
def test_any_bytes_end_in_an_outcome(value):
    """There are no exceptions for any content of a record."""
    assert sum(decode_record(value, None).counts.values()) >= 1

"""Server-sent events, for any division of the bytes."""

import pytest

from rebalance_exporters.terminal.sse import ServerEvent, read_events

STREAM = (
    "id: 1\nevent: hello\ndata: {}\n\n: a comment\ndata: a\r\ndata:b\r\r"
    "id: 2\revent: x\r\ndata: ü\u2028\u0085\r\n\r\nid: 3\n\ndata: cut"
).encode()
EVENTS = [
    ServerEvent("hello", "{}", "1"),
    ServerEvent("message", "a\nb", "1"),
    ServerEvent("x", "ü\u2028\u0085", "2"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_for_every_cut(size):
    """Lines end at CR, LF and CRLF and at no other character; an incomplete event is ignored."""
    chunks = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert list(read_events(chunks)) == EVENTS


def test_an_id_without_data_is_no_event():
    """But it updates the last known id."""
    assert list(read_events([b"id: 7\n\ndata: x\n\n"])) == [ServerEvent("message", "x", "7")]

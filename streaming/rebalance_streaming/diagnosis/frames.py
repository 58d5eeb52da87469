"""The protocol between the driver and the diagnosis over a socket: length-prefixed frames of msgpack.

The driver sends `Start` once, then `Rows` and `Tick` in any order; each is answered by one `Done`, or a `Start` that
fails by one `Failed`. If one side closes the connection, the other stops.
"""

from __future__ import annotations

import socket
import struct

import msgspec

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig

_LENGTH = struct.Struct(">I")


class InputRow(msgspec.Struct, frozen=True, array_like=True):
    """One row of an input topic, by the topic's short name.

    `at_ms` is the record's timestamp, `writer` the header that names its writer, null if it has none.
    """

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    writer: bytes | None = None


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Settings of the diagnosis, and items quarantined in earlier runs of this process: (stage, reason, count).

    `epoch` is the writer epoch of its rows (`rebalance_contract.epochs`).
    """

    config: StreamConfig
    detect: DetectConfig
    judge_from_ms: int
    epoch: int
    quarantined: tuple[tuple[str, str, int], ...] = ()


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    """Input rows in the order of their times."""

    rows: tuple[InputRow, ...]


class Tick(msgspec.Struct, frozen=True, tag="tick"):
    """A clock tick. `read_until_ms`: time up to which the inputs have been read. No output before `caught_up`."""

    now_ms: int
    read_until_ms: int
    caught_up: bool


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The frame has been processed. `said` are messages for people, `waiting` is the number of undelivered rows."""

    said: tuple[str, ...] = ()
    waiting: int = 0


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The process cannot start and exits. `reason` is text for people."""

    reason: str


Frame = Start | Rows | Tick | Done | Failed
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def send(connection: socket.socket, frame: Frame) -> None:
    """Send a frame. Raises OSError, or TimeoutError if the other side does not read in time."""
    text = _encoder.encode(frame)
    connection.sendall(_LENGTH.pack(len(text)) + text)


def receive(connection: socket.socket) -> Frame | None:
    """Return the next frame, or null at the end of the connection. Raises TimeoutError."""
    head = _read(connection, _LENGTH.size)
    if head is None:
        return None
    text = _read(connection, *_LENGTH.unpack(head))
    return None if text is None else _decoder.decode(text)


def _read(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)

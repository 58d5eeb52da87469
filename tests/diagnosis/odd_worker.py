"""A process that is fed like the diagnosis process and obeys rows: `kill`, `hang`; others are echoed."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

from rebalance_streaming.diagnosis.frames import Done, Rows, Start, Tick, receive, send


def obey(value: bytes | None) -> str:
    """Obey a row and return its text."""
    if value == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if value == b"hang":
        threading.Event().wait()
    return (value or b"").decode()


def main() -> None:
    """Answer frames until the connection ends."""
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        while (frame := receive(connection)) is not None:
            said: tuple[str, ...] = ()
            if isinstance(frame, Start):
                said = (f"started {os.getpid()} {frame.judge_from_ms} {frame.quarantined}",)
            elif isinstance(frame, Rows):
                said = ("took " + ",".join(obey(row.value) for row in frame.rows),)
            elif isinstance(frame, Tick):
                said = (f"ticked {frame.now_ms} {frame.read_until_ms} {frame.caught_up}",)
            send(connection, Done(said, len(said)))


if __name__ == "__main__":
    main()

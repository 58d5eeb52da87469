"""A process that reports at its start that it cannot continue."""

from __future__ import annotations

import socket
import sys

from rebalance_streaming.diagnosis.frames import Failed, receive, send


def main() -> None:
    """Answer the first frame."""
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        receive(connection)
        send(connection, Failed("status-0 could not be read"))


if __name__ == "__main__":
    main()

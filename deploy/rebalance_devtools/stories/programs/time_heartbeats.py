"""A kafka-python consumer, of any version from 2.0 on, that measures the time between its own heartbeats.

python -m rebalance_devtools.stories.programs.time_heartbeats FORM SECONDS TOPIC '{"bootstrap_servers": …, …}'

FORM is `poll` (poll(100 ms) in a loop), `spin` (poll(0) in a loop), `busy` (`poll`, while another thread computes in
Python) or `pause` (`busy` with a sleep of 1 ms in each turn). Prints one JSON object: `sent`, the number of heartbeats;
`longest_s`, the longest time between two of them; `failed_commits`; `longest_poll_s`, the longest time between two
polls.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
import threading
import time
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.heartbeat import Heartbeat
from kafka.errors import KafkaError

_POLL_MS = {"poll": 100, "spin": 0, "busy": 100, "pause": 100}


def note_heartbeats(sent: list[float]) -> None:
    """Add the time of each heartbeat that is sent from now on to a list."""
    send = Heartbeat.sent_heartbeat

    def noted(heartbeat: Any) -> None:
        sent.append(time.monotonic())
        send(heartbeat)

    Heartbeat.sent_heartbeat = noted


def compute(ended: threading.Event) -> None:
    """Compute in Python until the end: it gives the interpreter up only when asked to."""
    number = 0
    while not ended.is_set():
        for _ in range(10_000):
            number = (number * 31 + 7) % 1_000_003


def main(form: str, seconds: float, topic: str, settings: dict[str, Any]) -> None:
    """Consume for a time from the first assignment on, commit what is read, and print the measurements."""
    logging.disable(logging.CRITICAL)
    sent: list[float] = []
    note_heartbeats(sent)
    consumer = KafkaConsumer(topic, enable_auto_commit=False, **settings)
    while not consumer.assignment():
        consumer.poll(timeout_ms=100)
    ended = threading.Event()
    if form in ("busy", "pause"):
        threading.Thread(target=compute, args=(ended,), daemon=True).start()
    began = polled = time.monotonic()
    failed, longest_poll = 0, 0.0
    while (now := time.monotonic()) < began + seconds:
        longest_poll, polled = max(longest_poll, now - polled), now
        if consumer.poll(timeout_ms=_POLL_MS[form]):
            try:
                consumer.commit()
            except KafkaError:
                failed += 1
        if form == "pause":
            time.sleep(0.001)
    ended.set()
    times = [began, *(at for at in sent if at >= began), now]
    longest = max(after - before for before, after in itertools.pairwise(times))
    found = {"sent": len(times) - 2, "longest_s": longest, "failed_commits": failed, "longest_poll_s": longest_poll}
    print(json.dumps(found), flush=True)  # noqa: T201 - the program's result


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))

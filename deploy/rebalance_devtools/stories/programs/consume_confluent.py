"""A confluent-kafka consumer; settings are passed through.

python -m rebalance_devtools.stories.programs.consume_confluent '{"name": …, "topics": […], "settings": {…}, …}'
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException

from rebalance_devtools.stories.programs.event_log import EventLog, Stopped, on_signal, stop_on_sigterm


@dataclass
class Spec:
    """Options of the program.

    `work_ms` is spent on each record, `revoke_ms` in the revocation callback, `take_ms` in the assignment callback.
    With `commit` each record is committed after processing. SIGUSR1 makes the program sleep for `stall_ms`. SIGUSR2
    makes it subscribe to `later_topics` or, if there are none, pause its partitions: it continues to poll but gets no
    records. `members` consumers run in this process, polled in turn. After `exit_after_ms`, or at a record whose value
    is `dies_of`, it dies without closing, with exit code 1. For each record `record_bytes` are written to the file
    `output`; the disk is full at `disk_bytes`, and then the program dies or, with `waits_for_room`, retries forever.
    `metrics_topic` is the topic to which the project's reporter sends the clients' metrics; None for no reporter.
    """

    name: str
    topics: list[str]
    settings: dict[str, Any]
    work_ms: int = 0
    revoke_ms: int = 0
    take_ms: int = 0
    stall_ms: int = 0
    commit: bool = False
    members: int = 1
    exit_after_ms: int | None = None
    dies_of: str | None = None
    output: str | None = None
    record_bytes: int = 100_000
    disk_bytes: int = 1_000_000
    waits_for_room: bool = False
    later_topics: list[str] = field(default_factory=list)
    metrics_topic: str | None = None


def open_consumer(spec: Spec, on_error: Callable[[KafkaError], None]) -> Any:
    """Return the consumer, with a reporter if there is a `metrics_topic`."""
    settings = {"log_level": 0, **spec.settings, "error_cb": on_error}
    if spec.metrics_topic is None:
        return Consumer(settings)
    from rebalance_exporters.reporters.confluent import report  # noqa: PLC0415 - without it no reporter is needed

    return report(Consumer, settings, topic=spec.metrics_topic)


class Member:
    """One consumer, with its event log."""

    def __init__(self, spec: Spec, event_log: EventLog) -> None:
        """Open the consumer and subscribe."""
        self._spec, self._event_log = spec, event_log
        self._fatal: KafkaError | None = None
        self.consumer = open_consumer(spec, self._note_error)
        self._subscribe(spec.topics)

    def change(self) -> None:
        """Subscribe to the later topics, or pause all partitions if there are none."""
        self._event_log.write("changes", topics=self._spec.later_topics)
        if self._spec.later_topics:
            self._subscribe(self._spec.later_topics)
        else:
            self.consumer.pause(self.consumer.assignment())

    def _subscribe(self, topics: list[str]) -> None:
        self.consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def poll(self, seconds: float) -> None:
        """Poll once, and process the record."""
        message = self.consumer.poll(seconds)
        error = self._fatal or (None if message is None else message.error())
        if error is not None:
            self._event_log.write("error", error=error.name(), text=error.str())
            if is_fatal(error):
                die(3)
        if message is None or message.error() is not None:
            return
        self._event_log.write_records([(message.topic() or "", message.partition() or 0, message.offset() or 0)])
        if self._spec.dies_of is not None and message.value() == self._spec.dies_of.encode():
            self._event_log.write("dies", partition=message.partition(), offset=message.offset())
            die(1)
        time.sleep(self._spec.work_ms / 1000)
        self._write()
        if self._spec.commit:
            self._commit()

    def _write(self) -> None:
        """Write a record to the output file; if the disk is full, die or retry."""
        while self._spec.output is not None:
            try:
                with Path(self._spec.output).open("ab") as file:
                    file.write(b"x" * self._spec.record_bytes)
                    return
            except OSError as error:
                self._event_log.write("disk_full", error=error.strerror)
                if not self._spec.waits_for_room:
                    die(1)
                time.sleep(1)

    def _note_error(self, error: KafkaError) -> None:
        # Fencing detected by a commit is reported only here.
        if is_fatal(error):
            self._fatal = error

    def _commit(self) -> None:
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            self._event_log.write("commit_failed", error=error.args[0].name(), text=error.args[0].str())
        else:
            self._event_log.write("committed")

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        places = sorted([each.topic, each.partition] for each in partitions)
        self._event_log.write("assigned", partitions=places, member_id=self.consumer.memberid())
        if places:
            time.sleep(self._spec.take_ms / 1000)

    def _revoked(self, _: Any, partitions: list[Any]) -> None:
        time.sleep(self._spec.revoke_ms / 1000)
        self._event_log.write("revoked", partitions=sorted([each.topic, each.partition] for each in partitions))

    def _lost(self, _: Any, partitions: list[Any]) -> None:
        self._event_log.write("lost", partitions=sorted([each.topic, each.partition] for each in partitions))


def is_fatal(error: KafkaError) -> bool:
    """Return whether the consumer can no longer be used; the error code _FATAL itself does not count as fatal."""
    return bool(error.fatal() or error.code() == KafkaError._FATAL)


def die(code: int) -> NoReturn:
    """Exit without closing anything, as in a crash; a fenced consumer could not even be closed."""
    os._exit(code)


def stall(length_ms: int, event_log: EventLog) -> None:
    """Sleep without polling."""
    event_log.write("stalls", milliseconds=length_ms)
    time.sleep(length_ms / 1000)


def change_all(members: Sequence[Member]) -> None:
    """Call `change` of every member."""
    for member in members:
        member.change()


def main(text: str) -> None:
    """Consume until SIGTERM or `exit_after_ms`."""
    spec = Spec(**json.loads(text))
    event_log = EventLog(spec.name)
    stop_on_sigterm()
    # The handler only sets a flag: it runs inside poll(), where an application does not do its work.
    stalls: list[int] = []
    on_signal(signal.SIGUSR1, lambda: stalls.append(spec.stall_ms))
    if spec.output is not None:
        # Limits all files of this process; its own log stays far below.
        resource.setrlimit(resource.RLIMIT_FSIZE, (spec.disk_bytes, spec.disk_bytes))
    members = [Member(spec, event_log) for _ in range(spec.members)]
    on_signal(signal.SIGUSR2, lambda: change_all(members))
    event_log.write("started")
    until = None if spec.exit_after_ms is None else time.monotonic() + spec.exit_after_ms / 1000
    try:
        while until is None or time.monotonic() < until:
            for member in members:
                member.poll(0.2 / spec.members)
            if stalls:
                stall(stalls.pop(), event_log)
        event_log.write("dies")
        die(1)
    except Stopped:
        for member in members:
            member.consumer.close()
        event_log.write("closed")


if __name__ == "__main__":
    main(sys.argv[1])

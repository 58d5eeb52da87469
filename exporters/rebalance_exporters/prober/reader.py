"""Reads the stream's topics to learn which topics groups use.

`…groups` and `…lag` are compacted and read from their beginning: together they name the topics of every group that has
members or ever committed. `…activity` only adds new ones, so it is read from its end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError

from rebalance_contract import ContractError
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.tasks import ErrorLog, describe, describe_kafka
from rebalance_kafka.clock import epoch_ms
from rebalance_kafka.follower import Follower, Record
from rebalance_kafka.positions import Bounds, Place, start_at_beginning, start_at_end
from rebalance_kafka.refusals import refusals_as

_BATCH = 2_000
#: Maximum wait for a batch that is not full, which is also the maximum delay of a new topic.
_POLL_SECONDS = 0.2
#: A call ends after this time even if there is more to read.
_READ_SECONDS = 1.0
_WHAT = "interests"


class InterestReader:
    """Fills `interests`; `read` is called repeatedly, from one thread."""

    def __init__(self, config: ProbeConfig, interests: Interests, error_log: ErrorLog) -> None:
        """Make the Kafka client. Raises ExporterError if it refuses its properties."""
        self._interests = interests
        self._error_log = error_log
        self._groups_topic, self._lag_topic = config.groups_topic, config.lag_topic
        self._activity_topic = config.activity_topic
        wanted = (self._groups_topic, self._lag_topic, self._activity_topic)
        with refusals_as(ExporterError):
            self._follower = Follower(config.kafka, wanted, name="probe", start=self._start, on_error=self._note_error)

    def close(self) -> None:
        """Close the client."""
        self._follower.close()

    def read(self) -> None:
        """Read what is available now; returns within about a second. Raises KafkaException."""
        if self._follower.is_look_due:
            self._follower.look()
        deadline = time.monotonic() + _READ_SECONDS
        while time.monotonic() < deadline:
            records = self._follower.poll(_POLL_SECONDS, _BATCH)
            for record in records:
                self._apply(record)
            if len(records) < _BATCH:
                break

    def _start(self, bounds: Mapping[Place, Bounds]) -> Mapping[Place, int]:
        """Return where to start: the activity topic at its end, or at its beginning if the lag topic is empty.

        With an empty lag topic, only the activity topic has the commits from before the prober's start.
        """
        if not any(each.end > each.beginning for (topic, _), each in bounds.items() if topic == self._lag_topic):
            return start_at_beginning(bounds)
        return start_at_end({place: each for place, each in bounds.items() if place[0] == self._activity_topic})

    def _apply(self, record: Record) -> None:
        """Process one row. If it fails, it is counted, and reported once per topic; the other rows are still read."""
        try:
            if record.topic == self._groups_topic:
                self._interests.apply_group(record.key, record.value)
            elif record.topic == self._lag_topic:
                self._interests.apply_lag(record.key, record.value)
            else:
                self._interests.apply_activity(record.value, epoch_ms())
        except ContractError as problem:
            self._set_aside(record.topic, str(problem))
        except Exception as problem:  # an error affects only this row
            self._set_aside(record.topic, describe(problem))

    def _set_aside(self, topic: str, problem: str) -> None:
        sentence = f"a row of {topic} is not understood, is the stream newer? {problem}"
        self._error_log.note(_WHAT, sentence, about=f"rows of {topic}")

    def _note_error(self, error: KafkaError, _topic: str | None) -> None:
        self._error_log.note(_WHAT, f"reading the stream's topics: {describe_kafka(error)}")

"""Check whether brokers answer, once or until they do, and whether a retry can help if they do not.

Processes wait for the brokers at their start instead of exiting: brokers come back, and a process that exited would be
restarted only minutes after them. A rejected login or certificate is a lasting error that only a change of the settings
can fix.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from rebalance_kafka.backoff import Backoff
from rebalance_kafka.properties import librdkafka_properties

#: Errors of clients while no broker answers.
UNREACHABLE = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)

_REACH_SECONDS = 10.0
#: Interval at which the client's errors are checked, so that a rejection is reported before the time-out.
_LOOK_SECONDS = 1.0
#: Back-off between attempts; reading has to resume within half a minute after brokers are back.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 10.0
#: Maximum number of errors remembered; several brokers are tried in turn.
_COMPLAINTS = 100

_log = logging.getLogger(__name__)


class NoAnswerError(Exception):
    """No broker answers; the text is a sentence that says why and what to check.

    `is_lasting`: the client's settings are wrong, and a retry does not help.
    """

    def __init__(self, text: str, *, is_lasting: bool = False) -> None:
        super().__init__(text)
        self.is_lasting = is_lasting


class Reachability:
    """Checks whether the brokers of one cluster answer, with a client of its own."""

    def __init__(self, kafka: Mapping[str, str], name: str) -> None:
        """Create the client, which connects in the background. Raises KafkaException if it rejects its properties.

        `kafka` are settings as a user writes them. `name` distinguishes this client from others in the brokers' logs.
        """
        self._servers = kafka.get("bootstrap.servers", "")
        self._complaints: deque[KafkaError] = deque(maxlen=_COMPLAINTS)
        properties = {
            "client.id": f"rebalance-monitor-{name}",
            **librdkafka_properties(kafka),
            "log_level": 0,  # relevant errors are part of the exception that is raised
            "error_cb": self._complaints.append,
        }
        self._admin = AdminClient(properties, logger=_log)

    def ask(self, timeout_seconds: float | None = None, stop: threading.Event | None = None) -> str:
        """Return the cluster's id. Raises NoAnswerError if no broker answers in time (10 s) or before `stop` is set.

        This is a single request that may use the whole time, so slow brokers are waited for.
        """
        self._complaints.clear()
        seconds = _REACH_SECONDS if timeout_seconds is None else timeout_seconds
        answer: Future[str] = Future()
        threading.Thread(target=self._ask, args=(answer, seconds), name="reachability", daemon=True).start()
        problem = KafkaError(KafkaError._TIMED_OUT)
        while stop is None or not stop.is_set():
            # Determined once: an answer may arrive between a time-out and a second look.
            is_answered = bool(wait([answer], _LOOK_SECONDS).done)
            try:
                if is_answered:
                    return answer.result()
            except KafkaException as error:
                problem = error.args[0]
            # Fetch the client's own errors, which are more specific than "timed out".
            self._admin.poll(0)
            self._raise_if_refused()
            if is_answered:
                break
        raise NoAnswerError(self._describe(problem))

    def _ask(self, answer: Future[str], timeout_seconds: float) -> None:
        """Request metadata, the only request that brokers of all versions answer."""
        try:
            answer.set_result(str(self._admin.list_topics(timeout=timeout_seconds).cluster_id))
        except Exception as error:
            # Pass every error on to the waiting thread.
            answer.set_exception(error)

    def ask_until_answered(self, stop: threading.Event, on_failure: Callable[[NoAnswerError], None]) -> str | None:
        """Retry until brokers answer, and return the cluster's id; null if `stop` is set before.

        `on_failure` gets each failure, and may raise it to give up.
        """
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, random.random)
        while not stop.is_set():
            try:
                return self.ask(stop=stop)
            except NoAnswerError as error:
                if not stop.is_set():
                    on_failure(error)
            stop.wait(backoff.fail())
        return None

    def _raise_if_refused(self) -> None:
        refusal = next(filter(is_refusal, self._complaints), None)
        if refusal is not None:
            raise NoAnswerError(
                f"the brokers at {self._servers} and this client do not accept each other ({_text(refusal)}): "
                "check kafka.security.protocol and the other security settings under [kafka]",
                is_lasting=True,
            )

    def _describe(self, error: KafkaError) -> str:
        # The error of a single broker is more specific than "all brokers are down".
        causes = [each for each in self._complaints if each.code() != KafkaError._ALL_BROKERS_DOWN]
        return (
            f"no Kafka broker answers at {self._servers} ({_text(causes[-1] if causes else error)}): "
            "check kafka.bootstrap.servers (--bootstrap-server), the network and the security settings under [kafka]"
        )


def is_refusal(error: KafkaError) -> bool:
    """Whether a client's error means that its settings are wrong, not that a broker is unavailable."""
    text = str(error.str())
    if error.code() == KafkaError._AUTHENTICATION:
        # The token endpoint may be temporarily unavailable, as brokers may.
        return "Failed to acquire" not in text
    # A load balancer without brokers behind it disconnects in the middle of a handshake.
    return error.code() == KafkaError._SSL and "Disconnected" not in text


def _text(error: KafkaError) -> str:
    """Return librdkafka's error without the duration, which differs each time."""
    return str(error.str()).partition(" (after ")[0]

"""Whether brokers answer: the messages if none does, and permanent errors."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mock_cluster import MockCluster
from rebalance_kafka import reachability
from rebalance_kafka.reachability import NoAnswerError, Reachability, is_refusal

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
DEADLINE_SECONDS = 60.0


@contextmanager
def answering(text: bytes) -> Iterator[dict[str, str]]:
    """A server that answers each connection with a text, and closes it; yield properties that lead there."""
    stop = threading.Event()

    def serve(listener: socket.socket) -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1)
                connection.sendall(text)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield {"bootstrap.servers": f"127.0.0.1:{listener.getsockname()[1]}"}
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(DEADLINE_SECONDS)


def test_brokers_that_answer_say_which_cluster_it_is() -> None:
    """Once the client is accepted, nothing else is queried."""
    cluster = MockCluster()
    found = Reachability({"bootstrap.servers": cluster.bootstrap}, "test").ask(DEADLINE_SECONDS)
    assert found.startswith("mockCluster")


def test_a_broker_that_takes_its_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the client's errors are checked the request is not repeated, because its response would be lost."""
    monkeypatch.setattr(reachability, "_LOOK_SECONDS", 0.05)
    cluster = MockCluster()
    cluster.answer_after(400)
    assert Reachability({"bootstrap.servers": cluster.bootstrap}, "test").ask(DEADLINE_SECONDS).startswith("mock")


def test_an_answer_that_arrives_as_a_wait_ends_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not reported as brokers that do not answer."""
    monkeypatch.setattr(reachability, "_LOOK_SECONDS", 0.0)
    asking: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()
    looked = threading.Event()

    class Late:
        def list_topics(self, timeout: float) -> Any:
            asking.put(threading.current_thread())
            looked.wait(timeout)
            return SimpleNamespace(cluster_id="id")

        def poll(self, _: float) -> None:
            if not looked.is_set():
                looked.set()
                asking.get().join(DEADLINE_SECONDS)

    asked = Reachability(NOWHERE, "test")
    asked._admin = Late()
    assert asked.ask(DEADLINE_SECONDS) == "id"


def test_a_stop_ends_a_question() -> None:
    """It does not wait for brokers that may not answer, and nothing is reported."""
    stop, reported = threading.Event(), list[str]()
    stop.set()
    with pytest.raises(NoAnswerError):
        Reachability(NOWHERE, "test").ask(DEADLINE_SECONDS, stop)
    assert Reachability(NOWHERE, "test").ask_until_answered(stop, lambda error: reported.append(str(error))) is None
    assert not reported


def test_a_question_that_fails_oddly_is_not_waited_for() -> None:
    """Other exceptions of the library propagate."""

    class Broken:
        def list_topics(self, timeout: float) -> None:
            raise RuntimeError(f"not within {timeout}")

    asked = Reachability(NOWHERE, "test")
    asked._admin = Broken()
    with pytest.raises(RuntimeError, match="not within 5"):
        asked.ask(5)


def test_brokers_that_are_away_are_named() -> None:
    """With the reason, without times that would make each message different, and with what to check."""
    with pytest.raises(NoAnswerError) as error:
        Reachability(NOWHERE, "test").ask(0.2)
    assert not error.value.is_lasting
    assert str(error.value).startswith("no Kafka broker answers at 127.0.0.1:1 (")
    assert "check kafka.bootstrap.servers" in str(error.value)
    assert "after" not in str(error.value)


def test_what_is_no_broker_of_tls_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TLS client at a plain-text port will never connect, which is reported at once."""
    monkeypatch.setattr(reachability, "_LOOK_SECONDS", 0.1)
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as kafka, pytest.raises(NoAnswerError) as error:
        Reachability({**kafka, "security.protocol": "SSL"}, "test").ask(DEADLINE_SECONDS)
    assert error.value.is_lasting
    assert "do not accept each other" in str(error.value)
    assert "security.protocol" in str(error.value)


@pytest.mark.parametrize(
    ("code", "text", "lasting"),
    [
        (KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed", True),
        (KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: 503", False),
        (KafkaError._SSL, "SSL handshake failed: certificate verify failed", True),
        (KafkaError._SSL, "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?", False),
        (KafkaError._TRANSPORT, "Connection refused", False),
        (KafkaError._RESOLVE, "Name or service not known", False),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down", False),
    ],
)
def test_only_wrong_settings_are_lasting(code: int, text: str, lasting: bool) -> None:
    """Brokers, name servers and token servers may come back; a rejected login stays rejected."""
    assert is_refusal(KafkaError(code, text)) == lasting


def test_properties_that_the_client_does_not_know_are_refused_at_once() -> None:
    """Before any request."""
    with pytest.raises(KafkaException, match=r"no\.such"):
        Reachability({**NOWHERE, "no.such": "1"}, "test")


class Asked(Reachability):
    """Brokers that answer the third request."""

    def __init__(self) -> None:
        self.failures = [NoAnswerError("away"), NoAnswerError("refused", is_lasting=True)]

    def ask(self, timeout_seconds: float | None = None, stop: threading.Event | None = None) -> str:
        if self.failures:
            raise self.failures.pop(0)
        return "id"


def test_it_is_asked_until_there_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure is reported; the callback decides whether to continue after a permanent one."""
    monkeypatch.setattr(reachability, "_FIRST_PAUSE_SECONDS", 0.0)
    reported: list[str] = []
    assert Asked().ask_until_answered(threading.Event(), lambda error: reported.append(str(error))) == "id"
    assert reported == ["away", "refused"]

    def give_up(error: NoAnswerError) -> None:
        if error.is_lasting:
            raise error

    with pytest.raises(NoAnswerError, match="refused"):
        Asked().ask_until_answered(threading.Event(), give_up)


def test_who_is_stopped_asks_no_more() -> None:
    """Before the first request, and while it waits for the next one."""
    stop = threading.Event()
    assert Asked().ask_until_answered(stop, lambda _: stop.set()) is None
    asked = Asked()
    assert asked.ask_until_answered(stop, lambda _: None) is None
    assert len(asked.failures) == 2

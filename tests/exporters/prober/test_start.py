"""Errors of a prober that cannot start, and what it waits for."""

from __future__ import annotations

import re
import socket
import threading
from typing import Any

import httpx
import pytest

from exporters.prober.probing import make_config
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober import run as module
from rebalance_exporters.prober.run import run
from rebalance_kafka import reachability
from rebalance_kafka.reachability import NoAnswerError
from waiting import wait_for

DEADLINE_SECONDS = 120


@pytest.mark.waits
def test_brokers_that_are_away_are_waited_for(monkeypatch):
    """Healthy and not ready, with the reason; each reason is logged once; a stop request is obeyed meanwhile."""
    monkeypatch.setattr(reachability, "_REACH_SECONDS", 0.1)
    monkeypatch.setattr(reachability, "_FIRST_PAUSE_SECONDS", 0.01)
    stop, said = threading.Event(), list[str]()
    running = threading.Thread(target=run, args=(make_config("127.0.0.1:1", "x."), stop, said.append))
    running.start()
    try:
        wait_for(lambda: len(said) >= 2, lambda: str(said))
        found = re.fullmatch(r"probe: serving on (\S+)/metrics", said[0])
        assert found is not None
        with httpx.Client(base_url=found[1], verify=False, timeout=DEADLINE_SECONDS) as client:
            ready = client.get("/-/ready")
            assert ready.status_code == 503
            assert ready.text.startswith("no Kafka broker answers at 127.0.0.1:1 (")
            assert client.get("/-/healthy").status_code == 200
    finally:
        stop.set()
        running.join(DEADLINE_SECONDS)
    assert not running.is_alive()
    logged = [line for line in said if "no Kafka broker answers" in line]
    assert logged
    # The first attempt may end before the client knows why.
    assert len(logged) == len(set(logged))


def test_a_refused_login_is_one_sentence(monkeypatch):
    """Waiting does not fix settings."""

    class Refused:
        def __init__(self, *_: Any) -> None: ...

        def ask_until_answered(self, _: threading.Event, on_failure: Any) -> None:
            on_failure(NoAnswerError("they do not accept each other", is_lasting=True))

    monkeypatch.setattr(module, "Reachability", Refused)
    with pytest.raises(ExporterError, match="they do not accept each other"):
        run(make_config("127.0.0.1:1", "x."), threading.Event(), lambda _: None)


def test_a_port_in_use_is_one_sentence():
    """Before any broker is queried."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ExporterError, match=f"cannot listen on 127.0.0.1 port {port} .*probe.listen_port"):
            run(make_config("127.0.0.1:1", "x.", listen_port=port), threading.Event(), lambda _: None)


def test_wrong_settings_are_reported_together():
    """The prober does not start with them."""
    with pytest.raises(ExporterError, match=r"bootstrap\.servers.*period_seconds"):
        run(make_config("", "x.", period_seconds=9), threading.Event(), lambda _: None)

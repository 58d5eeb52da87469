"""What a prober that cannot start says."""

from __future__ import annotations

import socket
import threading

import pytest

from exporters.prober.probing import make_config
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.run import run

pytestmark = [
    pytest.mark.broker,
    # kafka-python leaves the socket of a refused connection to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("collect_sockets"),
]


def test_an_unreachable_broker_is_one_sentence(monkeypatch):
    """Within seconds, naming the setting to check."""
    monkeypatch.setattr("rebalance_exporters.prober.brokers._START_SECONDS", 1.0)
    with pytest.raises(ExporterError, match=r"127\.0\.0\.1:1 within .*check kafka\.bootstrap\.servers"):
        run(make_config("127.0.0.1:1", "x."), threading.Event(), lambda _: None)


def test_a_port_in_use_is_one_sentence():
    """Before any broker is asked."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ExporterError, match=f"cannot listen on 127.0.0.1 port {port} .*probe.listen_port"):
            run(make_config("127.0.0.1:1", "x.", listen_port=port), threading.Event(), lambda _: None)


def test_wrong_settings_are_told_together():
    """Nothing starts with them."""
    with pytest.raises(ExporterError, match=r"bootstrap\.servers.*period_seconds"):
        run(make_config("", "x.", period_seconds=9), threading.Event(), lambda _: None)

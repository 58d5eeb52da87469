"""The effect of signals on a process that does not serve yet."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from rebalance_deploy import components
from rebalance_deploy.cli import cli

NUMBERS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Restore the signal handlers of this process."""
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("process", ["stream", "probe", "export"])
def test_a_reload_that_comes_early_ends_nothing(process: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `systemctl reload` while settings are still being read: the reload is done as soon as possible."""

    def run(_: object, stop: threading.Event, reload: threading.Event, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        assert reload.wait(60)
        assert not stop.is_set()

    monkeypatch.setattr(components, f"run_{process}", run)
    # Otherwise an unhandled signal would end the test run.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    outcome = CliRunner().invoke(cli, [process, "--bootstrap-server", "127.0.0.1:1"])
    assert outcome.exception is None

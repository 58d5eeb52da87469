"""What signals do to a process that does not serve yet."""

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
    """Leave the handlers of this process as they were."""
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("process", ["stream", "probe", "export"])
def test_a_reload_that_comes_early_ends_nothing(process: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `systemctl reload` of one that reads its settings: it is done once there is something to reload."""

    def run(_: object, stop: threading.Event, reload: threading.Event, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        assert reload.is_set()
        assert not stop.is_set()

    monkeypatch.setattr(components, f"run_{process}", run)
    # Else the signal ends the tests where nobody minds it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    outcome = CliRunner().invoke(cli, [process, "--bootstrap-server", "127.0.0.1:1"])
    assert outcome.exception is None

"""Supervising the monitor's processes."""

import threading
from pathlib import Path

import pytest

from rebalance_deploy import local
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_deploy.settings import Sources
from waiting import wait_for

pytestmark = pytest.mark.broker


@pytest.fixture
def export(broker: EmbeddedKafka, tmp_path: Path):
    """A supervised exporter that has reported its start."""
    flags = (f"kafka.bootstrap.servers={broker.bootstrap}", "export.listen_host=127.0.0.1", "export.listen_port=0")
    child = local.Supervised("export", Sources(flags=flags), tmp_path)
    child.start()
    wait_for(lambda: "serving" in (tmp_path / "export.log").read_text(), "the exporter", 300)
    yield child
    child.process.terminate()


def test_a_process_that_ran_well_is_started_again(export: local.Supervised, monkeypatch: pytest.MonkeyPatch):
    """After a crash the process is restarted, and this is printed."""
    monkeypatch.setattr(local, "_RAN_WELL_SECONDS", 0.0)
    said: list[str] = []
    export.restart_if_ended(threading.Event(), said.append)
    assert said == []
    before = export.process.pid
    export.process.kill()
    export.restart_if_ended(threading.Event(), said.append)
    assert export.process.is_running
    assert export.process.pid != before
    assert "starting it again" in said[0]


def test_a_process_that_never_ran_well_is_for_a_person_to_mend(
    export: local.Supervised, monkeypatch: pytest.MonkeyPatch
):
    """A wrong setting is not retried forever: the error names the log."""
    # On a busy machine the start of the process alone may take a minute.
    monkeypatch.setattr(local, "_RAN_WELL_SECONDS", float("inf"))
    export.process.kill()
    with pytest.raises(UserError, match=r"export ended with exit code 137 at its start, see .*export\.log"):
        export.restart_if_ended(threading.Event(), lambda _: None)


def test_children_get_the_settings_of_their_parent():
    """Every process gets the same file and flags."""
    sources = Sources(file=Path("m.toml"), flags=("cluster=x", "stream.pane_ms=5000"))
    assert local.arguments(sources) == ["--config", "m.toml", "--set", "cluster=x", "--set", "stream.pane_ms=5000"]

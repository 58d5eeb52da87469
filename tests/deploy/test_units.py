"""The systemd units, checked with systemd's own tools."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import ProcessCollector

from rebalance_deploy.cli import cli
from rebalance_deploy.stopping import STOP_SECONDS
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.stream_health import StreamHealth

pytestmark = pytest.mark.tools

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
NAMES = sorted(path.name for path in UNITS.glob("*.service"))
COMMANDS = {"rebalance-monitor-stream.service": "stream", "rebalance-monitor-probe.service": "probe"}
COMMANDS["rebalance-monitor-export.service"] = "export"
#: Warnings about settings that systemd before 254 does not know.
NEWER = ("RestartSteps", "RestartMaxDelaySec")
#: Exposure level of at most 10, in tenths: systemd calls up to 2.0 safe.
MOST_EXPOSED = 15


class AsWritten(configparser.ConfigParser):
    """A parser that keeps the case of setting names."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def service(name: str) -> configparser.SectionProxy:
    """Return the section [Service] of a unit; of repeated settings the last one."""
    parser = AsWritten(strict=False, interpolation=None)
    parser.read(UNITS / name)
    return parser["Service"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory with the units, systemd's own, and programs at the paths that the units name."""
    if shutil.which("systemd-analyze") is None or not Path("/usr/lib/systemd/system").is_dir():
        pytest.skip("systemd is not installed here")
    root = tmp_path_factory.mktemp("root")
    shutil.copytree(UNITS, root / "etc" / "systemd" / "system")
    shutil.copytree("/usr/lib/systemd/system", root / "usr" / "lib" / "systemd" / "system", symlinks=True)
    for program in ("opt/rebalance-monitor/bin/rebalance-monitor", "bin/kill"):
        file = root / program
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    return root


def analyze(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze on the root directory."""
    command = ["systemd-analyze", f"--root={root}", "--no-pager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_000)


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the warnings of `systemd-analyze verify`, without those of older versions only."""
    lines = [line for line in done.stderr.splitlines() if "rebalance-monitor" in line]
    return [line for line in lines if not any(f"'{name}'" in line for name in NEWER)]


@pytest.mark.parametrize("name", NAMES)
def test_systemd_understands_it(name: str, root: Path) -> None:
    """All settings and values are valid, and the programs exist."""
    done = analyze(root, "--man=no", "verify", name)
    assert complaints(done) == []
    assert done.returncode == 0, done.stderr


def test_a_misspelt_setting_is_found(root: Path) -> None:
    """The verification fails for an unknown setting."""
    broken = root / "etc" / "systemd" / "system" / "rebalance-monitor-broken.service"
    text = (UNITS / NAMES[0]).read_text()
    broken.write_text(text.replace("ProtectHome=yes", "ProtectHomes=yes"))
    assert any("ProtectHomes" in line for line in complaints(analyze(root, "--man=no", "verify", broken.name)))


@pytest.mark.parametrize("name", NAMES)
def test_little_is_exposed(name: str, root: Path) -> None:
    """By systemd's own measure."""
    done = analyze(root, "security", "--offline=yes", f"--threshold={MOST_EXPOSED}", name)
    assert done.returncode == 0, done.stdout
    assert "Overall exposure level" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_a_command_and_stops_it_in_order(name: str) -> None:
    """The commands are the monitor's, and systemd waits for as long as they take to stop."""
    unit, command = service(name), COMMANDS[name]
    assert unit["ExecStart"].split()[1] == command
    assert command in cli.commands
    # The JVM and the diagnosis are stopped by their parent.
    assert unit["KillMode"] == "mixed"
    assert unit["Restart"] == "always"
    assert "143" in unit["SuccessExitStatus"].split()
    seconds = re.fullmatch(r"(\d+)s", unit["TimeoutStopSec"])
    assert seconds is not None
    assert int(seconds[1]) > STOP_SECONDS


def test_nobody_else_reads_the_checkpoint() -> None:
    """It contains names of groups, members and hosts; its files are readable for all with access to it."""
    unit = service("rebalance-monitor-stream.service")
    for kind in ("State", "Cache"):
        assert unit[f"{kind}Directory"] == "rebalance-monitor"
        assert unit[f"{kind}DirectoryMode"] == "0700"


@pytest.mark.parametrize(("command", "metrics"), [("stream", StreamHealth), ("probe", ProbeMetrics)])
def test_who_serves_metrics_of_its_process_sees_when_the_machine_started(
    command: str, metrics: type[StreamHealth | ProbeMetrics], tmp_path: Path
) -> None:
    """prometheus-client needs /proc/stat for process metrics, which ProcSubset=pid hides."""
    (tmp_path / "self").symlink_to("/proc/self")
    assert list(ProcessCollector(proc=str(tmp_path), registry=None).collect()) == []
    assert any(family.name == "process_start_time_seconds" for family in metrics().registry.collect())
    assert service(f"rebalance-monitor-{command}.service")["ProcSubset"] == "all"

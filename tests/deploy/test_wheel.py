"""The content of a wheel: the monitor with its demo, and nothing that only developers use."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from deploy.wheels import ROOT, build_wheel

pytestmark = pytest.mark.processes

PACKAGES = {
    "rebalance_contract",
    "rebalance_kafka",
    "rebalance_streaming",
    "rebalance_exporters",
    "rebalance_deploy",
}

#: Runs a program with the installed wheel and its libraries but without the checkout: without `site` no .pth file is
#: read, and editable installations consist of these.
_INSTALLED = """
import sys
sys.path[:0] = [sys.argv[1]]
sys.path += sys.argv[2].split()
"""
_COMMANDS = """
import json
import rebalance_deploy
from rebalance_deploy.cli import cli
demo = [option.name for option in cli.commands["demo"].params]
print(json.dumps({"commands": sorted(cli.commands), "demo": sorted(demo), "file": rebalance_deploy.__file__}))
"""
_IMPORT_ALL = """
import importlib, pkgutil
def fail(name):
    raise
names = [
    each.name
    for package in sys.argv[3].split()
    for each in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.", fail)
]
for name in names:
    importlib.import_module(name)
print(len(names), "rebalance_devtools" in sys.modules)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this checkout, built without network access."""
    return zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the unpacked wheel."""
    directory = tmp_path_factory.mktemp("installed")
    wheel.extractall(directory)
    return directory


def run(installed: Path, program: str, *arguments: str) -> str:
    """Run a program with the wheel's packages and return its output."""
    libraries = f"{sysconfig.get_path('purelib')} {sysconfig.get_path('platlib')}"
    command = [sys.executable, "-I", "-S", "-c", _INSTALLED + program, str(installed), libraries, *arguments]
    done = subprocess.run(command, cwd=installed, capture_output=True, text=True, timeout=1_000, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_holds_the_monitors_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """No stories, benchmarks, old clients' requirements or tests."""
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    folders = {part for name in wheel.namelist() for part in Path(name).parts[:-1]}
    assert {"embedded", "demo", "terminal", "reporters", "prober", "spark", "static"} <= folders
    assert not folders & {"stories", "bench", "programs", "requirements", "tests", "grafana"}


def test_a_wheel_holds_every_file_of_its_packages(wheel: zipfile.ZipFile) -> None:
    """Data files too: the page, the catalogue, the pinned jars."""
    kept = {
        str(path.relative_to(root))
        for root in (ROOT / "streaming", ROOT / "exporters", ROOT / "deploy")
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in wheel.namelist() if name.split("/")[0] in PACKAGES} == kept


def test_an_installed_command_line_offers_nothing_for_developers(installed: Path) -> None:
    """`bench` and `demo --story` exist only in a checkout."""
    reported = json.loads(run(installed, _COMMANDS))
    assert Path(reported["file"]).is_relative_to(installed)
    assert {"up", "stream", "probe", "export", "demo", "explain", "top", "replay"} <= set(reported["commands"])
    assert "bench" not in reported["commands"]
    assert reported["demo"] == ["cure_after", "duration", "kafka_version", "port", "yes"]


def test_a_checkouts_command_line_offers_both() -> None:
    """As used by `make bench` and `make demo STORY=a`."""
    done = subprocess.run([sys.executable, "-c", _COMMANDS], capture_output=True, text=True, check=True)
    reported = json.loads(done.stdout)
    assert "bench" in reported["commands"]
    assert reported["demo"] == ["cure_after", "duration", "kafka_version", "port", "story", "yes"]


def test_no_installed_module_needs_the_tools_of_developers(installed: Path) -> None:
    """All modules can be imported without these tools."""
    count, developers = run(installed, _IMPORT_ALL, " ".join(sorted(PACKAGES))).split()
    assert int(count) > 200
    assert developers == "False"

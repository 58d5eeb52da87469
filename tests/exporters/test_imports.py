"""What exporter and terminal may need: each has an extra of its own, without the other's libraries and the stream's."""

import subprocess
import sys
from pathlib import Path

import pytest

import rebalance_exporters

pytestmark = pytest.mark.processes

_FOLDER = Path(rebalance_exporters.__file__).parent
#: Packages with an extra of their own; the reporters have a test of their own too.
_OTHERS = ("prober", "reporters", "terminal")

_STREAMS = ("numpy", "pandas", "pyarrow", "pyspark", "rebalance_streaming", "rebalance_deploy")
_EXPORTERS = ("bcrypt", "confluent_kafka", "prometheus_client", "starlette", "uvicorn", "yaml")
_TERMINALS = ("httpx", "rich")

#: Imports the modules named in the second argument where those in the first cannot be found.
_IMPORTING = """
import importlib, sys

absent = set(sys.argv[1].split())

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"{name} is not there")

sys.meta_path.insert(0, Absent())
for name in sys.argv[2].split():
    importlib.import_module(name)
"""
_STARTING = """
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.health import ReadProgress
from rebalance_exporters.server import make_app, make_view
make_app(ExportConfig(), make_view(ExportConfig()), ReadProgress)
print("started")
"""


def module_names(folder: Path) -> list[str]:
    """The names of all modules in a folder, without those in folders of others."""
    paths = [path.relative_to(_FOLDER.parent) for path in sorted(folder.rglob("*.py"))]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
    others = tuple(f"rebalance_exporters.{other}" for other in _OTHERS)
    return [name for name in names if folder != _FOLDER or not name.startswith(others)]


def run_without(absent: tuple[str, ...], names: list[str], program: str) -> tuple[int, str, str]:
    """Import modules where some libraries are not installed, run a program after that; exit code, output, errors."""
    command = [sys.executable, "-c", _IMPORTING + program, " ".join(absent), " ".join(names)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    return result.returncode, result.stdout, result.stderr


def test_the_exporter_starts_without_the_streams_libraries() -> None:
    """Every module is imported, and the application made, where the stream and the terminal's libraries are not."""
    names = module_names(_FOLDER)
    assert len(names) > 20
    assert run_without((*_STREAMS, *_TERMINALS), names, _STARTING) == (0, "started\n", "")


def test_the_terminal_is_imported_without_the_exporters_libraries() -> None:
    """Every module of the terminal is imported where only its own extra is installed."""
    names = module_names(_FOLDER / "terminal")
    assert "rebalance_exporters.terminal.commands" in names
    assert "rebalance_exporters.terminal.top" in names
    assert run_without((*_STREAMS, *_EXPORTERS, "kafka", "kazoo"), names, "") == (0, "", "")

"""The imports of each part: its extra has every library that it imports, and it needs no other part's."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

_ROOT = Path(__file__).parents[2]
_EXTRAS: dict[str, list[str]] = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
#: Module names that differ from the library's name. `google` is a package of many owners: it is not removed.
_MODULES = {"kafka-python": "kafka", "pyyaml": "yaml", "protobuf": ""}
_PACKAGES = {"rebalance_streaming", "rebalance_exporters", "rebalance_deploy"}
#: Directories of each extra, and those inside that belong to another; the reporters have their own test.
_PARTS = {
    "stream": (("streaming/rebalance_streaming", "streaming/rebalance_kafka", "streaming/rebalance_contract"), ()),
    "export": (("exporters/rebalance_exporters",), ("prober", "reporters", "terminal")),
    "terminal": (("exporters/rebalance_exporters/terminal",), ()),
    "probe": (("exporters/rebalance_exporters/prober",), ()),
}

#: Imports the modules in the second argument while those in the first cannot be found.
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
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.server import make_app, make_view
make_app(ExportConfig(), make_view(ExportConfig()), ReadProgress)
print("started")
"""


def libraries(extra: str) -> set[str]:
    """The modules of the libraries that an extra installs."""
    found: set[str] = set()
    for each in _EXTRAS[extra]:
        name = re.split(r"[^a-z0-9-]", each)[0]
        if name == "rebalance-monitor":
            found |= libraries(each.partition("[")[2].rstrip("]"))
        else:
            found.add(_MODULES.get(name, name.replace("-", "_")))
    return found - {""}


def modules(extra: str) -> list[str]:
    """The names of all modules that an extra is for."""
    folders, others = _PARTS[extra]
    found = []
    for folder in folders:
        root = (_ROOT / folder).parents[len(Path(folder).parts) - 2]
        for path in sorted((_ROOT / folder).rglob("*.py")):
            if path.relative_to(_ROOT / folder).parts[0] not in others:
                found.append(".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"))
    return found


def run_alone(extra: str, program: str = "") -> tuple[int, str, str]:
    """Import the modules of an extra with only its libraries, then run a program; return code, output, errors."""
    needed = {name.partition(".")[0] for name in modules(extra)}
    absent = {*set().union(*map(libraries, _PARTS)) - libraries(extra), *_PACKAGES - needed}
    command = [sys.executable, "-c", _IMPORTING + program, " ".join(absent), " ".join(modules(extra))]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize("extra", _PARTS)
def test_an_extra_has_all_that_its_part_imports(extra: str) -> None:
    """Every module is imported without the libraries of the other extras."""
    assert len(modules(extra)) > 10
    assert run_alone(extra) == (0, "", "")


def test_the_exporter_starts_with_its_extra() -> None:
    """Its application is created."""
    assert run_alone("export", _STARTING) == (0, "started\n", "")

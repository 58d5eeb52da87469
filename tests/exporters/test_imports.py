"""What the exporter may need: those who install only its extra have neither numpy nor the stream's libraries."""

import subprocess
import sys
from pathlib import Path

import rebalance_exporters

#: Modules of the exporter itself; prober and reporters have extras, and a test, of their own.
_FOLDER = Path(rebalance_exporters.__file__).parent
_OTHERS = ("prober", "reporters")

_PROGRAM = """
import importlib, sys

absent = {"numpy", "pandas", "pyarrow", "pyspark", "rebalance_streaming", "rebalance_deploy"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"{name} is not there")

sys.meta_path.insert(0, Absent())
for name in sys.argv[1:]:
    importlib.import_module(name)
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.health import ReadProgress
from rebalance_exporters.server import make_app, make_view
make_app(ExportConfig(), make_view(ExportConfig()), ReadProgress)
print("started")
"""


def test_the_exporter_starts_without_the_streams_libraries() -> None:
    """Every module is imported, and the application made, where numpy and the stream are not installed."""
    paths = [path.relative_to(_FOLDER) for path in _FOLDER.rglob("*.py")]
    names = [
        ".".join(("rebalance_exporters", *path.with_suffix("").parts)).removesuffix(".__init__")
        for path in paths
        if path.parts[0] not in _OTHERS
    ]
    assert len(names) > 20
    command = [sys.executable, "-c", _PROGRAM, *sorted(names)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, "started\n", "")

"""What a reporter imports into the user's process."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rebalance_exporters

EXPORTERS = Path(rebalance_exporters.__file__).parent.parent
MODULES = sorted((EXPORTERS / "rebalance_exporters" / "reporters").glob("*.py"))

#: Stand-ins with only the attributes that reporters use at import.
STUBS = "import sys, types; [sys.modules.setdefault(n, types.ModuleType(n)) for n in ('kafka', 'confluent_kafka')]; "


@pytest.mark.processes
@pytest.mark.parametrize("client", ["kafka_python", "confluent"])
def test_a_reporter_brings_no_library_along(client):
    """Only the standard library, the client, and this package's own modules for clients."""
    library = {"kafka_python": "kafka", "confluent": "confluent_kafka"}[client]
    code = (
        f"import sys, json, {library}; before = set(sys.modules); import rebalance_exporters.reporters.{client}; "
        "print(json.dumps(sorted({n for n in set(sys.modules) - before if n.split('.')[0] not in "
        "sys.stdlib_module_names})))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    brought = json.loads(output)
    assert f"rebalance_exporters.reporters.{client}" in brought
    ours = ("rebalance_exporters", "rebalance_exporters.reporters")
    assert [
        name for name in brought if name not in ours and not name.startswith("rebalance_exporters.reporters.")
    ] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_reporter_is_written_in_the_python_of_old_clients(module):
    """Its grammar is Python 3.8's, and annotations are never evaluated."""
    tree = ast.parse(module.read_text(), feature_version=(3, 8))
    annotates = any(isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation for node in ast.walk(tree))
    postpones = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    assert postpones or not annotates


@pytest.mark.processes
@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10"])
def test_a_reporter_runs_on_old_pythons(version):
    """With those installed on this machine; they can import all of it."""
    python = shutil.which(f"python{version}")
    # With pyenv, an executable may exist whose version is not enabled.
    env = {**os.environ, "PYTHONPATH": str(EXPORTERS), "PYTHONDONTWRITEBYTECODE": "1", "PYENV_VERSION": version}
    if python is None or subprocess.run([python, "-c", ""], env=env, check=False, capture_output=True).returncode:
        pytest.skip(f"there is no Python {version} here")
    names = ", ".join(f"rebalance_exporters.reporters.{each.stem}" for each in MODULES if each.stem != "__init__")
    done = subprocess.run([python, "-c", STUBS + f"import {names}"], env=env, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()

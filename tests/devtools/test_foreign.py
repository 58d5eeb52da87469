"""Clients of Go and Node.js are pinned with all checksums, and the error names a missing tool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rebalance_deploy.errors import UserError
from rebalance_deploy.jars import CACHE_VARIABLE
from rebalance_devtools.stories import foreign

PROGRAMS = Path(foreign.__file__).parent / "programs"


def test_every_module_of_go_has_a_sum():
    """All requirements of go.mod are in go.sum with content checksums, so that a build fetches nothing else."""
    required = re.findall(r"^\s+(\S+) (v\S+)", (PROGRAMS / "go" / "go.mod").read_text(), re.MULTILINE)
    sums = (PROGRAMS / "go" / "go.sum").read_text()
    assert {name for name, _ in required} >= {"github.com/twmb/franz-go", "github.com/IBM/sarama"}
    assert [name for name, version in required if f"{name} {version} h1:" not in sums] == []


def test_every_module_of_node_has_a_sum_and_no_place():
    """The lock has versions and checksums; the registry is a setting of the user."""
    lock = json.loads((PROGRAMS / "node" / "package-lock.json").read_text())
    wanted = json.loads((PROGRAMS / "node" / "package.json").read_text())["dependencies"]
    packages = {name.removeprefix("node_modules/"): each for name, each in lock["packages"].items() if name}
    assert {name: packages[name]["version"] for name in wanted} == wanted
    assert all(each["integrity"].startswith("sha512-") and "resolved" not in each for each in packages.values())


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No partial client is left behind."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs go"):
        foreign.go_program()
    with pytest.raises(UserError, match="needs npm"):
        foreign.node_program()
    assert list((tmp_path / "clients").iterdir()) == []

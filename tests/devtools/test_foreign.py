"""Clients of Go and Node.js are pinned to the last checksum, and the error names the tool that is missing."""

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
    """What go.mod requires stands in go.sum with the sum of its contents, so that a build fetches nothing else."""
    required = re.findall(r"^\s+(\S+) (v\S+)", (PROGRAMS / "go" / "go.mod").read_text(), re.MULTILINE)
    sums = (PROGRAMS / "go" / "go.sum").read_text()
    assert {name for name, _ in required} >= {"github.com/twmb/franz-go", "github.com/IBM/sarama"}
    assert [name for name, version in required if f"{name} {version} h1:" not in sums] == []


def test_every_module_of_node_has_a_sum_and_no_place():
    """The lock names what is wanted by version and sum, and leaves where it comes from to who installs it."""
    lock = json.loads((PROGRAMS / "node" / "package-lock.json").read_text())
    wanted = json.loads((PROGRAMS / "node" / "package.json").read_text())["dependencies"]
    packages = {name.removeprefix("node_modules/"): each for name, each in lock["packages"].items() if name}
    assert {name: packages[name]["version"] for name in wanted} == wanted
    assert all(each["integrity"].startswith("sha512-") and "resolved" not in each for each in packages.values())


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without it nothing is left behind that looks like a client."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs go"):
        foreign.go_program()
    with pytest.raises(UserError, match="needs npm"):
        foreign.node_program()
    assert list((tmp_path / "clients").iterdir()) == []

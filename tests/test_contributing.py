"""CONTRIBUTING.md's instructions for additions, compared with its examples."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
#: Files written by people; `make docs` and recorders write the rest.
WRITTEN = {".py", ".toml", ".yml", ".js"}
#: Name of an example -> the files that adding it needed.
EXAMPLES = {
    "assigning_stuck": {
        "streaming/rebalance_streaming/detect/diagnoses/kip848.toml",
        "streaming/rebalance_streaming/detect/rules/kip848.py",
        "tests/detect/test_kip848.py",
        # By its trait `holding` alerts about waiting groups mention it; the text says so.
        "deploy/prometheus/rules/kafka-rebalance.yml",
        # Its messages in clients' logs are not needed for it.
        "exporters/rebalance_exporters/messages/messages.toml",
    },
    "group_static_members": {
        "exporters/rebalance_exporters/metrics/groups.py",
        "tests/exporters/metrics/test_render.py",
    },
    "influx": {
        "streaming/rebalance_streaming/wire/metrics/influx.py",
        "streaming/rebalance_streaming/wire/metrics/formats.py",
        "tests/wire/metrics/test_formats.py",
        "tests/wire/metrics/test_influx.py",
    },
}
#: Beginning of the subject of a commit to read -> the number of places that it changes.
COMMITS = {
    "detect: who left in order while as many others came": 3,
    "metrics: the response time of a member": 2,
    "wire: pages in Prometheus": 3,
    "api: the overview names the latest rebalance": 1,
}


@cache
def _sources() -> dict[str, str]:
    """Return the content of each source file except this one, by its path from the root."""
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in ("streaming", "exporters", "deploy", "grafana", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in WRITTEN and path != Path(__file__)
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_stands_where_it_is_said_to(name: str) -> None:
    """If an example is in another file, the text must name that file, or the file need not mention it."""
    whole_word = f"`git grep -lw {name}`" in TEXT
    assert whole_word or f"`git grep -l {name}`" in TEXT
    word = re.compile(rf"\b{name}\b" if whole_word else name)
    found = {name for name, text in _sources().items() if word.search(text)}
    assert found == EXAMPLES[name]


def test_every_example_of_the_text_is_held() -> None:
    """Except for a field of the overview, whose name other rows have too."""
    assert {*re.findall(r"`git grep -lw? (\w+)", TEXT)} == {*EXAMPLES, "protocol_type"}


def test_every_commit_of_the_text_is_held() -> None:
    """The names are subjects, because a rebase changes the ids."""
    assert {*re.findall(r"`git show ':/\^([^']+)'`", TEXT)} == {*COMMITS}


@pytest.mark.processes
@pytest.mark.parametrize(("subject", "places"), COMMITS.items())
def test_a_commit_changes_as_many_places_as_the_text_says(subject: str, places: int) -> None:
    """A golden value with its entry and its tests is one place; the changelog and the documentation are none."""
    git = ["git", "-C", str(ROOT), "show", "--format=", "--name-only", f":/^{subject}"]
    shown = subprocess.run(git, capture_output=True, text=True, check=False)
    if shown.returncode:
        pytest.skip("the history is not here: an archive, or a shallow clone")
    changed = [Path(name) for name in shown.stdout.split() if Path(name).suffix in WRITTEN]
    tests = [path for path in changed if path.parts[0] == "tests"]
    assert len(changed) - len(tests) + bool(tests) == places

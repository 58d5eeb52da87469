"""Copies the example text of each alert from its promtool case into its runbook.

python -m prometheus.examples
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
PAGE_CASES = ROOT / "deploy" / "prometheus" / "tests" / "page.yml"

#: The lines of the page after the first, by their annotation.
LINES = ("cause", "who", "change", "since", "impact", "scope", "now")
_HEAD = "## What it says\n"
_SECTION = re.compile(rf"{_HEAD}.*?(?=^## )", re.DOTALL | re.MULTILINE)


def examples() -> Mapping[str, str]:
    """Return per alert the text of its first expectation in page.yml."""
    reported: dict[str, str] = {}
    for name, page in _expected():
        reported.setdefault(name, "\n".join(_lines(page)))
    return reported


def put(runbook: str, example: str) -> str:
    """Return a runbook with this example before its section `Look`, replacing the previous one."""
    bare = _SECTION.sub("", runbook)
    return bare.replace("## Look\n", f"{_HEAD}\n```\n{example}\n```\n\n## Look\n", 1)


def _expected() -> Iterator[tuple[str, Mapping[str, str]]]:
    cases: list[dict[str, Any]] = yaml.safe_load(PAGE_CASES.read_text())["tests"]
    for asked in (each for case in cases for each in case.get("alert_rule_test", ())):
        for alert in asked["exp_alerts"]:
            yield asked["alertname"], alert["exp_annotations"]


def _lines(page: Mapping[str, str]) -> Iterator[str]:
    yield f"[FIRING] {page['summary']}"
    for line in LINES:
        if page.get(line):
            yield f"{line.capitalize():<6} {page[line]}"


if __name__ == "__main__":
    for alert, example in examples().items():
        page = RUNBOOKS / f"{alert}.md"
        page.write_text(put(page.read_text(), example))

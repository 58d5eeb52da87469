"""Checks that docs/accuracy.md was made from the current rules and recordings, by a digest that it contains.

It also checks that README and docs/without-the-log.md repeat its numbers.

    python tests/accuracy/freshness.py

Standard library only, and takes two seconds, because `make lint` runs it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORT, README = ROOT / "docs" / "accuracy.md", ROOT / "README.md"
WITHOUT_LOG = ROOT / "docs" / "without-the-log.md"
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: The digest in the report.
_STATED = re.compile(r"^<!-- digest: ([0-9a-f]{64}) -->$", re.MULTILINE)
#: The head of the report's first table with its verdicts, and its rows.
_HEAD = re.compile(r"^\| recordings \| sources \| (right \| .+) \| subject right \|$", re.MULTILINE)
_ROW = re.compile(r"^\| (known|kept back) \| ([^|]+) \| (\d+ of \d+ .*)\|$", re.MULTILINE)
_ACCUSED = re.compile(r"^\| (?:known|kept back) \| ([^|]+) \| \d+ \| (\d+) of (\d+) ", re.MULTILINE)
#: The sources of which the page about the log repeats the verdicts, with the heads of its columns.
_COLUMNS = {
    "all": "all sources",
    "without the log": "without the log",
    "broker logs instead": "without it, with brokers' logs",
}
#: The files that a verdict depends on: decoding, history, rules, recordings with their truths, and the comparison of
#: findings with truths.
_JUDGED_BY = (
    "streaming/rebalance_contract/*.py",
    "streaming/rebalance_streaming/wire/**/*.py",
    "streaming/rebalance_streaming/groups/*.py",
    "streaming/rebalance_streaming/activity/*.py",
    "streaming/rebalance_streaming/recordings/*.py",
    "streaming/rebalance_streaming/observed/*.py",
    "streaming/rebalance_streaming/detect/**/*.py",
    "streaming/rebalance_streaming/detect/**/*.toml",
    "streaming/rebalance_streaming/engine/*.py",
    "tests/golden/stories/*.json*",
    "tests/golden/families/*.json*",
    "tests/accuracy/families.toml",
    "tests/accuracy/outcomes.py",
    "tests/accuracy/recordings.py",
    "tests/accuracy/report.py",
    "tests/accuracy/results/*.json",
    "deploy/rebalance_devtools/stories/applications.py",
    "deploy/rebalance_devtools/stories/company.py",
    "deploy/rebalance_devtools/stories/conditions.py",
    "deploy/rebalance_devtools/stories/everyday.py",
    "deploy/rebalance_devtools/stories/families.py",
    "deploy/rebalance_devtools/stories/forms.py",
    "deploy/rebalance_devtools/stories/incidents.py",
    "deploy/rebalance_devtools/stories/judging.py",
    "deploy/rebalance_devtools/stories/oncall.py",
    "deploy/rebalance_devtools/stories/operations.py",
    "deploy/rebalance_devtools/stories/polyglot.py",
    "deploy/rebalance_devtools/stories/production.py",
    "deploy/rebalance_devtools/stories/reported.py",
    "deploy/rebalance_devtools/stories/scenes.py",
)


def judged_by(root: Path = ROOT) -> Iterator[Path]:
    """Yield the files that determine the report, in a fixed order."""
    for pattern in _JUDGED_BY:
        yield from sorted(root.glob(pattern))


def digest(root: Path = ROOT) -> str:
    """Return the SHA-256 sum, in hex, of the names and contents of the files that determine the report.

    Comments, docstrings and empty lines of Python files are left out, because they have no effect on it.
    """
    found = hashlib.sha256()
    for path in judged_by(root):
        content = _code(path) if path.suffix == ".py" else path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def _code(path: Path) -> bytes:
    """Return the lines of a Python file without docstrings, comments and empty lines."""
    text = path.read_text()
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            documentation = node.body[0]
            lines[documentation.lineno - 1 : documentation.end_lineno] = [""] * _height(documentation)
    return "\n".join(line.rstrip() for line in lines if line.strip()).encode()


def _height(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def stated(report: str) -> str | None:
    """Return the digest in a report, or null for a report without one."""
    match = _STATED.search(report)
    return None if match is None else match[1]


def complaint(root: Path = ROOT) -> str | None:
    """Return one sentence if the report is stale or README states other shares, otherwise null."""
    report, readme = root / REPORT.relative_to(ROOT), root / README.relative_to(ROOT)
    if not report.exists() or stated(report.read_text()) != digest(root):
        return (
            f"{report.relative_to(root)} is older than the rules or the recordings it is about:"
            " run `make accuracy` and commit what it writes"
        )
    shares = summary(report.read_text())
    if shares not in readme.read_text():
        return f"{readme.name} does not say how often the monitor is right: {shares}"
    page = root / WITHOUT_LOG.relative_to(ROOT)
    if with_part(page.read_text(), "explained", without_log_lines(report.read_text())) != page.read_text():
        return f"{page.relative_to(root)} says something else than {report.relative_to(root)}: run `make accuracy`"
    return None


def without_log_lines(report: str) -> Iterator[str]:
    """Yield the table that the page about the log repeats from a report."""
    found = _shares(report)
    yield f"| | {' | '.join(_COLUMNS.values())} |"
    yield "|---|" + "---:|" * len(_COLUMNS)
    for split in ("known", "kept back"):
        for verdict in found[split, "all"]:
            cells = (found[split, sources][verdict] for sources in _COLUMNS)
            yield f"| {split} faults, {verdict} | {' | '.join(cells)} |"
    yield f"| healthy groups accused | {' | '.join(_accused(report, sources) for sources in _COLUMNS)} |"


def _shares(report: str) -> dict[tuple[str, str], dict[str, str]]:
    """Return the shares in the report's first table, such as `46 of 52`, by recordings, sources and verdict."""
    head = _HEAD.search(report)
    verdicts = [] if head is None else head[1].split(" | ")
    return {
        (split, sources): dict(zip(verdicts, re.findall(r"\d+ of \d+", cells), strict=False))
        for split, sources, cells in _ROW.findall(report)
    }


def _accused(report: str, sources: str) -> str:
    rows = [(int(accused), int(of)) for name, accused, of in _ACCUSED.findall(report) if name == sources]
    return f"{sum(accused for accused, _ in rows)} of {sum(of for _, of in rows)}"


def with_part(page: str, name: str, lines: Iterable[str]) -> str:
    """Return a page with the lines between the marks of this name replaced."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{chr(10).join(lines)}\n{end}{rest.partition(end)[2]}"


def with_summary(readme: str, report: str) -> str:
    """Return README with its summary replaced by that of a report."""
    shares = r"\d+ of \d+"
    old = rf"right in {shares} recorded faults that the rules know, and in {shares} [a-z ]+ \(wrong in {shares}\)"
    return re.sub(old, summary(report), readme)


def summary(report: str) -> str:
    """Return the summary of a report for README, with all sources."""
    known, kept_back = (_shares(report)[split, "all"] for split in ("known", "kept back"))
    return (
        f"right in {known['right']} recorded faults that the rules know, and in {kept_back['right']} that were"
        f" kept back from them (wrong in {kept_back['wrong']})"
    )


if __name__ == "__main__":
    sys.exit(complaint())

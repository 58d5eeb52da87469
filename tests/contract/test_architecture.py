"""docs/architecture.md agrees with the code: the number of steps, and the names in it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
WALKS = {
    title: (int(count), [int(number) for number in re.findall(r"^\| (\d+) \|", body, re.MULTILINE)])
    for title, count, body in re.findall(r"^## ([^\n]+): (\d+) steps\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
#: The path of a module.
MOST_LINES = 550
#: A module, and the name in it that the page mentions after it.
NAMED = re.findall(r"`([\w/]+\.py)`((?:: `[\w.]+`)?(?:,? (?:or )?`[A-Za-z_][\w.]*`(?!:))*)", PAGE)
#: The directories of relative paths, by their beginning.
PLACES = {"rebalance_exporters": "exporters", "rebalance_contract": "streaming", "rebalance_deploy": "deploy"}


@cache
def names_in(path: Path) -> set[str]:
    """Return the functions, classes and methods of a module; methods with and without their class."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            found |= methods | {f"{node.name}.{each}" for each in methods}
    return found


def test_a_group_record_takes_eight_steps_at_most():
    """From record to metric and to finding; each step is one row, and the second path continues the first."""
    (figure, to_figure), (finding, to_finding), (commit, to_commit) = WALKS.values()
    assert max(figure, finding) <= 8
    assert to_figure == [*range(1, figure + 1)]
    assert to_finding == [*range(to_finding[0], finding + 1)]
    assert f"Steps 1 to {to_finding[0] - 1} as above" in PAGE
    assert to_commit == [*range(1, commit + 1)]


def test_what_it_names_is_there():
    """Moved modules and renamed functions are detected."""
    for module, names in NAMED:
        path = ROOT / PLACES.get(module.partition("/")[0], "streaming/rebalance_streaming") / module
        assert path.exists()
        assert set(re.findall(r"`([\w.]+)`", names.partition(":")[2])) <= names_in(path), module


def import_contracts() -> list[dict[str, Any]]:
    """Return the contracts of import-linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings["tool"]["importlinter"]["contracts"]


def test_it_draws_the_layers_that_are_held():
    """The order of packages is the one that import-linter checks, in the stream and in the exporter."""
    stream, exporter = (each["layers"] for each in import_contracts() if each["type"] == "layers")
    assert f"rebalance_streaming: {' ▶ '.join(each.replace(' | ', ', ') for each in stream)}\n" in PAGE
    assert f"rebalance_exporters: {' ▶ '.join(each.replace(' | ', ', ') for each in exporter)}\n" in PAGE


def test_every_module_of_the_stream_but_spark_is_kept_from_pyspark():
    """This includes packages that are added later."""
    (contract,) = (each for each in import_contracts() if each["name"] == "Only spark/ imports pyspark")
    folder = ROOT / "streaming/rebalance_streaming"
    found = {each.stem for each in folder.iterdir() if each.suffix == ".py" or (each / "__init__.py").exists()}
    held = {each.rpartition(".")[2] for each in contract["source_modules"] if each.startswith("rebalance_streaming.")}
    assert held == found - {"__init__", "spark"}


def test_few_terms_are_the_projects_own():
    """Somebody who knows Kafka, Spark and Prometheus has at most twenty terms to learn."""
    terms = re.findall(r"^\| ([a-z][^|]*) \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    assert terms[0] == "term"
    assert 10 <= len(terms[1:]) <= 20


def test_a_name_means_one_thing():
    """No two public classes have the same name, so that it can be looked up; programs of stories are separate."""
    paths = (path for root in ("streaming", "exporters", "deploy") for path in (ROOT / root).rglob("*.py"))
    texts = (path.read_text() for path in paths if "programs" not in path.parts)
    # Parsing all modules takes longer than any other test.
    defined = Counter(name for text in texts for name in re.findall(r"^class ([A-Za-z]\w*)", text, re.MULTILINE))
    assert len(defined) > 400
    # Names that differ only in case are easily confused.
    count_of = Counter(name.casefold() for name in defined.elements())
    assert [name for name, count in count_of.items() if count > 1] == []


def test_no_module_is_long():
    """A short module is easy to understand; this includes tests and their helpers."""
    roots = ("streaming", "exporters", "deploy", "grafana", "tests")
    lines = {path: path.read_text().count("\n") for root in roots for path in (ROOT / root).rglob("*.py")}
    assert {str(path.relative_to(ROOT)): count for path, count in lines.items() if count > MOST_LINES} == {}


def test_no_type_is_ignored():
    """An untyped library is typed where it is used: by an annotation, a protocol or in `stubs`."""
    roots = ("streaming", "exporters", "deploy", "grafana", "tests")
    paths = (path for root in roots for path in (ROOT / root).rglob("*.py") if path != Path(__file__))
    assert [str(path.relative_to(ROOT)) for path in paths if "# type: ignore" in path.read_text()] == []

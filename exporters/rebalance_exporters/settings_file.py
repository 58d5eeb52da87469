"""Reads the small YAML or TOML files named in the settings; an unknown key is an error with a hint."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from rebalance_exporters.errors import ExporterError


def read_settings_file(file: Path) -> dict[str, Any]:
    """Return the table in a file, which is TOML if its name ends in .toml, else YAML. Raises ExporterError."""
    try:
        text = file.read_text("utf-8")
        document = tomllib.loads(text) if file.suffix == ".toml" else yaml.load(text, _StrictLoader)  # noqa: S506
    except OSError as error:
        raise ExporterError(f"cannot read {file} ({error.strerror}): check the path and who may read it") from error
    except (tomllib.TOMLDecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        kind = "TOML" if file.suffix == ".toml" else "YAML"
        raise ExporterError(f"{file} is not valid {kind}: {_describe_without_content(error)}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ExporterError(f"{file} must hold a table of settings, not a {type(document).__name__}")
    return document


def _describe_without_content(error: Exception) -> str:
    """Return what is wrong and where, without YAML's full message: it quotes the file, which may contain passwords."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else " ".join(str(error).split())
    mark = error.problem_mark or error.context_mark
    place = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
    return f"{error.problem or error.context}{place}"


def find_unknown_keys(table: Mapping[Any, Any], known: Iterable[str], prefix: str) -> list[str]:
    """Return a sentence for every unknown key, with the most similar known key."""
    names = list(known)
    return [f"unknown key {prefix}{key}{_hint(str(key), names)}" for key in table if key not in names]


def _hint(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else f"; known are {', '.join(names)}"


class _StrictLoader(yaml.SafeLoader):
    """Refuses a duplicate key, of which YAML's own loaders silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping's content."""
        mapping = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            raise yaml.constructor.ConstructorError(
                "while reading a mapping", node.start_mark, "a key stands twice", node.start_mark
            )
        return mapping

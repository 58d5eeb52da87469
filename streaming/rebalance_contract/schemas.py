"""JSON Schemas of the rows in the monitor's topics, generated from the contract's dataclasses.

python -m rebalance_contract.schemas docs/schemas
"""

from __future__ import annotations

import sys
from dataclasses import fields
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from rebalance_contract.topics import TOPICS, Topic


def schema_names(topic: Topic) -> dict[str, type[Any]]:
    """Return the row types of a topic by file name; if there are several, the name contains the `kind`."""
    if len(topic.rows) == 1:
        return {topic.name: topic.rows[0]}
    return {f"{topic.name}-{_kind(row)}": row for row in topic.rows}


def _kind(row: type[Any]) -> str:
    kinds = [each.default for each in fields(row) if each.name == "kind"]
    return str(kinds[0]).replace("_", "-")


#: The row types of all topics by file name.
ROWS = {name: row for topic in TOPICS for name, row in schema_names(topic).items()}


def render(row: type) -> str:
    """Return a row's schema as indented JSON."""
    return write_json(msgspec.json.schema(row))


def write_json(schema: dict[str, Any]) -> str:
    """Return a document with schemas as indented JSON, with the code's indentation removed from descriptions."""
    return msgspec.json.format(msgspec.json.encode(_cleaned(schema)), indent=2).decode() + "\n"


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: cleandoc(each) if name == "description" and isinstance(each, str) else _cleaned(each)
            for name, each in value.items()
        }
    return [_cleaned(each) for each in value] if isinstance(value, list) else value


def write(folder: Path) -> None:
    """Write one file per row."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, row in ROWS.items():
        (folder / f"{name}.schema.json").write_text(render(row))


if __name__ == "__main__":
    write(Path(sys.argv[1]))

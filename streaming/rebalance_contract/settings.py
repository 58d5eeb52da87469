"""How a component declares a setting: a field of a frozen dataclass with its default and what it decides.

The command line fills such dataclasses, and docs/configuration.md is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field
from typing import Any, TypeVar

T = TypeVar("T")
_DESCRIPTION = "description"


#: A setting that stream and prober share, `sources.log`: its default and what it decides.
READS_LOG = True
READS_LOG_TEXT = (
    "Whether the stream may read `__consumer_offsets`. `false`: groups are known by probes, client metrics and "
    "brokers' logs alone, and all counts are *at least*; see [without-the-log.md](without-the-log.md)."
)


def setting(default: T, description: str) -> T:
    """Declare a setting: a field with this default. `description` is Markdown, a sentence or a few."""
    declared: T = field(default=default, metadata={_DESCRIPTION: description})
    return declared


def table(description: str) -> Mapping[str, str]:
    """Declare a setting that is a table of text by name, empty unless it is given."""
    declared: Mapping[str, str] = field(default_factory=dict, metadata={_DESCRIPTION: description})
    return declared


def description_of(declared: Field[Any]) -> str:
    """Return what a setting decides; empty for a field that was not declared as one."""
    return str(declared.metadata.get(_DESCRIPTION, ""))

"""The colours that the page shares with the dashboards, as a style sheet generated from the contract.

python -m rebalance_exporters.page.colours exporters/rebalance_exporters/page/static/colours.css
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from rebalance_contract import colours

_HEAD = """\
/* Colours of states and reasons, as on the dashboards: made by rebalance_exporters/page/colours.py, with `make docs`.
   A class such as reason-departure sets --hue to its colour. */
"""
_SETS: Mapping[str, Mapping[str, str]] = {"state": colours.STATES, "reason": colours.REASONS}


def render() -> str:
    """Return the style sheet's text."""
    dark = "\n".join(f"  {line}" for line in _values(dark=True))
    classes = "\n".join(f".{name} {{ --hue: var(--{name}); }}" for name, _ in _names())
    light = "\n".join(_values(dark=False))
    return f"{_HEAD}\n{light}\n\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n\n{classes}\n"


def _values(*, dark: bool) -> Iterator[str]:
    yield ":root {"
    for name, colour in _names():
        yield f"  --{name}: {colours.value_of(colour, dark=dark)};"
    yield "}"


def _names() -> Iterator[tuple[str, str]]:
    for kind, words in _SETS.items():
        for word, colour in words.items():
            yield f"{kind}-{word}", colour


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render())

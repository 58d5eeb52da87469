"""Makes text of other origin safe to show: a client chooses its group names, client ids and hosts freely.

A name may contain escape codes that repaint the terminal, line breaks that fake lines, marks that change the reading
direction, or HTML that takes effect where a report is pasted. All output of the terminal commands goes through this
module.
"""

from __future__ import annotations

import json
import re
from typing import Any

#: Characters that are markup anywhere, markup at the beginning of a text, and an underscore that is not inside a word.
_MARKDOWN = re.compile(r"[\\`*\[<&|~$]|^[>#+-](?!\S)|^>|(?<!\w)_|_(?!\w)")
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def safe(text: str) -> str:
    r"""Return one line in which every character is visible; others become `\x1b`, `\n`, `\u202e` and the like.

    Applying it twice changes nothing more: a backslash stays, so that a name and its escaped form look the same.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def safe_markdown(text: str) -> str:
    """Return one line that a Markdown reader shows unchanged: no markup, no HTML, no table separators."""
    return _MARKDOWN.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), safe(text))


def markdown_code(text: str) -> str:
    """Return one line as Markdown code, with any backquotes in it."""
    text = safe(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"


def safe_json(value: Any, *, indent: int | None = None) -> str:
    """Return objects of the contract as JSON in visible ASCII only; no information is lost."""
    # Imported here, so that the command line works without the extra.
    import msgspec  # noqa: PLC0415

    # A terminal treats U+009B as an escape code and JSON allows it unescaped; 0x7f is the one control code left in
    # ASCII.
    text = json.dumps(msgspec.to_builtins(value), indent=indent)
    return text.replace("\x7f", "\\u007f")

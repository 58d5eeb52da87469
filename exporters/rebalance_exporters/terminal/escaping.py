"""Makes text of strangers safe to show: group names, client ids and hosts are whatever a client chose to send.

A name may hold escape codes that repaint the terminal, line breaks that fake lines, marks that turn the reading
direction, or HTML for whoever pastes a report. All output of the terminal commands goes through this module.
"""

from __future__ import annotations

import json
import re
from typing import Any

#: What means something anywhere, at the beginning of a text, and an underscore that is not inside a word.
_MARKDOWN = re.compile(r"[\\`*\[<&|~$]|^[>#+-](?!\S)|^>|(?<!\w)_|_(?!\w)")
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def safe(text: str) -> str:
    r"""Return one line in which every character can be seen; others become `\x1b`, `\n`, `\u202e` and the like.

    Applying it twice changes nothing more: a backslash stays, so that a name and its escaped form look the same.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def safe_markdown(text: str) -> str:
    """Return one line that a Markdown reader shows as it is: no markup, no HTML, no table cell of its own."""
    return _MARKDOWN.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), safe(text))


def markdown_code(text: str) -> str:
    """Return one line as code, whatever quotes it holds."""
    text = safe(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"


def safe_json(value: Any, *, indent: int | None = None) -> str:
    """Return the JSON text of objects of the contract, in visible ASCII only; nothing is lost by that."""
    # Imported here, so that the command line works where the extra is not installed.
    import msgspec  # noqa: PLC0415

    # A terminal takes U+009B for an escape code and JSON allows it raw; 0x7f is the one control code ASCII leaves.
    text = json.dumps(msgspec.to_builtins(value), indent=indent)
    return text.replace("\x7f", "\\u007f")

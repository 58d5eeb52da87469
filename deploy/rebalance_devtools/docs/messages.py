"""Generates the page that lists every message, from the index of messages.

python -m rebalance_devtools.docs.messages docs/messages.md
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rebalance_exporters.messages.index import Index, Meaning, Message, read_index

_HEAD = """\
# Messages

What clients and coordinators print about consumer groups, what it means, and which [diagnoses](diagnoses.md) it may
stand for. A message is a symptom: most are printed for several causes, so each entry says how to distinguish them.

`rebalance-monitor why "MESSAGE"` finds the entry of a line, or of a piece of one, and says what the monitor knows of
the group; with `--file LOG` (also `.gz`) or from a pipe it counts the messages of a log. The search field of the live
page and `/api/v1/messages?text=` find lines and stack traces too.

This page is generated from `exporters/rebalance_exporters/messages/messages.toml`; change the text there, then run
`make docs`.

A message with `{{error}}` or `{{reason}}` in it means what stands there, where that is a message of this page too, and
what it is listed under where it is not: the same text is printed for a member that lost its place, a coordinator that
moved, and a timeout. Of a stack trace all lines are searched, and it counts once.

`{{names}}` stand for what varies. Versions are those whose sources have the text, searched at every released tag; "and
later" means up to the newest that was looked at:

| client | messages | versions looked at | sources |
|---|---:|---|---|
{clients}

## Contents

What healthy groups print too is marked *ordinary*.

| meaning | printed by |
|---|---|
{contents}
"""


def render(index: Index) -> str:
    """Return the page."""
    used = _by_meaning(index)
    page = _HEAD.format(clients="\n".join(_clients(index)), contents="\n".join(_contents(index, used)))
    sections = ("\n".join(_section(index.meanings[name], messages)) for name, messages in used.items())
    return page + "\n" + "\n\n".join(sections) + "\n"


def _by_meaning(index: Index) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {name: [] for name in index.meanings}
    for message in index.messages:
        found[message.meaning.id].append(message)
    return found


def _clients(index: Index) -> Iterator[str]:
    count = Counter(printer.client.id for message in index.messages for printer in message.printed)
    for client in index.clients.values():
        yield f"| {client.name} | {count[client.id]} | {client.looked_at} | github.com/{client.repository} |"


def _contents(index: Index, used: dict[str, list[Message]]) -> Iterator[str]:
    for name, messages in used.items():
        meaning = index.meanings[name]
        mark = " *ordinary*" if meaning.ordinary else ""
        names = _unique(printer.client.name for message in messages for printer in message.printed)
        yield f"| [{meaning.title}](#{name}){mark} | {', '.join(names)} |"


def _section(meaning: Meaning, messages: list[Message]) -> Iterator[str]:
    yield f'<a id="{meaning.id}"></a>\n\n### {meaning.title}\n'
    yield f"{meaning.meaning}{' Healthy groups print it too.' if meaning.ordinary else ''}\n"
    yield "| message | client | versions | source |\n|---|---|---|---|"
    for message in messages:
        for place, printer in enumerate(message.printed):
            text = _code(message.text) if place == 0 else "same"
            yield f"| {text} | {printer.client.name} | {printer.versions} | {printer.file} |"
    if meaning.causes:
        yield "\n| may stand for | when |\n|---|---|"
    for cause in meaning.causes:
        yield f"| [{cause.diagnosis}](diagnoses.md#{cause.diagnosis}) | {_cell(cause.when)} |"
    yield f"\n*Look at.* {' '.join(meaning.look_at)}"
    if meaning.settings:
        settings = "; ".join(f"`{name}`: {proposed}" for name, proposed in meaning.settings.items())
        yield f"\n*Change.* {settings}."


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{_cell(text)}{fence}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(read_index()), encoding="utf-8")

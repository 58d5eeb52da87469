"""Builds HTML from elements: text is escaped, and only results of `element` are treated as markup."""

from __future__ import annotations

import html

from rebalance_exporters.terminal.escaping import safe

#: Elements without an end tag.
_VOID = frozenset({"meta", "rect", "line"})


class Markup(str):
    """HTML that needs no escaping."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float) -> Markup:
    """Return an element. In attribute names a trailing underscore is removed, and other underscores become hyphens."""
    named = "".join(f' {_hyphenate(each)}="{_escape(str(value))}"' for each, value in attributes.items())
    if name in _VOID and not children:
        return Markup(f"<{name}{named}/>")
    return Markup(f"<{name}{named}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Return texts and elements joined together."""
    return Markup("".join(each if isinstance(each, Markup) else _escape(each) for each in children))


def name_of(text: str) -> Markup:
    """Return a foreign name in an element that isolates its reading direction."""
    return element("bdi", text)


def _escape(text: str) -> str:
    return html.escape(safe(text))


def _hyphenate(name: str) -> str:
    return name.rstrip("_").replace("_", "-")

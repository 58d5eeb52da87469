"""HTML made of elements: text is escaped, and only what `element` returned is taken for markup."""

from __future__ import annotations

import html

from rebalance_exporters.terminal.escaping import safe

#: Elements that have no end.
_VOID = frozenset({"meta", "rect", "line"})


class Markup(str):
    """HTML that needs no escaping."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float) -> Markup:
    """Return an element. In names of attributes, an underscore at the end is left out, others are hyphens."""
    named = "".join(f' {_hyphenate(each)}="{_escape(str(value))}"' for each, value in attributes.items())
    if name in _VOID and not children:
        return Markup(f"<{name}{named}/>")
    return Markup(f"<{name}{named}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Return texts and elements behind each other."""
    return Markup("".join(each if isinstance(each, Markup) else _escape(each) for each in children))


def name_of(text: str) -> Markup:
    """Return somebody else's word, whose reading direction is to stay its own."""
    return element("bdi", text)


def _escape(text: str) -> str:
    return html.escape(safe(text))


def _hyphenate(name: str) -> str:
    return name.rstrip("_").replace("_", "-")

"""Responses of the API about log messages: the catalogue entry of a line, and its meaning.

The rules of `api.py` for its rows apply here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MessageMatch(StrEnum):
    """How well a text matches: a whole message, a part of one, or none; then the nearest entries are returned."""

    WHOLE = "whole"
    PART = "part"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class MessagePrinter:
    """The program that prints a message: an id and a name, the versions that have the message, and its source file."""

    client: str
    name: str
    versions: str
    source: str


@dataclass(frozen=True, slots=True)
class MessageCause:
    """A diagnosis that a message may indicate, and how to distinguish it from the others."""

    diagnosis: str
    when: str


@dataclass(frozen=True, slots=True)
class MessageSetting:
    """A setting to change, by its name in the clients that print the message, and the value to set."""

    names: tuple[str, ...]
    proposed: str


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message that clients or coordinators print, and its meaning.

    `text` has placeholders in `{braces}`. `ordinary`: it is also printed for healthy groups.
    """

    id: str
    text: str
    printed: tuple[MessagePrinter, ...]
    title: str
    meaning: str
    ordinary: bool
    causes: tuple[MessageCause, ...]
    look_at: tuple[str, ...]
    settings: tuple[MessageSetting, ...]


@dataclass(frozen=True, slots=True)
class MessagesAnswer:
    """The entries that match a log line, best first. `group` and `client` are read from the line, null without."""

    match: MessageMatch
    group: str | None
    client: str | None
    messages: tuple[MessageRow, ...]

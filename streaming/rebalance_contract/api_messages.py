"""What the API answers of the messages of logs: which entry a line belongs to, and what it means.

What `api.py` says of its rows holds here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MessageMatch(StrEnum):
    """How well a text is known: a message whole, a part of one, or none; then the nearest entries are given."""

    WHOLE = "whole"
    PART = "part"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class MessagePrinter:
    """Who prints a message: an id and a name, the versions that have it, and the file that it stands in."""

    client: str
    name: str
    versions: str
    source: str


@dataclass(frozen=True, slots=True)
class MessageCause:
    """A diagnosis that a message may stand for, and how it is distinguished from the others."""

    diagnosis: str
    when: str


@dataclass(frozen=True, slots=True)
class MessageSetting:
    """What to change: a setting, as the clients that print the message call it, and to what."""

    names: tuple[str, ...]
    proposed: str


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message that clients or coordinators print, and what it means.

    `text` has `{places}` for what varies. `ordinary`: healthy groups print it too.
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
    """What is known of a line of a log, best first. `group` and `client` are read from the line, null without."""

    match: MessageMatch
    group: str | None
    client: str | None
    messages: tuple[MessageRow, ...]

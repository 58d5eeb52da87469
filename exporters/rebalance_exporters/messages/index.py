"""The index of messages as values: clients, meanings and message texts.

The data is messages.toml, read once and validated: an entry may only name entries that exist.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from rebalance_contract.api_messages import MessageCause, MessagePrinter, MessageRow, MessageSetting

_FILE = "messages.toml"
_WHY = re.compile(r"\{(?:error|reason)\}")


@dataclass(frozen=True, slots=True)
class Client:
    """A client library, or the coordinator. `settings` maps the Java client's setting names to its own."""

    id: str
    name: str
    repository: str
    looked_at: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PossibleCause:
    """A diagnosis that a message may indicate, and how to distinguish it from the others."""

    diagnosis: str
    when: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of one or more messages. `ordinary`: healthy groups print them too.

    `settings` are under the names of the Java client. `with_error` maps the id of the meaning found in an {error} or
    {reason} to the id of the combined meaning. If it has no entry, the meaning of the error or reason replaces this
    one.
    """

    id: str
    title: str
    meaning: str
    ordinary: bool
    causes: tuple[PossibleCause, ...]
    look_at: tuple[str, ...]
    settings: Mapping[str, str]
    with_error: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Printer:
    """A client that prints a message, the versions that do, and the file of its repository that contains the text."""

    client: Client
    versions: str
    file: str

    @property
    def source(self) -> str:
        """The repository and the file."""
        return f"{self.client.repository}: {self.file}"


@dataclass(frozen=True, slots=True)
class Message:
    """One text, with `{places}` for its variable parts."""

    id: str
    text: str
    meaning: Meaning
    printed: tuple[Printer, ...]

    def because(self, cause: Message, meanings: Mapping[str, Meaning]) -> Message:
        """Return the message with `cause` in place of its last {error} or {reason}, and with the resulting meaning."""
        together = self.meaning.with_error.get(cause.meaning.id)
        start, end = list(_WHY.finditer(self.text))[-1].span()
        text = f"{self.text[:start]}{cause.text}{self.text[end:]}"
        return replace(self, text=text, meaning=cause.meaning if together is None else meanings[together])

    def row(self) -> MessageRow:
        """Return the entry as the API shows it, with settings under the names that its clients use."""
        return MessageRow(
            id=self.id,
            text=self.text,
            printed=tuple(
                MessagePrinter(each.client.id, each.client.name, each.versions, each.source) for each in self.printed
            ),
            title=self.meaning.title,
            meaning=self.meaning.meaning,
            ordinary=self.meaning.ordinary,
            causes=tuple(MessageCause(each.diagnosis, each.when) for each in self.meaning.causes),
            look_at=self.meaning.look_at,
            settings=tuple(self._settings()),
        )

    def _settings(self) -> list[MessageSetting]:
        clients = [each.client for each in self.printed]
        named = {
            setting: tuple(dict.fromkeys(client.settings[setting] for client in clients if setting in client.settings))
            for setting in self.meaning.settings
        }
        return [MessageSetting(names, self.meaning.settings[each]) for each, names in named.items() if names]


@dataclass(frozen=True, slots=True)
class Index:
    """The contents of messages.toml."""

    clients: Mapping[str, Client]
    meanings: Mapping[str, Meaning]
    messages: tuple[Message, ...]


@functools.cache
def read_index() -> Index:
    """Return the index. Raises ValueError or KeyError if the file is inconsistent."""
    data = tomllib.loads(resources.files(__package__).joinpath(_FILE).read_text("utf-8"))
    clients = {name: Client(id=name, **entry) for name, entry in data["clients"].items()}
    meanings = {name: _meaning(name, entry) for name, entry in data["meanings"].items()}
    messages = tuple(_message(entry, clients, meanings) for entry in data["messages"])
    named = {key for each in meanings.values() for pair in each.with_error.items() for key in pair}
    if unknown := named - meanings.keys():
        raise ValueError(f"{_FILE}: with_error names {sorted(unknown)}, which are no meanings")
    ids = [each.id for each in messages]
    if twice := {each for each in ids if ids.count(each) > 1}:
        raise ValueError(f"{_FILE}: several messages have the id {sorted(twice)}")
    return Index(clients, meanings, messages)


def _meaning(name: str, entry: Mapping[str, Any]) -> Meaning:
    return Meaning(
        id=name,
        title=entry["title"],
        meaning=" ".join(entry["meaning"].split()),
        ordinary=entry.get("ordinary", False),
        causes=tuple(PossibleCause(**cause) for cause in entry.get("causes", ())),
        look_at=tuple(entry["look_at"]),
        settings=entry.get("settings", {}),
        with_error=entry.get("with_error", {}),
    )


def _message(entry: Mapping[str, Any], clients: Mapping[str, Client], meanings: Mapping[str, Meaning]) -> Message:
    printed = tuple(Printer(clients[by["client"]], by["versions"], by["file"]) for by in entry["printed"])
    return Message(entry["id"], entry["text"], meanings[entry["meaning"]], printed)

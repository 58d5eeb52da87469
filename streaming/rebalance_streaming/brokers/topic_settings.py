"""Checks the broker's settings of the monitor's own topics; pure, from the settings as described.

Existing topics were created manually, by another version or by automation, and a wrong setting has late effects: a
snapshot that was deleted by retention is missing after a restart weeks later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rebalance_contract.topics import COMPACT, DELETE, Topic

_POLICY, _SIZE, _COMPRESSION = "cleanup.policy", "max.message.bytes", "compression.type"


@dataclass(frozen=True, slots=True)
class WrongSetting:
    """One wrong setting. `is_fatal`: rows would be lost or rejected without a visible error."""

    name: str
    wanted: str
    sentence: str
    is_fatal: bool = False


@dataclass(frozen=True, slots=True)
class WrongTopic:
    """A topic with wrong settings, by its full name."""

    name: str
    settings: tuple[WrongSetting, ...]

    @property
    def is_fatal(self) -> bool:
        """Whether the stream must not start with these settings."""
        return any(each.is_fatal for each in self.settings)

    @property
    def sentence(self) -> str:
        """Description of the wrong settings, and the command that fixes them."""
        wanted = ",".join(f"{each.name}={_as_list(each.wanted)}" for each in self.settings)
        return (
            f"topic {self.name} {' and '.join(each.sentence for each in self.settings)}; mend it: kafka-configs "
            f"--bootstrap-server HOST:PORT --alter --entity-type topics --entity-name {self.name} "
            f"--add-config '{wanted}'"
        )


def check_topic(name: str, topic: Topic, found: Mapping[str, str]) -> WrongTopic | None:
    """Return the settings of a topic that differ from those in the table; null if all are correct.

    Retention is the operator's choice and not checked; a setting that the broker does not report counts as correct.
    """
    wrong = (
        *_wrong_policy(topic, found.get(_POLICY)),
        *_wrong_size(topic, found.get(_SIZE)),
        *_wrong_compression(topic, found.get(_COMPRESSION)),
    )
    return WrongTopic(name, wrong) if wrong else None


def _wrong_policy(topic: Topic, found: str | None) -> Iterator[WrongSetting]:
    if found is None:
        return
    # Kafka accepts the parts in any order and with spaces.
    has, wants = {part.strip() for part in found.split(",")} - {""}, set(topic.cleanup_policy.split(","))
    if has == wants:
        return
    text, fatal = f"has {_POLICY}={found} instead of {topic.cleanup_policy}", True
    if DELETE in has - wants:
        text += ": what is not written again for long, such as a quiet group, would be gone after a restart"
    elif COMPACT in has - wants:
        text += ": of several rows with one key only the last would be kept, and rows without a key refused"
    else:
        text += ": it would grow, and take ever longer to read at a start"
        fatal = False
    yield WrongSetting(_POLICY, topic.cleanup_policy, text, fatal)


def _wrong_size(topic: Topic, found: str | None) -> Iterator[WrongSetting]:
    if found is not None and int(found) < topic.max_message_bytes:
        text = f"takes {_SIZE}={found} only: a larger row, up to {topic.max_row_bytes} bytes, would be refused"
        yield WrongSetting(_SIZE, str(topic.max_message_bytes), text)


def _wrong_compression(topic: Topic, found: str | None) -> Iterator[WrongSetting]:
    wanted = topic.settings.get(_COMPRESSION)
    if wanted is not None and found is not None and found != wanted:
        text = (
            f"has {_COMPRESSION}={found}: the broker would take small messages that unpack to more than a reader's "
            "memory"
        )
        yield WrongSetting(_COMPRESSION, wanted, text)


def _as_list(value: str) -> str:
    """Return a value in the syntax of kafka-configs, in which a value with a comma needs brackets."""
    return f"[{value}]" if "," in value else value

"""Reads topics to their ends, however long a busy machine takes."""

from __future__ import annotations

from confluent_kafka import Consumer, Message

from waiting import wait_for

_POLL_SECONDS = 1.0


def next_message(consumer: Consumer, what: str) -> Message:
    """Return the next message of a consumer, including errors; fail with a description of what was awaited."""

    def look() -> list[Message]:
        # In a list, because a message without a value is falsy.
        return [found for found in (consumer.poll(_POLL_SECONDS),) if found is not None]

    (message,) = wait_for(look, what)
    return message

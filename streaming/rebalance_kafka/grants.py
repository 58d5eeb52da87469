"""What to type where a client lacks a right: the command that grants it, as one error after the other says it."""

from __future__ import annotations

import shlex


def grant(*operations: str, topic: str | None = None, group: str | None = None, is_prefix: bool = False) -> str:
    """Return the end of a sentence: "grant it: kafka-acls …", to be run once the brokers and the user are filled in.

    One of `topic` and `group` is given; `*` is all of them. `is_prefix`: it is what their names begin with.
    """
    resource = ("--topic", topic) if topic is not None else ("--group", group or "")
    words = [
        *(word for operation in operations for word in ("--operation", operation)),
        *resource,
        *(("--resource-pattern-type", "prefixed") if is_prefix else ()),
    ]
    return f"grant it: kafka-acls --bootstrap-server HOST:PORT --add {shlex.join(words)} --allow-principal User:..."

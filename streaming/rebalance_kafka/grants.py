"""The command that grants a missing permission, for error messages."""

from __future__ import annotations

import shlex


def grant(*operations: str, topic: str | None = None, group: str | None = None, is_prefix: bool = False) -> str:
    """Return the end of a sentence, "grant it: kafka-acls …", with placeholders for the brokers and the user.

    Give either `topic` or `group`; `*` stands for all. `is_prefix`: the name is a prefix of names.
    """
    resource = ("--topic", topic) if topic is not None else ("--group", group or "")
    words = [
        *(word for operation in operations for word in ("--operation", operation)),
        *resource,
        *(("--resource-pattern-type", "prefixed") if is_prefix else ()),
    ]
    return f"grant it: kafka-acls --bootstrap-server HOST:PORT --add {shlex.join(words)} --allow-principal User:..."

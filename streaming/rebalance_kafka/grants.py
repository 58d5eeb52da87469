"""The command that grants a missing permission, for error messages."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def grant(*operations: str, topic: str | None = None, group: str | None = None, is_prefix: bool = False) -> str:
    """Return the end of a sentence, "grant it: kafka-acls …", with placeholders for the brokers and the user.

    Give either `topic` or `group`; `*` stands for all. `is_prefix`: the name is a prefix of names.
    """
    resource = ("--topic", topic) if topic is not None else ("--group", group or "")
    return _grant(operations, resource, is_prefix=is_prefix)


def grant_producer_id(topics: Iterable[str], *, is_prefix: bool = False) -> str:
    """Return the end of a sentence that says what an idempotent producer lacks if brokers refuse it an id.

    They do so if its user may write to no topic at all (KIP-679), and name neither a topic nor the permission: "Cluster
    authorization failed".
    """
    names = [word for topic in topics for word in ("--topic", topic)] or ["--topic", "TOPIC"]
    return (
        f"this user may write to no topic; {_grant(('Write', 'Describe'), names, is_prefix=is_prefix)}; "
        "brokers before 2.8 also need --operation IdempotentWrite --cluster"
    )


def _grant(operations: Iterable[str], resource: Iterable[str], *, is_prefix: bool) -> str:
    words = [
        *(word for operation in operations for word in ("--operation", operation)),
        *resource,
        *(("--resource-pattern-type", "prefixed") if is_prefix else ()),
    ]
    return f"grant it: kafka-acls --bootstrap-server HOST:PORT --add {shlex.join(words)} --allow-principal User:..."

"""Keys of rows: the parts that distinguish one row from another, joined and split.

Which topic has which key is in `topics`; those of the status topic are made by `status_key`. No cluster has a `/` in
its name, so that the first one ends it; groups may.
"""

from __future__ import annotations

from rebalance_contract.sets import StatusKind


def group_key(cluster: str, group: str) -> str:
    """Return the key of rows of which a group has one in a topic."""
    return f"{cluster}/{group}"


def rebalance_key(cluster: str, group: str, rebalance_id: str) -> str:
    """Return the key of a rebalance, and of its impact."""
    return f"{cluster}/{group}/{rebalance_id}"


def silence_key(cluster: str, silence_id: str) -> str:
    """Return the key of a silence, or of an announced deploy."""
    return f"{cluster}/{silence_id}"


def query_key(cluster: str, query: str) -> str:
    """Return the key under which a query says how it is: what `status_key` returns for its status."""
    return f"{cluster}/{StatusKind.QUERY}/{query}"


def split_key(key: bytes | str | None) -> tuple[str, str]:
    """Return the cluster, and the group or the silence, that a key names; both are empty for null."""
    text = key.decode(errors="replace") if isinstance(key, bytes) else key or ""
    cluster, _, name = text.partition("/")
    return cluster, name

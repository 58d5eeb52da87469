"""Builds and splits the keys of rows.

`topics` lists the key of each topic; `status_key` builds those of the status topic. A cluster's name contains no `/`,
so the first one ends it; groups' names may contain it.
"""

from __future__ import annotations

from rebalance_contract.sets import StatusKind


def group_key(cluster: str, group: str) -> str:
    """Return the key of a row in topics with one row per group."""
    return f"{cluster}/{group}"


def rebalance_key(cluster: str, group: str, rebalance_id: str) -> str:
    """Return the key of a rebalance, and of its impact."""
    return f"{cluster}/{group}/{rebalance_id}"


def silence_key(cluster: str, silence_id: str) -> str:
    """Return the key of a silence, or of an announced deploy."""
    return f"{cluster}/{silence_id}"


def query_key(cluster: str, query: str) -> str:
    """Return the key of a query's status: the same as `status_key` returns for its row."""
    return f"{cluster}/{StatusKind.QUERY}/{query}"


def split_key(key: bytes | str | None) -> tuple[str, str]:
    """Return the cluster and the group (or silence) that a key names; both are empty for null."""
    text = key.decode(errors="replace") if isinstance(key, bytes) else key or ""
    cluster, _, name = text.partition("/")
    return cluster, name

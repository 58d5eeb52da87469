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


def finding_key(cluster: str, group: str, rule: str, subject: str) -> str:
    """Return the key of a finding; `subject` identifies what it is about among the group's findings of a rule."""
    return f"{cluster}/{group}/{rule}/{subject}"


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


def split_rebalance_key(key: bytes) -> tuple[tuple[str, str], str]:
    """Return (cluster, group) and the id of the rebalance that a key names."""
    path, _, rebalance_id = key.rpartition(b"/")
    return split_key(path), rebalance_id.decode(errors="replace")

"""Partitions of several topics: by topic, as rows have them, and as places, which are (topic, number)."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_contract import Partitions

Place = tuple[str, int]


def places(partitions: Partitions | None) -> set[Place]:
    """Return partitions as a set of places; empty for null."""
    return {(topic, p) for topic, numbers in (partitions or {}).items() for p in numbers}


def by_topic(of: Iterable[Place]) -> Partitions:
    """Return places by topic, in the given order."""
    found: Partitions = {}
    for topic, number in of:
        found.setdefault(topic, []).append(number)
    return found


def size_of(partitions: Partitions | None) -> int:
    """Return the number of partitions; 0 for null."""
    return sum(len(numbers) for numbers in (partitions or {}).values())


def partition_name(topic: str, number: int) -> str:
    """Return the name of a partition as Kafka prints it."""
    return f"{topic}-{number}"


def partition_names(partitions: Partitions | None) -> tuple[str, ...]:
    """Return the names of partitions, sorted by topic."""
    return tuple(partition_name(topic, p) for topic, numbers in sorted((partitions or {}).items()) for p in numbers)

"""Topics on a real broker."""

from __future__ import annotations

from rebalance_deploy.topics import create_topics


def create_topic(bootstrap: str, name: str, partitions: int = 1, **settings: str) -> None:
    """Create a topic and return when it can be written."""
    create_topics(bootstrap, {name: partitions}, **settings)

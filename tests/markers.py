"""The markers of a test, looked up once."""

from __future__ import annotations

import pytest

_NAMES = pytest.StashKey[frozenset[str]]()


def marker_names(item: pytest.Item) -> frozenset[str]:
    """Return the names of a test's markers. pytest's own look for one of them goes through all of them each time."""
    if _NAMES not in item.stash:
        item.stash[_NAMES] = frozenset(marker.name for marker in item.iter_markers())
    return item.stash[_NAMES]

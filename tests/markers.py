"""The markers of a test, cached."""

from __future__ import annotations

import pytest

_NAMES = pytest.StashKey[frozenset[str]]()


def marker_names(item: pytest.Item) -> frozenset[str]:
    """Return the names of a test's markers. pytest's own lookup of one marker iterates over all of them each time."""
    if _NAMES not in item.stash:
        item.stash[_NAMES] = frozenset(marker.name for marker in item.iter_markers())
    return item.stash[_NAMES]

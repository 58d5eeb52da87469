"""Traits of diagnoses, for readers of findings that do not import the stream.

The catalogue is `rebalance_streaming.detect.catalogue`; `make docs` writes the ids for each trait into diagnoses.json.
"""

from __future__ import annotations

import json
from importlib import resources

_IDS = json.loads(resources.files(__package__).joinpath("diagnoses.json").read_text("utf-8"))


def with_trait(trait: str) -> frozenset[str]:
    """Return the ids of the diagnoses that have a trait. Raises KeyError for an unknown trait."""
    return frozenset(_IDS[trait])

"""What readers of findings may ask of the catalogue of diagnoses, without the stream.

The catalogue is `rebalance_streaming.detect.catalogue`; `make docs` writes the ids of each trait into diagnoses.json.
"""

from __future__ import annotations

import json
from importlib import resources

_IDS = json.loads(resources.files(__package__).joinpath("diagnoses.json").read_text("utf-8"))


def with_trait(trait: str) -> frozenset[str]:
    """Return the ids of the diagnoses that have a trait. Raises KeyError for one that the catalogue does not know."""
    return frozenset(_IDS[trait])

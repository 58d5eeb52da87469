"""Texts with places for values, matched from left to right without going back: linear in the text.

A place ends where the words behind it come first, and an empty last one takes all that is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """`words` stand around the places; there is one more of them than of `places`. The last may be empty."""

    words: tuple[str, ...]
    places: tuple[str, ...]

    def match(self, text: str) -> Mapping[str, str] | None:
        """Return the values by their places if the text begins so; null if it does not."""
        if not text.startswith(self.words[0]):
            return None
        values: dict[str, str] = {}
        at = len(self.words[0])
        for place, words in zip(self.places, self.words[1:], strict=True):
            end = text.find(words, at) if words else len(text)
            if end < 0:
                return None
            values[place] = text[at:end]
            at = end + len(words)
        return values


def template(text: str) -> Template:
    """Read a template; its places stand in braces."""
    words, places = [], []
    head, *parts = text.split("{")
    words.append(head)
    for part in parts:
        place, _, rest = part.partition("}")
        places.append(place)
        words.append(rest)
    return Template(tuple(words), tuple(places))

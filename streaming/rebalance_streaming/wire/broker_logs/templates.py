"""Texts with places for values, matched from left to right without backtracking: linear in the length of the text.

A place ends at the first occurrence of the words after it; if the last words are empty, it takes the remaining text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """`words` are the texts around the `places`, so there is one more of them. The last one may be empty."""

    words: tuple[str, ...]
    places: tuple[str, ...]

    def match(self, text: str) -> Mapping[str, str] | None:
        """Return the values by place if the text begins like the template; null if it does not."""
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
    """Parse a template; places are names in braces."""
    words, places = [], []
    head, *parts = text.split("{")
    words.append(head)
    for part in parts:
        place, _, rest = part.partition("}")
        places.append(place)
        words.append(rest)
    return Template(tuple(words), tuple(places))

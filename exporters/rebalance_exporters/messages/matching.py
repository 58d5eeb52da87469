"""Finds the entry of a line, a piece of one, or what a person remembers of one.

A text is cut at its places into literals. A line matches when it has all of them, one after the other: case, blanks and
kinds of quotes do not count, and whatever stands before or behind does not either. Only `str.find` looks for them, each
from where the one before ended, so the time is linear in the line and no line can make it long.

A piece is what shares at least four words in a row with a text, is part of one, or ends inside of one. Anything else is
not known; the entries nearest to it are those that share most of its rare words.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rebalance_contract.api_messages import MessageMatch
from rebalance_exporters.messages.index import Message, read_index

#: What is looked at of a text that a person gives.
TEXT_LIMIT = 4_096

_PLACE = re.compile(r"\{([a-z0-9]+)\}")
# Quotes as editors and chats rewrite them, and as JSON escapes them.
_QUOTES = str.maketrans(
    {"`": "'", "\u00b4": "'", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "}
)
_ESCAPES = (('\\"', '"'), ("\\n", " "), ("\\t", " "), ("\\r", " "))
_EDGES = ".,:;()[]{}<>\"'!?|=*"
_GRAM = 4
_SHORTEST_PIECE = 4
_SHORTEST_CUT = 16
_LISTED = 5
#: Of the weight of a text's words, so much has to be in an entry to be called near. A word that no entry has weighs
#: about as much as an average one of theirs, and speaks against every entry.
_NEAR, _FOREIGN = 0.35, 3.0
#: Words that are rare in messages and say nothing about them.
_COMMON_WORDS = (
    "a after all an and are as at be because been by for from has have if in is it its my no not of on or out so than "
    "that the their then there this time to too was were when which while why will with you your"
)
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Hit:
    """A message found in a line, with what stands in its places; `weight` is the length of what was recognised."""

    message: Message
    places: Mapping[str, str]
    weight: int


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a text: how well it is known, and the entries, best first."""

    match: MessageMatch
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class _Pattern:
    message: Message
    literals: tuple[str, ...]
    places: tuple[str, ...]
    anchor: str
    weight: int

    def find(self, lowered: str, text: str) -> Hit | None:
        """Return the hit in a text that went through `flatten`, given in small letters and as it came."""
        at, ends, starts = 0, [], []
        for literal in self.literals:
            start = lowered.find(literal, at)
            if start < 0:
                return None
            at = start + len(literal)
            starts.append(start)
            ends.append(at)
        # Some letters become longer in small ones; then places are read from those.
        source = text if len(text) == len(lowered) else lowered
        bounds = zip(ends, [*starts[1:], len(source)], strict=True)
        read = {
            name: value
            for name, (start, end) in zip(self.places, bounds, strict=False)
            if (value := _read_place(source[start:end], is_last=end == len(source)))
        }
        return Hit(self.message, read, self.weight)

    def measure_cut(self, lowered: str) -> int:
        """Return how much of the text a line has that was cut off inside of it; 0 where that is too little."""
        at, length = 0, 0
        for literal in self.literals:
            start = lowered.find(literal, at)
            if start < 0:
                rest = lowered[at:]
                ending = max((n for n in range(1, len(literal)) if rest.endswith(literal[:n])), default=0)
                length += ending
                return length if at and ending and length >= _SHORTEST_CUT else 0
            at = start + len(literal)
            length += len(literal)
        return length


class Matcher:
    """Finds entries; made once, holds no state of what was asked."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._patterns = tuple(map(_compile, messages))
        self._by_key: dict[str, list[_Pattern]] = defaultdict(list)
        self._keyless: list[_Pattern] = []
        self._file_by_key()
        self._words = [_words_of(each) for each in self._patterns]
        count = Counter(word for words in self._words for word in words)
        self._rarity = {word: math.log(1 + len(self._patterns) / number) for word, number in count.items()}
        self._grams: dict[tuple[str, ...], list[_Pattern]] = defaultdict(list)
        for pattern in self._patterns:
            for gram in {gram for literal in pattern.literals for gram in _grams(literal.split())}:
                self._grams[gram].append(pattern)

    def match(self, line: str) -> list[Hit]:
        """Return the messages that a line holds whole, the longest first."""
        text = flatten(line)
        return self._match(text.lower(), text)

    def search(self, text: str) -> Found:
        """Return what is known of a text, which may be a line, a piece of a message, or neither."""
        flat = flatten(text[:TEXT_LIMIT])
        lowered = flat.lower()
        if hits := self._match(lowered, flat):
            return Found(MessageMatch.WHOLE, tuple(hits[:_LISTED]))
        if hits := self._find_pieces(lowered.strip(_EDGES + " ")):
            return Found(MessageMatch.PART, tuple(hits[:_LISTED]))
        hits = self._find_near(lowered)
        return Found(MessageMatch.NONE, tuple(hits[:_LISTED]))

    def _match(self, lowered: str, text: str) -> list[Hit]:
        candidates = [each for each in self._keyless if each.anchor in lowered]
        for word in set(lowered.split(" ")) & self._by_key.keys():
            candidates += [each for each in self._by_key[word] if each.anchor in lowered]
        hits = [hit for pattern in candidates if (hit := pattern.find(lowered, text)) is not None]
        hits.sort(key=lambda each: (-each.weight, each.message.id))
        return list(_without_shorter(hits)) if len(hits) > 1 else hits

    def _find_pieces(self, text: str) -> list[Hit]:
        shared: Counter[str] = Counter()
        known = {pattern.message.id: pattern for pattern in self._patterns}
        for pattern in self._patterns:
            shared[pattern.message.id] += pattern.measure_cut(text)
        for gram in set(_grams(text.split(" "))):
            found = self._grams.get(gram, ())
            for pattern in found:
                # What stands in many texts tells little.
                shared[pattern.message.id] += 1 + len(self._patterns) // len(found)
        if len(text) >= _SHORTEST_PIECE:
            for pattern in self._patterns:
                if any(text in literal for literal in pattern.literals):
                    shared[pattern.message.id] += len(self._patterns) * len(text) // pattern.weight + 1
        ranked = sorted(+shared, key=lambda each: (-shared[each], each))
        return [Hit(known[each].message, {}, shared[each]) for each in ranked]

    def _find_near(self, text: str) -> list[Hit]:
        words = {word for each in text.split(" ") if (word := each.strip(_EDGES))} - _COMMON
        asked = words & self._rarity.keys()
        whole = sum(self._rarity[word] for word in asked) + _FOREIGN * len(words - asked)
        scored = []
        for pattern, own in zip(self._patterns, self._words, strict=True):
            score = sum(self._rarity[word] for word in asked & own)
            if whole and score / whole >= _NEAR:
                scored.append((-score, pattern.message.id, pattern))
        scored.sort(key=lambda each: each[:2])
        return [Hit(pattern.message, {}, round(-score)) for score, _, pattern in scored]

    def _file_by_key(self) -> None:
        """File patterns by a word that a line must have, the rarest, so that few are tried per line."""
        inner = {pattern.message.id: _inner_words(pattern) for pattern in self._patterns}
        count = Counter(word for words in inner.values() for word in words)
        for pattern in self._patterns:
            words = inner[pattern.message.id]
            if words:
                self._by_key[min(words, key=lambda word: (count[word], -len(word), word))].append(pattern)
            else:
                self._keyless.append(pattern)


@functools.cache
def read_matcher() -> Matcher:
    """Return the matcher of the index."""
    return Matcher(read_index().messages)


def flatten(text: str) -> str:
    """Return text on one line with single blanks and plain quotes, its letters as they are."""
    if "\\" in text:
        for escape, plain in _ESCAPES:
            text = text.replace(escape, plain)
    text = text.replace("`", "'") if text.isascii() else text.translate(_QUOTES)
    return " ".join(text.split())


def _compile(message: Message) -> _Pattern:
    parts = _PLACE.split(flatten(message.text))
    literals, places = [part.lower() for part in parts[::2]], parts[1::2]
    if not literals[0].strip():
        # A place before all else has no beginning.
        del literals[0], places[0]
    if not literals[-1].strip():
        del literals[-1]
    literals[0], literals[-1] = literals[0].lstrip(), literals[-1].rstrip()
    if not all(literals):
        raise ValueError(f"{message.id}: two places without anything between them")
    return _Pattern(message, tuple(literals), tuple(places), max(literals, key=len), sum(map(len, literals)))


def _inner_words(pattern: _Pattern) -> set[str]:
    """Return the words that have a blank on both sides: those at an end may have anything else beside them."""
    return {word for literal in pattern.literals for word in literal.split(" ")[1:-1] if word}


def _words_of(pattern: _Pattern) -> frozenset[str]:
    words = {word.strip(_EDGES) for literal in pattern.literals for word in literal.split()}
    return frozenset(words - {""})


def _grams(words: list[str]) -> Iterator[tuple[str, ...]]:
    stripped = [word.strip(_EDGES) for word in words]
    for start in range(len(stripped) - _GRAM + 1):
        yield tuple(stripped[start : start + _GRAM])


def _without_shorter(hits: list[Hit]) -> Iterator[Hit]:
    """Leave out what a longer hit says already: its literals are part of that one's."""
    kept: list[_Pattern] = []
    for hit in hits:
        pattern = _compile(hit.message)
        if any(
            all(any(literal in longer for longer in other.literals) for literal in pattern.literals) for other in kept
        ):
            continue
        kept.append(pattern)
        yield hit


def _read_place(value: str, *, is_last: bool) -> str:
    """Return what stands in a place; at the end of a text that has none, only its first word is sure to belong."""
    value = value.strip()
    if is_last:
        value = value.partition(" ")[0]
    return value.strip(_EDGES + " ")

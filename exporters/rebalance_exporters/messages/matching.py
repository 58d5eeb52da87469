"""Finds the index entries for a log line, a piece of a line, or a message quoted from memory.

The text of a message is split at its places into literals. A line matches if it contains all of them in order. Case,
blanks and kinds of quotes are ignored, and so is the text before and after, unless it continues the first or last word
of the message. Literals are searched with `str.find`, each from the end of the previous one, so the time is linear in
the length of the line, whatever it contains.

If several texts match a line, the longest one counts. If it ends in an {error} or a {reason}, the entry found for that
decides its meaning. A text of several lines, such as a stack trace, is searched line by line.

A piece shares at least four words in a row with a text, is part of one, or ends inside one. Any other text is unknown;
the nearest entries for it are those that share most of its rare words.
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
from rebalance_exporters.messages.times import is_dated

#: Limits of a given text in characters: for whole messages, and when it is joined to one line or searched for pieces.
LONGEST_TEXT, TEXT_LIMIT = 65_536, 4_096

_SEPARATORS = re.compile("[ \"']")
_TOKEN = re.compile("[a-z0-9]+")
_PLACE = re.compile(r"\{([a-z0-9]+)\}")
# Quotes as editors and chats rewrite them, and as JSON escapes them.
_QUOTES = str.maketrans(
    {"`": "'", "\u00b4": "'", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "}
)
_ESCAPES = (('\\"', '"'), ("\\n", " "), ("\\t", " "), ("\\r", " "))
_EDGES = ".,:;()[]{}<>\"'!?|=*"
#: Characters that continue a word: a text next to them is part of a longer word. In front of it an underscore does not
#: count: RD_KAFKA_RESP_ERR_ and Errors are prefixes of the same codes.
_BEFORE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_BEHIND = _BEFORE | {"_"}
#: Places that state a cause, the number of nested causes that are followed, and the number of hits whose cause is read.
_DECIDING, _DEPTH, _CONSIDERED = ("error", "reason"), 2, 3
_GRAM = 4
_SHORTEST_PIECE = 4
_SHORTEST_CUT = 16
_LISTED = 5
_LONGEST_NAME = 256
_LEVELS = frozenset(("trace", "debug", "info", "warn", "warning", "error"))
#: Share of the weight of a text's words that an entry must contain to count as near; and the weight of a word that is
#: in no entry. It is about that of an average known word, and lowers the score of every entry.
_NEAR, _FOREIGN = 0.35, 3.0
#: Words that are rare in messages but do not characterize them.
_COMMON_WORDS = (
    "a after all an and are as at be because been by for from has have if in is it its my no not of on or out so than "
    "that the their then there this time to too was were when which while why will with you your"
)
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Hit:
    """A message found in a line, with the values of its places.

    `weight` is the length of the literals found or, for pieces and near entries, a score. `why` is the whole value of
    the last {error} or {reason}, null if the text has none; `inner` are the ids of the messages found in it, outermost
    first. `parts` are the ids of the messages whose meanings make up that of the line: several where it is combined.
    """

    message: Message
    places: Mapping[str, str]
    weight: int
    why: str | None = None
    inner: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search: how well the text is known, and the entries, best first."""

    match: MessageMatch
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class _Pattern:
    message: Message
    literals: tuple[str, ...]
    places: tuple[str, ...]
    anchor: str
    weight: int
    before: str | None = None

    def find(self, lowered: str, text: str) -> Hit | None:
        """Return the hit in a text that went through `flatten`, given in lower case and unchanged; null if none."""
        at, ends, starts = 0, [], []
        for number, literal in enumerate(self.literals):
            start = _find_word(lowered, literal, at, opens=number == 0, closes=self._closes(number))
            if start < 0:
                return None
            at = start + len(literal)
            starts.append(start)
            ends.append(at)
        # Lower case makes some letters longer; then the offsets fit only the text in lower case.
        source = text if len(text) == len(lowered) else lowered
        bounds = zip(ends, [*starts[1:], len(source)], strict=True)
        read, why = {}, None
        for name, (start, end) in zip(self.places, bounds, strict=False):
            if value := _read_place(source[start:end], is_last=end == len(source)):
                read[name] = value
            if name in _DECIDING:
                why = source[start:end].strip()
        if self.before is not None and (word := _read_last_word(source[: starts[0]])):
            read[self.before] = word
        return Hit(self.message, read, self.weight, why or None)

    def measure_cut(self, lowered: str) -> int:
        """Return how many characters match a line that is cut off inside the text; 0 if these are too few."""
        at, length = 0, 0
        for number, literal in enumerate(self.literals):
            start = _find_word(lowered, literal, at, opens=number == 0, closes=self._closes(number))
            if start < 0:
                rest = lowered[at:]
                ending = max((n for n in range(1, len(literal)) if rest.endswith(literal[:n])), default=0)
                length += ending
                return length if at and ending and length >= _SHORTEST_CUT else 0
            at = start + len(literal)
            length += len(literal)
        return length

    def _closes(self, number: int) -> bool:
        """Return whether a literal ends the text."""
        return number == len(self.literals) - 1 == len(self.places)


class Matcher:
    """Finds entries of the index; immutable once created."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._patterns = tuple(map(_compile, messages))
        self._meanings = {each.message.meaning.id: each.message.meaning for each in self._patterns}
        self._by_key: dict[str, list[_Pattern]] = defaultdict(list)
        self._file_by_key()
        self._words = [_words_of(each) for each in self._patterns]
        count = Counter(word for words in self._words for word in words)
        self._rarity = {word: math.log(1 + len(self._patterns) / number) for word, number in count.items()}
        self._grams: dict[tuple[str, ...], list[_Pattern]] = defaultdict(list)
        for pattern in self._patterns:
            for gram in {gram for literal in pattern.literals for gram in _grams(literal.split())}:
                self._grams[gram].append(pattern)

    def match(self, line: str) -> list[Hit]:
        """Return the messages that a line contains in full, the longest first."""
        text = flatten(line)
        return self._match(text.lower(), text)

    def search(self, text: str) -> SearchResult:
        """Return the entries for a text, which may be several lines, one line or a piece of a message."""
        text = text[:LONGEST_TEXT]
        if hits := self._match_lines(text):
            return SearchResult(MessageMatch.WHOLE, tuple(hits[:_LISTED]))
        lowered = flatten(text[:TEXT_LIMIT]).lower()
        if hits := self._find_pieces(lowered.strip(_EDGES + " ")):
            return SearchResult(MessageMatch.PART, tuple(hits[:_LISTED]))
        hits = self._find_near(lowered)
        return SearchResult(MessageMatch.NONE, tuple(hits[:_LISTED]))

    def _match_lines(self, text: str) -> list[Hit]:
        """Return the messages in all lines, and those that span several lines, as a terminal may wrap them."""
        lines = [line for line in text.splitlines() if line and not line.isspace()]
        if len(lines) <= 1:
            return self.match(text)
        hits = [hit for line in lines for hit in self.match(line)]
        if sum(map(is_dated, lines)) <= 1:
            hits += self.match(text[:TEXT_LIMIT])
        best = {(hit.message.id, hit.message.text): hit for hit in reversed(hits)}
        return sorted(best.values(), key=lambda each: (-each.weight, each.message.id))

    def _match(self, lowered: str, text: str, depth: int = _DEPTH) -> list[Hit]:
        keys = self._by_key.keys() & set(_TOKEN.findall(lowered))
        candidates = [each for key in keys for each in self._by_key[key] if each.anchor in lowered]
        hits = [hit for pattern in candidates if (hit := pattern.find(lowered, text)) is not None]
        hits.sort(key=lambda each: (-each.weight, each.message.id))
        hits = list(_without_shorter(hits)) if len(hits) > 1 else hits
        return self._settle(hits, depth) if depth else hits

    def _settle(self, hits: list[Hit], depth: int) -> list[Hit]:
        """Return the hits, with the cause found in an {error} or {reason} applied to one of them.

        That hit is the longest message, or the outermost one whose cause contains the longest message.
        """
        settled = []
        for hit in [each for each in hits if each.why][:_CONSIDERED]:
            why = hit.why or ""
            cause = next(iter(self._match(why.lower(), why, depth - 1)), None)
            if cause is None:
                continue
            inner = (cause.message.id, *cause.inner)
            if hit is hits[0] or hits[0].message.id in inner:
                message = hit.message.because(cause.message, self._meanings)
                places = {**cause.places, **hit.places}
                parts = cause.parts or (cause.message.id,)
                if cause.message.meaning.id in hit.message.meaning.with_error:
                    parts = (hit.message.id, *parts)
                settled.append(Hit(message, places, hit.weight + cause.weight, hit.why, inner, parts))
        if not settled:
            return hits
        first = max(settled, key=lambda each: len(each.inner))
        # The text now includes the cause, so the cause is not listed itself, unless the two have a combined meaning:
        # then the entry of the cause may help as well.
        shown = {first.message.id} | (set(first.inner) - set(first.parts[1:]))
        return [first, *(each for each in hits if each.message.id not in shown)]

    def _find_pieces(self, text: str) -> list[Hit]:
        shared: Counter[str] = Counter()
        known = {pattern.message.id: pattern for pattern in self._patterns}
        for pattern in self._patterns:
            shared[pattern.message.id] += pattern.measure_cut(text)
        for gram in set(_grams(text.split(" "))):
            found = self._grams.get(gram, ())
            for pattern in found:
                # Words that many texts share weigh less.
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
        """Index the patterns by the rarest word that a line must contain, so that few are tried per line."""
        whole = {pattern.message.id: _whole_words(pattern) for pattern in self._patterns}
        count = Counter(word for words in whole.values() for word in words)
        for pattern in self._patterns:
            words = whole[pattern.message.id]
            if not words:
                raise ValueError(f"{pattern.message.id}: no word that stands between places")
            self._by_key[min(words, key=lambda word: (count[word], -len(word), word))].append(pattern)


@functools.cache
def read_matcher() -> Matcher:
    """Return the matcher of the index."""
    return Matcher(read_index().messages)


def flatten(text: str) -> str:
    """Return text on one line with single blanks and plain quotes; case is kept."""
    if "\\" in text:
        for escape, plain in _ESCAPES:
            text = text.replace(escape, plain)
    text = text.replace("`", "'") if text.isascii() else text.translate(_QUOTES)
    return " ".join(text.split())


def _find_word(text: str, literal: str, at: int, *, opens: bool, closes: bool) -> int:
    """Return the first position of a literal from `at` on, -1 if there is none.

    `opens`, `closes`: the literal begins or ends the message, so on that side it must not be part of a longer word.
    """
    start = text.find(literal, at)
    while start >= 0:
        end = start + len(literal)
        is_inside = opens and start > 0 and literal[0] in _BEFORE and text[start - 1] in _BEFORE
        goes_on = closes and end < len(text) and literal[-1] in _BEHIND and text[end] in _BEHIND
        if not is_inside and not goes_on:
            break
        start = text.find(literal, start + 1)
    return start


def _compile(message: Message) -> _Pattern:
    parts = _PLACE.split(flatten(message.text))
    literals, places = [part.lower() for part in parts[::2]], parts[1::2]
    before = None
    if not literals[0].strip():
        # A place at the beginning of a text has no left boundary: only the word right before the text surely belongs to
        # it.
        del literals[0]
        before = places.pop(0)
    if not literals[-1].strip():
        del literals[-1]
    literals[0], literals[-1] = literals[0].lstrip(), literals[-1].rstrip()
    if not all(literals):
        raise ValueError(f"{message.id}: two places without anything between them")
    return _Pattern(message, tuple(literals), tuple(places), max(literals, key=len), sum(map(len, literals)), before)


def _whole_words(pattern: _Pattern) -> set[str]:
    """Return the words that a matching line has as whole words; those beside a place may be parts of longer ones."""
    words = set()
    for number, literal in enumerate(pattern.literals):
        own = _TOKEN.findall(literal)
        if number > 0 and literal[0] in _BEFORE:
            own = own[1:]
        if number < len(pattern.places) and literal[-1] in _BEFORE:
            own = own[:-1]
        words.update(own)
    return words


def _words_of(pattern: _Pattern) -> frozenset[str]:
    words = {word.strip(_EDGES) for literal in pattern.literals for word in literal.split()}
    return frozenset(words - {""})


def _grams(words: list[str]) -> Iterator[tuple[str, ...]]:
    stripped = [word.strip(_EDGES) for word in words]
    for start in range(len(stripped) - _GRAM + 1):
        yield tuple(stripped[start : start + _GRAM])


def _without_shorter(hits: list[Hit]) -> Iterator[Hit]:
    """Yield the hits except those whose literals are all part of the literals of a longer hit."""
    kept: list[_Pattern] = []
    for hit in hits:
        pattern = _compile(hit.message)
        if any(
            all(any(literal in longer for longer in other.literals) for literal in pattern.literals) for other in kept
        ):
            continue
        kept.append(pattern)
        yield hit


def _read_last_word(text: str) -> str:
    """Return the word right before a message; empty if the message begins the line, or if the word is a log level."""
    word = _SEPARATORS.split(text[-_LONGEST_NAME:])[-1].strip(_EDGES)
    return "" if word.lower() in _LEVELS else word


def _read_place(value: str, *, is_last: bool) -> str:
    """Return the value of a place; at the end of a text, where nothing bounds it, only its first word."""
    value = value.strip()
    if is_last:
        value = value.partition(" ")[0]
    # Scala's brokers write members as Set(a, b).
    return value.removeprefix("Set(").strip(_EDGES + " ")

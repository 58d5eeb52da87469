"""The texts of verdicts: templates are data (diagnoses/), and rules provide the facts that fill them.

A template refers to facts as `{name}`, `{name.attribute}` or with a format, `{name:format}`: one of Python's, or `time`
(a duration in milliseconds), `words` (an id without underscores), `host` (of a member), `yes|no` (the first text if the
fact is true, else the second), `one/many` (the first text if the fact is 1, else the second). A member is shown by its
name, a list by its first names. A part in `[ ]` is left out if a fact in it is null or empty; so is a whole line of
evidence, advice and so on. The last column of a line may be `if name` or `unless name`.

Templates are parsed once. A fact that a rule does not provide raises KeyError; a test checks all rules against all
templates. A form of a diagnosis may be `like` another form of it, and takes over all entries that it does not have.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from rebalance_contract import Advice, Alternative, Evidence, Member, Severity, Subject
from rebalance_contract.display import listed
from rebalance_streaming.detect.catalogue import ENTRIES, read_table
from rebalance_streaming.detect.verdict import Verdict, name_of
from rebalance_streaming.observed.confidence import SCALE
from rebalance_streaming.observed.evidence import seconds, weigh

Facts = Mapping[str, object]
#: A part of a text: a function of the facts; it returns null if a fact that it needs is null.
Part = Callable[[Facts], str | None]
T = TypeVar("T")

#: Maximum number of names shown of a list; fewer for members, whose names are long.
_MEMBERS_SHOWN, _NAMES_SHOWN = 3, 5
_NOBODY = Subject()
_MAY_BE_EMPTY = (str, list, tuple)
_PART = re.compile(r"\{([\w.]+)(?::([^{}]*))?\}|\[([^\[\]]*)\]")


def plain(value: object) -> str:
    """Return the text of a fact without a format: a member's name, a list of names, or its `str`."""
    if isinstance(value, Member):
        return name_of(value)
    if isinstance(value, list | tuple):
        most = _MEMBERS_SHOWN if isinstance(value[0], Member) else _NAMES_SHOWN
        return listed([*map(plain, value[:most])], len(value))
    return str(value)


def _host(member: Member) -> str:
    return member.host or "the member's host"


def _words(value: Any) -> str:
    return str(value).replace("_", " ")


_FORMATS: Mapping[str, Callable[[Any], str]] = MappingProxyType({"time": seconds, "words": _words, "host": _host})


def _format_of(spec: str | None) -> Callable[[Any], str]:
    """Return the function that formats a fact. Choices are handled by `_choice`."""
    if spec is None:
        return plain
    return _FORMATS.get(spec) or (lambda value: format(value, spec))


def _fact(name: str, attributes: str, show: Callable[[Any], str]) -> Part:
    """Return a part that is a fact, or an attribute of one."""

    def fill(facts: Facts) -> str | None:
        value = facts[name]
        if attributes and value is not None:
            value = attrgetter(attributes)(value)
        return None if value is None or (not value and isinstance(value, _MAY_BE_EMPTY)) else show(value)

    return fill


def _choice(name: str, yes: str, no: str, *, counts: bool) -> Part:
    """Return a part that is `yes` or `no`: by whether a fact is true or, if `counts`, is 1."""
    return lambda facts: yes if (facts[name] == 1 if counts else facts[name]) else no


def _optional(text: Text) -> Part:
    """Return a part that is left out when one of its facts is null."""
    return lambda facts: text.fill(facts) or ""


class Text:
    """A parsed text. `names` are the facts it refers to."""

    __slots__ = ("_constant", "_parts", "names")

    def __init__(self, source: str) -> None:
        self._parts, self.names = tuple(_parts(source)), frozenset(_names(source))
        self._constant = None if self.names else source

    def fill(self, facts: Facts, unknown: str | None = None) -> str | None:
        """Return the text with its facts; null if one of them is null, unless `unknown` is given in its place."""
        if self._constant is not None:
            return self._constant
        filled = ""
        for each in self._parts:
            text = each if isinstance(each, str) else each(facts)
            if text is None:
                text = unknown
            if text is None:
                return None
            filled += text
        return filled


def _parts(source: str) -> Iterator[str | Part]:
    end = 0
    for found in _PART.finditer(source):
        if found.start() > end:
            yield source[end : found.start()]
        name, spec, optional = found.groups()
        if optional is not None:
            yield _optional(Text(optional))
        elif spec is not None and ("|" in spec or "/" in spec):
            yes, _, no = spec.partition("|") if "|" in spec else spec.partition("/")
            yield _choice(name, yes, no, counts="|" not in spec)
        else:
            root, _, attributes = name.partition(".")
            yield _fact(root, attributes, _format_of(spec))
        end = found.end()
    if end < len(source):
        yield source[end:]


def _names(source: str) -> Iterator[str]:
    for name, _, optional in _PART.findall(source):
        yield from _names(optional) if optional else (name.partition(".")[0],)


class Line(Generic[T]):
    """A line of texts, one per column, and the condition for reporting it. `names` are the facts it depends on.

    `make` creates the reported object from the columns; `lacks` is the index of the column that may be null. A line
    without facts is created once.
    """

    __slots__ = ("_condition", "_lacks", "_made", "_make", "columns", "names")

    def __init__(self, source: str | Sequence[str], make: Callable[..., T], lacks: int | None = None) -> None:
        *rest, last = (source,) if isinstance(source, str) else source
        found = re.fullmatch(r"(if|unless) (\w+)", last)
        self.columns = tuple(Text(" ".join(each.split())) for each in (rest if found else (*rest, last)))
        self._condition = None if found is None else (found[2], found[1] == "if")
        self.names = frozenset().union(*(each.names for each in self.columns)) | ({found[2]} if found else set())
        self._make, self._lacks = make, lacks
        self._made = None if self.names else self._filled({})

    def fill(self, facts: Facts) -> T | None:
        """Return the line filled with these facts; null if its condition is false or a fact that it needs is null."""
        if self._made is not None:
            return self._made
        if self._condition is not None:
            name, wanted = self._condition
            if bool(facts[name]) != wanted:
                return None
        return self._filled(facts)

    def _filled(self, facts: Facts) -> T | None:
        texts = [each.fill(facts) for each in self.columns]
        if None in texts and any(text is None and place != self._lacks for place, text in enumerate(texts)):
            return None
        return self._make(*texts)


def _fill_all(lines: Iterable[Line[T]], facts: Facts) -> list[T]:
    return [filled for line in lines if (filled := line.fill(facts)) is not None]


def _advice(parameter: str, current: str | None, proposed: str, formula: str) -> Advice:
    return Advice(parameter, current or None, proposed, formula)


def _advice_line(source: Sequence[str]) -> Line[Advice]:
    return Line(source, _advice, lacks=1)


@dataclass(frozen=True, slots=True)
class Wording:
    """The texts of one diagnosis, or of one form of it.

    Columns of lines are: for evidence source, field, value and rule; for alternatives rule and why not; for advice
    parameter, current value (empty: not known), proposal and formula.
    """

    rule: str
    confidence: float
    summary: Text
    severity: Severity | None = None
    variant: str | None = None
    claims: bool = False
    evidence: tuple[Line[Evidence], ...] = ()
    alternatives: tuple[Line[Alternative], ...] = ()
    missing: tuple[Line[str], ...] = ()
    advice: tuple[Line[Advice], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The facts that its texts need."""
        lines: tuple[Line[Any], ...] = (*self.evidence, *self.alternatives, *self.missing, *self.advice)
        return self.summary.names.union(*(each.names for each in lines))


def say(
    key: str,
    since_ms: int,
    subject: Subject = _NOBODY,
    /,
    *,
    confidence: float | None = None,
    severity: Severity | None = None,
    variant: str | None = None,
    evidence: tuple[Evidence, ...] = (),
    clues: tuple[Evidence, ...] = (),
    missing: tuple[str, ...] = (),
    advice: tuple[Advice, ...] = (),
    rebalance_ids: tuple[str, ...] = (),
    lasting_ms: int = 0,
    **facts: object,
) -> Verdict:
    """Return a verdict with the texts of a diagnosis, or of its form `id.form`. Null arguments: as in the wording.

    The `evidence` argument comes after the wording's own, `missing` and `advice` come before it. `clues` are evidence
    with a strength that raises or lowers the confidence.
    """
    as_text = WORDINGS[key]
    return Verdict(
        rule=as_text.rule,
        confidence=weigh(as_text.confidence if confidence is None else confidence, clues),
        summary=as_text.summary.fill(facts, unknown="?") or "",
        started_at_ms=since_ms,
        subject=subject,
        variant=variant or as_text.variant,
        severity=severity or as_text.severity,
        evidence=(*_fill_all(as_text.evidence, facts), *evidence, *clues),
        alternatives=tuple(_fill_all(as_text.alternatives, facts)),
        missing=(*missing, *_fill_all(as_text.missing, facts)),
        advice=(*advice, *_fill_all(as_text.advice, facts)),
        rebalance_ids=rebalance_ids,
        claims=as_text.claims,
        lasting_ms=lasting_ms,
    )


def advise(name: str, /, **facts: object) -> Advice:
    """Return an advice that several diagnoses share."""
    (advice,) = _fill_all((ADVICE[name],), facts)
    return advice


def _wordings() -> Iterator[tuple[str, Wording]]:
    for rule, entry in ChainMap(*map(dict, ENTRIES.values())).items():
        forms = {f"{rule}.{form}": each for form, each in entry.items() if isinstance(each, dict)}
        for key, each in forms.items() or ((rule, entry),):
            yield key, _wording(rule, {**entry.get(each.get("like"), {}), **each})


def _wording(rule: str, entry: Mapping[str, Any]) -> Wording:
    return Wording(
        rule,
        SCALE[entry["confidence"]],
        Text(" ".join(entry["summary"].split())),
        severity=Severity(entry["severity"]) if "severity" in entry else None,
        **{name: entry[name] for name in ("variant", "claims") if name in entry},
        evidence=tuple(Line(each, Evidence) for each in entry.get("evidence", ())),
        alternatives=tuple(Line(each, Alternative) for each in entry.get("alternatives", ())),
        missing=tuple(Line(each, str) for each in entry.get("missing", ())),
        advice=tuple(ADVICE[e] if isinstance(e, str) else _advice_line(e) for e in entry.get("advice", ())),
    )


#: Advice that several diagnoses share, by name.
ADVICE: Mapping[str, Line[Advice]] = MappingProxyType(
    {name: _advice_line(columns) for name, columns in read_table("advice.toml").items()}
)
#: By the diagnosis' id, or `id.form` if it has several forms.
WORDINGS: Mapping[str, Wording] = MappingProxyType(dict(_wordings()))

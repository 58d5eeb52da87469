"""What each diagnosis means to people: a title, an explanation, what to do, and which thresholds change it.

The catalogue is data (diagnoses/, one file per family), read once; what findings say stands there too, and is read by
`wording`. `{name}` in the texts for people stands for a threshold's default, so that a text never contradicts the
number a rule compares with. This module knows no group, no rule and no clock.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from rebalance_contract import Severity
from rebalance_streaming.detect.thresholds import Thresholds

#: Thresholds that are parts of a whole, shown as percentages.
_SHARES = ("_share", "_warn", "_ticket")
_UNITS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One diagnosis for people. The id is the `rule` of findings.

    `family` is a key of `FAMILIES`; `escalates` says when a finding has another severity (empty: never). `title` fits a
    table, the other texts are one paragraph each. `thresholds` are names of settings that change when it is made;
    `sources` are issues, KIPs and documents behind it; `traits` are keys of `TRAITS`; `takes_over` are causes of single
    rebalances that it is made of where it explains several. `experimental`: no recording of a real client brought it
    out yet, and its findings are for information whatever `severity` says.
    """

    id: str
    family: str
    severity: Severity
    title: str
    meaning: str
    told_by: str
    action: str
    sources: tuple[str, ...] = ()
    thresholds: tuple[str, ...] = ()
    escalates: str = ""
    traits: frozenset[str] = frozenset()
    takes_over: tuple[str, ...] = ()
    experimental: bool = False


def diagnosis(rule_id: str) -> Diagnosis:
    """Return a diagnosis by its id. Raises KeyError where the catalogue has none of that name."""
    return DIAGNOSES[rule_id]


def with_trait(trait: str) -> frozenset[str]:
    """Return the ids of the diagnoses that have one of `TRAITS`."""
    return frozenset(each.id for each in DIAGNOSES.values() if trait in each.traits)


def of_family(family: str) -> frozenset[str]:
    """Return the ids of the diagnoses of one of `FAMILIES`."""
    return frozenset(each.id for each in DIAGNOSES.values() if each.family == family)


def family_of(rule_id: str) -> str:
    """Return the family of a diagnosis; "" for one of an earlier version that is no more."""
    return DIAGNOSES[rule_id].family if rule_id in DIAGNOSES else ""


def in_words(name: str, value: float) -> str:
    """Return a threshold's value with the unit in its name: `storm_window_ms`, 600000 -> `10 min`."""
    if name.endswith("_ms"):
        return _duration(value)
    return f"{value * 100:g} %" if name.endswith(_SHARES) else f"{value:g}"


def _duration(milliseconds: float) -> str:
    """Return a duration in the largest unit that it is at least two of, or a whole number of."""
    for size, unit in _UNITS_MS:
        if milliseconds >= 2 * size or (milliseconds >= size and milliseconds % size == 0):
            return f"{milliseconds / size:g} {unit}"
    return f"{milliseconds:g} ms"


def _diagnosis(rule_id: str, family: str, entry: Mapping[str, Any]) -> Diagnosis:
    names = tuple(entry["thresholds"])
    defaults = {name: in_words(name, getattr(Thresholds(), name)) for name in names}
    # A text may only speak of thresholds that its diagnosis lists: any other is a KeyError on import.
    texts = {key: _on_one_line(entry[key].format_map(defaults)) for key in _TEXTS if key in entry}
    traits = frozenset(entry.get("traits", ()))
    if unknown := traits - TRAITS.keys():
        raise ValueError(f"{rule_id}: unknown traits {sorted(unknown)}")
    return Diagnosis(
        id=rule_id,
        family=family,
        severity=Severity(entry["severity"]),
        sources=tuple(entry["sources"]),
        thresholds=names,
        traits=traits,
        takes_over=tuple(entry.get("takes_over", ())),
        experimental=entry.get("experimental", False),
        **texts,
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def read_table(*path: str) -> dict[str, Any]:
    """Return a file of this package's data."""
    return tomllib.loads(resources.files(__package__).joinpath(*path).read_text("utf-8"))


#: Texts of a diagnosis that are for people who read of it; the others are for findings.
_TEXTS = ("title", "meaning", "told_by", "escalates", "action")
_DATA = read_table("catalogue.toml")

#: Families in the order in which they are reported, with their headings.
FAMILIES: Mapping[str, str] = MappingProxyType(_DATA["families"])

#: How other rules and the detector treat a diagnosis.
TRAITS: Mapping[str, str] = MappingProxyType(_DATA["traits"])

#: The entries of each family as they are written, by id.
ENTRIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {family: read_table("diagnoses", f"{family}.toml") for family in FAMILIES}
)

#: Every diagnosis by its id, family by family. An entry without a title is a text of another cause.
DIAGNOSES: Mapping[str, Diagnosis] = MappingProxyType(
    {
        rule_id: _diagnosis(rule_id, family, entry)
        for family, entries in ENTRIES.items()
        for rule_id, entry in entries.items()
        if "title" in entry
    }
)

#: Those that no recording of a real client brought out yet.
EXPERIMENTAL = frozenset(each.id for each in DIAGNOSES.values() if each.experimental)

#: Causes of single rebalances that any pattern of several explains better.
PARTS = with_trait("deploy") | with_trait("orderly") | with_trait("formation")

#: What a topic or a subscription called for, whatever else went on in the same rebalance.
CALLED = with_trait("called")

#: What each threshold decides, by its name.
THRESHOLD_TEXTS: Mapping[str, str] = MappingProxyType(
    {name: _on_one_line(text) for name, text in _DATA["thresholds"].items()}
)

#: Thresholds that belong to all diagnoses rather than to one.
GENERAL_THRESHOLDS: tuple[str, ...] = tuple(_DATA["general"])

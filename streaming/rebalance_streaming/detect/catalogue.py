"""The catalogue of diagnoses: for each a title, an explanation, the action to take and the thresholds that affect it.

The catalogue is data (diagnoses/, one file per family), read once; the same files contain the texts of findings, which
`wording` reads. `{name}` in the texts for readers stands for a threshold's default, so that a text never contradicts
the number a rule compares with. This module uses no group, no rule and no clock.
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

#: Suffixes of thresholds that are fractions, shown as percentages.
_SHARES = ("_share", "_warn", "_ticket")
_UNITS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One diagnosis, as described to readers. The id is the `rule` of findings.

    `family` is a key of `FAMILIES`; `escalates` describes when a finding has another severity (empty: never). `title`
    fits a table, the other texts are one paragraph each. `thresholds` are names of settings that change when it is
    made; `sources` are the issues, KIPs and documents it is based on; `traits` are keys of `TRAITS`; `takes_over` are
    causes of single rebalances that it replaces when it explains several; `stands_for` are the causes of which it
    states what they have in common. `experimental`: no recording of a real client has produced it yet, so its findings
    have the severity INFO regardless of `severity`.
    """

    id: str
    family: str
    severity: Severity
    title: str
    meaning: str
    detected_by: str
    action: str
    sources: tuple[str, ...] = ()
    thresholds: tuple[str, ...] = ()
    escalates: str = ""
    traits: frozenset[str] = frozenset()
    takes_over: tuple[str, ...] = ()
    stands_for: tuple[str, ...] = ()
    experimental: bool = False


def diagnosis(rule_id: str) -> Diagnosis:
    """Return a diagnosis by its id. Raises KeyError if the catalogue does not have it."""
    return DIAGNOSES[rule_id]


def with_trait(trait: str) -> frozenset[str]:
    """Return the ids of the diagnoses that have one of `TRAITS`."""
    return frozenset(each.id for each in DIAGNOSES.values() if trait in each.traits)


def of_family(family: str) -> frozenset[str]:
    """Return the ids of the diagnoses of one of `FAMILIES`."""
    return frozenset(each.id for each in DIAGNOSES.values() if each.family == family)


def family_of(rule_id: str) -> str:
    """Return the family of a diagnosis; "" if the catalogue does not have it, as for one of an earlier version."""
    return DIAGNOSES[rule_id].family if rule_id in DIAGNOSES else ""


def in_words(name: str, value: float) -> str:
    """Return a threshold's value with the unit in its name: `storm_window_ms`, 600000 -> `10 min`."""
    if name.endswith("_ms"):
        return _duration(value)
    return f"{value * 100:g} %" if name.endswith(_SHARES) else f"{value:g}"


def _duration(milliseconds: float) -> str:
    """Return a duration in the largest unit that it contains at least twice or a whole number of times."""
    for size, unit in _UNITS_MS:
        if milliseconds >= 2 * size or (milliseconds >= size and milliseconds % size == 0):
            return f"{milliseconds / size:g} {unit}"
    return f"{milliseconds:g} ms"


def _diagnosis(rule_id: str, family: str, entry: Mapping[str, Any]) -> Diagnosis:
    names = tuple(entry["thresholds"])
    defaults = {name: in_words(name, getattr(Thresholds(), name)) for name in names}
    # A text may only name thresholds that its diagnosis lists: any other is a KeyError on import.
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
        stands_for=tuple(entry.get("stands_for", ())),
        experimental=entry.get("experimental", False),
        **texts,
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def read_table(*path: str) -> dict[str, Any]:
    """Return a file of this package's data."""
    return tomllib.loads(resources.files(__package__).joinpath(*path).read_text("utf-8"))


#: Texts that describe a diagnosis to readers; the other texts are for findings.
_TEXTS = ("title", "meaning", "detected_by", "escalates", "action")
_DATA = read_table("catalogue.toml")

#: Families in the order in which they are reported, with their headings.
FAMILIES: Mapping[str, str] = MappingProxyType(_DATA["families"])

#: How other rules and the detector treat a diagnosis.
TRAITS: Mapping[str, str] = MappingProxyType(_DATA["traits"])

#: The entries of each family as in its file, by id.
ENTRIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {family: read_table("diagnoses", f"{family}.toml") for family in FAMILIES}
)

#: Every diagnosis by its id, family by family. An entry without a title is no diagnosis, only a text for findings.
DIAGNOSES: Mapping[str, Diagnosis] = MappingProxyType(
    {
        rule_id: _diagnosis(rule_id, family, entry)
        for family, entries in ENTRIES.items()
        for rule_id, entry in entries.items()
        if "title" in entry
    }
)

#: Ids of the diagnoses that no recording of a real client has produced yet.
EXPERIMENTAL = frozenset(each.id for each in DIAGNOSES.values() if each.experimental)

#: Causes of single rebalances that are replaced by any pattern of several.
PARTS = with_trait("deploy") | with_trait("orderly") | with_trait("formation")

#: Changes of topics or subscriptions, which are reported even as secondary causes of a rebalance.
CALLED = with_trait("called")

#: Description of each threshold, by its name.
THRESHOLD_TEXTS: Mapping[str, str] = MappingProxyType(
    {name: _on_one_line(text) for name, text in _DATA["thresholds"].items()}
)

#: Names of thresholds that apply to all diagnoses rather than to one.
GENERAL_THRESHOLDS: tuple[str, ...] = tuple(_DATA["general"])

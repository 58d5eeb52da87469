"""Texts of findings: each can be filled with the facts that its rule gives, and rules give no others."""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from histories import member
from rebalance_contract import Advice, Alternative, Evidence, EvidenceSource, Subject
from rebalance_streaming.detect import wording
from rebalance_streaming.detect.catalogue import DIAGNOSES, ENTRIES, Diagnosis
from rebalance_streaming.detect.wording import ADVICE, WORDINGS, Line, Text, advise, say
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, SCALE, STRONG, one_step_lower

PACKAGE = Path(wording.__file__).parent
#: Texts for a cause whose name is given at run time.
NOT_DIAGNOSES = {"follows", "returned"}
#: Facts given to every text about a lost member, and to every one about the current state of a group.
IMPLIED = {
    "say_lost": frozenset({"member", "session", "returned", "reported"}),
    "view.say": frozenset({"lasted", "members", "limits"}),
}


@dataclass(frozen=True)
class Call:
    """A call in the package that makes a finding's text: the texts that it may choose, and the facts it gives."""

    place: str
    keys: frozenset[str]
    facts: frozenset[str]
    implied: frozenset[str]


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Return all syntax nodes of the package's modules."""
    return [(path, node) for path in sorted(PACKAGE.rglob("*.py")) for node in ast.walk(ast.parse(path.read_text()))]


def calls(*functions: str) -> list[Call]:
    """Return every call of these functions with literal texts."""
    found = [
        call_of(path, node)
        for path, node in nodes()
        if isinstance(node, ast.Call) and ast.unparse(node.func) in functions
    ]
    return [call for call in found if call.keys]


def call_of(path: Path, node: ast.Call) -> Call:
    first = node.args[0]
    chosen = (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,)
    keys = frozenset(each.value for each in chosen if isinstance(each, ast.Constant) and isinstance(each.value, str))
    facts = frozenset(each.arg for each in node.keywords if each.arg is not None) - parameters()
    return Call(f"{path.name}:{node.lineno}", keys, facts, IMPLIED.get(ast.unparse(node.func), frozenset()))


@cache
def parameters() -> set[str]:
    """Return the parameters of `say` and `say_lost` that are not facts of a text."""
    return {
        each.arg
        for path, node in nodes()
        if isinstance(node, ast.FunctionDef)
        and (path.name, node.name) in (("wording.py", "say"), ("circumstances.py", "say_lost"))
        for each in node.args.kwonlyargs
    }


# --- Rules and texts ---


def test_a_rule_gives_the_facts_of_its_text():
    """A missing fact would be a KeyError while judging, and a superfluous one is computed in vain."""
    missing, vain = {}, {}
    for call in calls("say", *IMPLIED):
        wanted = {key: WORDINGS[key].names for key in call.keys}
        missing[call.place] = {key for key, names in wanted.items() if names - call.facts - call.implied}
        vain[call.place] = call.facts - set().union(*wanted.values())
    assert len(missing) > 50
    assert {place: keys for place, keys in missing.items() if keys} == {}
    assert {place: facts for place, facts in vain.items() if facts} == {}


def test_every_text_is_used_by_some_rule():
    """A text that no rule uses is removed."""
    assert WORDINGS.keys() == {key for each in calls("say", *IMPLIED) for key in each.keys}


def test_shared_advice_has_the_facts_of_its_text():
    """Advice with numbers is computed in one place; each is used by some code or text."""
    given = {key: each.facts for each in calls("advise") for key in each.keys}
    assert {key: ADVICE[key].names for key in given} == given
    sources = [path for path in PACKAGE.rglob("*.*") if path.suffix in (".py", ".toml") and path.name != "advice.toml"]
    written = "".join(path.read_text() for path in sources)
    assert {each for each in ADVICE if f'"{each}"' not in written} == set()


def test_texts_are_about_known_diagnoses():
    """The diagnosis of a text, and every look-alike that it names, is in the catalogue."""
    rules = {each.rule for each in WORDINGS.values()}
    look_alikes = {line.columns[0].fill({}) for each in WORDINGS.values() for line in each.alternatives}
    assert (rules | look_alikes) - DIAGNOSES.keys() == NOT_DIAGNOSES


def test_a_finding_is_as_sure_as_one_of_the_four_steps():
    """No rule has a confidence of its own; if a source is missing the confidence is one step lower."""
    numbers = [
        f"{path.name}:{node.value.lineno}"
        for path, node in nodes()
        if isinstance(node, ast.keyword) and node.arg == "confidence"
        if any(isinstance(each, ast.Constant) and isinstance(each.value, float) for each in ast.walk(node.value))
    ]
    assert numbers == []
    assert [one_step_lower(each) for each in (CERTAIN, STRONG, PLAUSIBLE, HINT)] == [STRONG, PLAUSIBLE, HINT, HINT]


#: Documentation fields of an entry, in addition to the texts of findings.
OF_PEOPLE = {each.name for each in fields(Diagnosis)}
FIELDS = {
    "confidence": set(SCALE),
    "severity": {"page", "ticket", "info"},
    "claims": {True},
}
LENGTHS = {"evidence": 4, "alternatives": 2, "missing": 1, "advice": 4}


def entries() -> list[tuple[str, dict[str, Any]]]:
    """Return every entry of the texts, as written in its file."""
    found: list[tuple[str, dict[str, Any]]] = []
    for rule, entry in (each for entries in ENTRIES.values() for each in entries.items()):
        forms = {f"{rule}.{form}": each for form, each in entry.items() if isinstance(each, dict)}
        of_findings = {
            name: each for name, each in entry.items() if name not in OF_PEOPLE and not isinstance(each, dict)
        }
        found += [*forms.items(), *([(rule, of_findings)] if of_findings else [])]
    return found


def test_an_entry_has_known_fields_and_columns():
    """A misspelt field would not be used, nor would a superfluous column."""
    for key, entry in entries():
        assert entry.keys() <= {*FIELDS, *LENGTHS, "summary", "variant", "like"}, key
        assert not {name for name, allowed in FIELDS.items() if name in entry and entry[name] not in allowed}, key
        for name, length in LENGTHS.items():
            assert {len(line.columns) for line in getattr(WORDINGS[key], name)} <= {length}, key
        sources = {line.columns[0] for line in WORDINGS[key].evidence if not line.columns[0].names}
        assert {each.fill({}) for each in sources} <= {*EvidenceSource}, key


# --- The form of texts ---


@pytest.mark.parametrize(
    ("source", "facts", "expected"),
    [
        ("nothing to fill in", {}, "nothing to fill in"),
        ("{count} of {share:.0%}", {"count": 3, "share": 0.25}, "3 of 25%"),
        ("for {lasted:time}", {"lasted": 2_500}, "for 2.5 s"),
        ("by {cause:words}", {"cause": "bad_luck"}, "by bad luck"),
        ("{who.client_id}", {"who": member("a-1", host="/h")}, "a"),
        ("{who}", {"who": member("a-1", host="/h")}, "a (/h)"),
        ("{names}", {"names": ("t-1", "t-2")}, "t-1, t-2"),
        ("{names}", {"names": [f"t-{i}" for i in range(7)]}, "t-0, t-1, t-2, t-3, t-4 and 2 more"),
        ("{who}", {"who": [member(name, host="/h") for name in "abcde"]}, "a (/h), b (/h), c (/h) and 2 more"),
        ("{count} {count:member/members}", {"count": 1}, "1 member"),
        ("{count} {count:member/members}", {"count": 0}, "0 members"),
        ("it {back:is back|is gone}", {"back": True}, "it is back"),
        ("it {back_ms:is back|is gone}", {"back_ms": 5}, "it is back"),
        ("it {back:is back|is gone}", {"back": None}, "it is gone"),
        ("gone[, back {after:time} later].", {"after": 1_000}, "gone, back 1.0 s later."),
        ("gone[, back {after:time} later].", {"after": None}, "gone."),
        ("{lag} records", {"lag": 0}, "0 records"),
        ("{lag} records", {"lag": None}, None),
        ("with {names}", {"names": ()}, None),
        ("{a.b}", {"a": None}, None),
    ],
)
def test_a_text_is_filled_with_facts(source: str, facts: dict[str, Any], expected: str | None):
    """Facts have formats; a part or a text without its fact is left out."""
    assert Text(source).fill(facts) == expected


def test_a_summary_is_complete_whatever_is_not_known():
    """An empty name is replaced by a mark, so that the summary is never empty."""
    verdict = say("static_member_restart", 5, instance="", host="h", times=1)
    assert verdict.summary == "Static member ? (h) was restarted in time; nobody else stopped."


def test_a_fact_that_is_not_given_is_an_error():
    """It is an error in the code, not null."""
    with pytest.raises(KeyError):
        Text("{lag} records").fill({})


@pytest.mark.parametrize(("sure", "expected"), [(True, ["1"]), (False, ["2"]), (None, ["2"])])
def test_a_line_may_depend_on_a_fact(sure: bool | None, expected: list[str]):
    """One of two lines is used if a condition holds, the other if it does not."""
    lines = (Line(["1", "if sure"], str), Line(["2", "unless sure"], str))
    assert [each for line in lines if (each := line.fill({"sure": sure}))] == expected


def test_a_verdict_has_the_words_of_its_text_and_what_is_given():
    """Its evidence comes before the given evidence, its advice after the given advice; the rest is as in the text."""
    given = Evidence("log", "f", "1", "r")
    upgrade = Advice("upgrade", None, "2.0", "-")
    facts = {"member": member("a", host="/h"), "times": 2, "lasted": 60_000, "life": 1_000, "names": True}
    found = say("crash_loop", 5, evidence=(given,), advice=(upgrade,), rebalance_ids=("r",), **facts)
    assert (found.rule, found.confidence, found.claims, found.severity) == (
        "crash_loop",
        SCALE["plausible"],
        True,
        "ticket",
    )
    assert found.summary == "a (/h) joined and died 2 times in 60.0 s, each time after about 1.0 s."
    assert (found.started_at_ms, found.subject, found.rebalance_ids) == (5, Subject(), ("r",))
    assert (found.evidence[0].field, found.evidence[-1]) == ("members", given)
    assert (found.advice[0], found.advice[1].parameter) == (upgrade, "operation")
    assert found.alternatives == (Alternative("member_flapping", "its departures are deaths"),)
    assert say("crash_loop", 5, confidence=SCALE["strong"], severity="page", **facts).severity == "page"


def test_advice_without_a_present_value_names_none():
    """A client that does not report its setting gets the proposal nevertheless."""
    known, unknown = (advise("short_session", session=each, shortens=True) for each in (90_000, None))
    assert (known.current, unknown.current, unknown.parameter) == ("90000", None, "session.timeout.ms")

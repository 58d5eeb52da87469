"""The closed sets: one declaration, unknown values in rows, and the parsing of states."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from pathlib import Path

import pytest

from exporters.api.test_overview import finding_row
from exporters.contract_rows import rebalance_row
from rebalance_contract import (
    SETTLED_STATES,
    SEVERITY_RANKS,
    UNSETTLED_STATES,
    ContractError,
    EvidenceSource,
    Finding,
    FindingState,
    GroupState,
    GroupType,
    MemberState,
    Rebalance,
    RebalanceOutcome,
    RebalanceReason,
    Severity,
    decode,
    display,
    encode,
    read_state,
    severity_rank,
)

ROOT = Path(__file__).parents[2]
SETS = (GroupState, GroupType, MemberState, RebalanceReason, RebalanceOutcome, FindingState, Severity, EvidenceSource)
#: Words that have other meanings elsewhere: protocols, diagnoses and their families, topics, pages, Prometheus.
COMMON = frozenset(
    {
        *(GroupType.CLASSIC, GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS, GroupType.SIMPLE),
        *(GroupType.ZOOKEEPER, EvidenceSource.LOG, EvidenceSource.COMMITS, EvidenceSource.PROBES),
        *(EvidenceSource.CLIENT_METRICS, Severity.PAGE, Severity.INFO, MemberState.STABLE, MemberState.AWAY),
        *(RebalanceReason.JOIN, RebalanceReason.OTHER, RebalanceReason.SWAP, RebalanceReason.REPLACEMENT),
        *(RebalanceReason.TOPIC_METADATA_CHANGE, RebalanceReason.RACK_CHANGE),
        *(RebalanceOutcome.COMPLETED, RebalanceOutcome.ABORTED),
    }
)
#: Files that do not import the contract: the command line's help, and the output of Alertmanager's own words.
APART = ("terminal/check_command.py", "terminal/commands.py", "demo/alerting.py")


def literals(words: set[str]) -> Iterator[tuple[str, str]]:
    """Yield file and text of the string literals in the code that are among these words, except in APART."""
    # Few files contain one, and parsing all takes a second. A part of an f-string begins or ends at a brace.
    spelt = re.compile(rf"""["'}}](?:{"|".join(words)})["'{{]""")
    for part in ("streaming", "exporters", "deploy/rebalance_deploy", "grafana"):
        for path in sorted((ROOT / part).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name.endswith(APART) or name.endswith("rebalance_contract/sets.py"):
                continue
            source = path.read_text()
            for node in ast.walk(ast.parse(source)) if spelt.search(source) else ():
                if isinstance(node, ast.Constant) and node.value in words:
                    yield name, str(node.value)


def test_no_other_module_spells_a_word_of_a_set() -> None:
    """Comparisons with a state, a reason or a severity use the enum member: each word is written in one place."""
    words = {str(word) for each in SETS for word in each} - COMMON
    assert len(words) > 20
    assert list(literals(words)) == []


@pytest.mark.parametrize("field", ["type", "reason"])
def test_a_word_that_a_newer_stream_knows_is_passed_on(field: str) -> None:
    """Brokers and newer streams may have more types and reasons; the row stays readable and keeps the word."""
    value = rebalance_row("r").value
    assert value is not None
    row = decode(value, Rebalance)
    reported = decode(encode({**_fields(row), field: "of_tomorrow"}), Rebalance)
    assert getattr(reported, field) == "of_tomorrow"


def test_a_row_of_an_impossible_outcome_is_none() -> None:
    """A rebalance must be ongoing or ended, and a finding must have a state."""
    for kind, value, field in (
        (Rebalance, rebalance_row("r").value, "outcome"),
        (Finding, finding_row().value, "state"),
    ):
        assert value is not None
        with pytest.raises(ContractError, match=field):
            decode(encode({**_fields(decode(value, kind)), field: "perhaps"}), kind)


def _fields(row: Rebalance | Finding) -> dict[str, object]:
    return {each.name: getattr(row, each.name) for each in fields(row)}


def test_members_are_written_as_their_text() -> None:
    """In JSON, as a key and in a sentence, a member is its word."""
    word: StrEnum
    for word in (GroupState.NOT_READY, RebalanceReason.JOIN, Severity.PAGE):
        assert encode({word: [word]}) == encode({word.value: [word.value]})
        assert f"{word}" == word.value


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("PreparingRebalance", GroupState.PREPARING_REBALANCE),
        ("PREPARING_REBALANCING", GroupState.PREPARING_REBALANCE),
        ("COMPLETING_REBALANCE", GroupState.COMPLETING_REBALANCE),
        ("not_ready", GroupState.NOT_READY),
        ("stable", GroupState.STABLE),
        ("Resting", None),
        ("", None),
    ],
)
def test_states_are_read_as_any_client_writes_them(text: str, state: GroupState | None) -> None:
    """Clients differ in case and underscores; an unknown state is not guessed."""
    assert read_state(text) == state


def test_every_state_is_settled_or_not() -> None:
    """Each state is in exactly one of both lists."""
    assert sorted([*SETTLED_STATES, *UNSETTLED_STATES]) == sorted(GroupState)


def test_the_gravest_severity_stands_first() -> None:
    """The set is ordered by severity, and a severity of a newer stream is never ignored."""
    assert sorted(Severity, key=severity_rank, reverse=True) == list(Severity)
    assert severity_rank("catastrophe") == max(SEVERITY_RANKS.values())


def test_every_word_that_people_see_has_a_look() -> None:
    """A new state, severity or source needs a defined presentation."""
    assert set(display.STATES) == set(GroupState)
    assert set(display.SEVERITIES) == set(Severity)
    assert set(display.SOURCES) == set(EvidenceSource)
    unknown = display.state_display("Resting"), display.severity_display("catastrophe")
    assert unknown == (display.STATES[GroupState.ASSIGNING], display.SEVERITIES[Severity.PAGE])

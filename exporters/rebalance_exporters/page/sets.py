"""The closed sets of the contract and the words that page and terminal share, generated as a JavaScript module.

python -m rebalance_exporters.page.sets exporters/rebalance_exporters/page/static/sets.js
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from rebalance_contract import (
    SETTLED_STATES,
    SEVERITY_RANKS,
    CountedFrom,
    FindingState,
    GroupState,
    RebalanceOutcome,
    Severity,
    SilenceKind,
    display,
)
from rebalance_contract.api import EventName
from rebalance_contract.api_messages import MessageMatch
from rebalance_exporters.text import figures, rebalances

_HEAD = """\
// The contract's closed sets, how they are shown, and words and bounds that the terminal has too: made by
// rebalance_exporters/page/sets.py, with `make docs`. Change it there.
"""


def render() -> str:
    """Return the module's text."""
    sets = (CountedFrom, RebalanceOutcome, FindingState, Severity, EventName, MessageMatch, SilenceKind)
    names = {each.__name__: _members(each) for each in sets}
    tables: Mapping[str, object] = {
        **names,
        "SETTLED_STATES": SETTLED_STATES,
        "SEVERITY_RANKS": {severity: SEVERITY_RANKS[severity] for severity in Severity},
        "STATE_MARKS": {state: display.STATES[state].mark for state in GroupState},
        "UNKNOWN_STATE_MARK": display.UNKNOWN_STATE.mark,
        "SEVERITY_MARKS": {severity: display.SEVERITIES[severity].mark for severity in Severity},
        "SOURCES": display.SOURCES,
        "SILENCES": display.SILENCES,
        "NO_CAUSE": rebalances.NO_CAUSE,
        "JUDGED_AFTER_MS": rebalances.JUDGED_AFTER_MS,
        "ABORTED": rebalances.ABORTED,
        "TIGHT_MS": figures.TIGHT_MS,
    }
    return _HEAD + "".join(f"\nexport const {name} = {_write(table)};\n" for name, table in tables.items())


def _members(words: type[StrEnum]) -> dict[str, str]:
    return {word.name: word.value for word in words}


def _write(table: object) -> str:
    text = json.dumps(table, ensure_ascii=False, indent=2)
    return f"Object.freeze({text})" if isinstance(table, Mapping | Sequence) and not isinstance(table, str) else text


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render())

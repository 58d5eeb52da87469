"""Runs `why`: looks a text or a log up in the index, queries the monitor about its groups, and writes the result."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from rebalance_contract.api_messages import MessageMatch
from rebalance_exporters.messages.answers import answer as look_up
from rebalance_exporters.messages.matching import read_matcher
from rebalance_exporters.messages.tally import lines_of, read_lines, tally
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.client import Api
from rebalance_exporters.terminal.escaping import safe_json
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.options import NO_INPUT
from rebalance_exporters.terminal.screen import Screen
from rebalance_exporters.terminal.why import (
    MonitoredGroup,
    ask,
    explain_log,
    explain_message,
    groups_of,
    known_json,
    list_messages,
    log_json,
)

_STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class WhyQuestion:
    """The options of a query: the monitor, the cluster and group (null if not given), and the output format."""

    access: Access
    cluster: str | None
    group: str | None
    clock: Clock
    as_json: bool


def answer(question: WhyQuestion, text: str) -> bool:
    """Write the meaning of one text; return whether it is known."""
    found = look_up(text, read_matcher())
    group = question.group or (None if found.match is MessageMatch.NONE else found.group)
    known = next(iter(_ask(question, [] if group is None else [group])), None)
    if question.as_json:
        click.echo(safe_json({"answer": found, "monitor": None if known is None else known_json(known)}, indent=2))
    else:
        Screen().report(explain_message(found, known, question.access))
    return found.match is not MessageMatch.NONE


def read(question: WhyQuestion, path: Path | None) -> bool:
    """Write which messages are in a log, or the meaning of its only line; return whether any is known."""
    lines = _lines(path)
    first = list(itertools.islice(lines, 2))
    if path is None and not first:
        raise click.UsageError(NO_INPUT)
    if len(first) == 1 and first[0].strip():
        return answer(question, first[0])
    counted = tally(itertools.chain(first, lines), read_matcher())
    groups = [question.group] if question.group is not None else groups_of(counted)
    knowns = _ask(question, groups if counted.entries else [])
    if question.as_json:
        click.echo(safe_json(log_json(counted, knowns), indent=2))
    else:
        screen = Screen()
        screen.report(list_messages(counted))
        if counted.entries:
            screen.line()
            screen.report(explain_log(counted, knowns, question.access))
    return bool(counted.entries)


def _lines(path: Path | None) -> Iterator[str]:
    if path is None or str(path) == _STANDARD_INPUT:
        return lines_of(sys.stdin.buffer)
    return read_lines(path)


def _ask(question: WhyQuestion, groups: Sequence[str]) -> list[MonitoredGroup]:
    """Return what the monitor knows about groups; stop after the first group without an answer."""
    knowns: list[MonitoredGroup] = []
    if not groups:
        return knowns
    with Api(question.access) as api:
        for group in groups:
            knowns.append(ask(api, group, question.cluster, question.clock))
            if knowns[-1].is_unreachable:
                break
    return knowns

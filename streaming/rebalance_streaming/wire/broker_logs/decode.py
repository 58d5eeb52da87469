"""Decodes records of a topic of broker logs, and lines of a file, to events of groups, in one pass over each line.

Receives bytes and a conversion of the broker's local time to UTC; returns events by group, and the number of lines per
outcome. Every line has exactly one outcome, and so has a record, or an element of a list, without recognisable lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rebalance_contract.coordinator import CoordinatorEvent
from rebalance_contract.sets import CoordinatorAct, CoordinatorTrigger, GroupState
from rebalance_streaming.wire.broker_logs.envelopes import LogText, open_record
from rebalance_streaming.wire.broker_logs.outcomes import LineOutcome, UnreadableError
from rebalance_streaming.wire.broker_logs.reasons import client_reason, read_members, read_reason
from rebalance_streaming.wire.broker_logs.texts import SILENT, SILENT_OF_GROUP, TEXTS, CoordinatorText
from rebalance_streaming.wire.broker_logs.times import read_time

#: The longest line that is read, and the longest name in one: a member id is a client id and 37 characters.
MAX_LINE, MAX_NAME = 65_536, 2_048
#: Maximum number of members of one line that become events.
_MOST_MEMBERS = 1_000
#: A line's time may be this far ahead of its record's, for clocks that differ.
AHEAD_MS = 120_000

#: Prefixes that the coordinators write before each line (`logIdent`; LogContext of the runtime).
_MARKS = ("[GroupCoordinator ", "[GroupMetadataManager ")
_MARK_END = "] "
#: `[GroupCoordinator 1]`, `[GroupCoordinator id=1 topic=…]`, `[GroupMetadataManager brokerId=1]`.
_BROKER = re.compile(r"\[Group\w+ (?:id=|brokerId=)?(\d{1,9})[\] ]")
#: Loggers in brackets after the line, where Kafka's own pattern puts them.
_LOGGERS = ("GroupCoordinator", "GroupMetadataManager", "ClassicGroup", "GroupCoordinatorShard", "CoordinatorRuntime")
_CRI_STREAMS = (" stdout ", " stderr ")
_STATES = frozenset(state.lower() for state in GroupState)

#: Converts a broker's local time, in ms as if in UTC, to UTC.
ToUtc = Callable[[int], int]


@dataclass(slots=True)
class Lines:
    """Events with their groups, in the order of the lines, and the number of lines by outcome."""

    events: list[tuple[str, CoordinatorEvent]] = field(default_factory=list)
    counts: Counter[LineOutcome] = field(default_factory=Counter)


def in_utc(local_ms: int) -> int:
    """Treat a broker's times as UTC, which is the default."""
    return local_ms


def decode_record(value: bytes | None, observed_ms: int | None, to_utc: ToUtc = in_utc) -> Lines:
    """Decode a record. `observed_ms` is its own time; null where there is none, for example in a file."""
    lines = Lines()
    try:
        for each in open_record(value):
            if isinstance(each, UnreadableError):
                lines.counts[each.outcome] += 1
            else:
                _take(lines, each, observed_ms, to_utc)
    except UnreadableError as error:
        lines.counts[error.outcome] += 1
    if not lines.counts:
        lines.counts[LineOutcome.EMPTY] += 1
    return lines


def _take(lines: Lines, line: LogText, observed_ms: int | None, to_utc: ToUtc) -> None:
    found = read_line(line, observed_ms, to_utc)
    if isinstance(found, LineOutcome):
        lines.counts[found] += 1
    else:
        lines.counts[LineOutcome.DECODED] += 1
        lines.events += found


def read_line(
    line: LogText, observed_ms: int | None, to_utc: ToUtc = in_utc
) -> list[tuple[str, CoordinatorEvent]] | LineOutcome:
    """Return the events of a line with their group, or the outcome of a line without events."""
    text = line.text
    if len(text) > MAX_LINE:
        return LineOutcome.TOO_LONG if any(mark in text[:MAX_NAME] for mark in _MARKS) else LineOutcome.OTHER
    begin = min((at for mark in _MARKS if (at := text.find(mark)) >= 0), default=-1)
    if begin < 0:
        return LineOutcome.OTHER
    message = _without_logger(text[begin:])
    end = message.find(_MARK_END)
    # Scala's coordinator puts a colon after the bracket.
    colon = message.find("]: ")
    if colon >= 0 and (end < 0 or colon < end):
        end = colon + 1
    if end < 0:
        return LineOutcome.OTHER
    body = message[end + len(_MARK_END) :]
    for each in TEXTS:
        values = each.template.match(body)
        if values is not None:
            broker = _BROKER.match(message)
            found = _events(each, values, _time(line, text[:begin], observed_ms, to_utc), observed_ms)
            if broker is None or isinstance(found, LineOutcome):
                return found
            return [(group, replace(event, broker=int(broker[1]))) for group, event in found]
    return LineOutcome.OTHER if _says_nothing(body) else LineOutcome.UNKNOWN_TEXT


def _says_nothing(body: str) -> bool:
    if body.startswith(SILENT):
        return True
    for bracket in ("[GroupId ", "[Group "):
        if body.startswith(bracket):
            behind = body[body.find("] ") + 2 :]
            return behind.startswith(SILENT_OF_GROUP) or "][MemberId " in body
    return False


def _without_logger(text: str) -> str:
    """Return a line without the logger, and the thread after it, that some layouts put at the end."""
    at = text.rfind(" (")
    if at < 0:
        return text
    name, closed, behind = text[at + 2 :].partition(")")
    is_logger = closed and name.endswith(_LOGGERS) and (not behind.strip() or behind.startswith(" ["))
    return text[:at] if is_logger else text


def _time(line: LogText, head: str, observed_ms: int | None, to_utc: ToUtc) -> tuple[int, bool] | None:
    """Return when a line was written, and whether that is its own time to the millisecond; null if not known."""
    if line.is_own and line.at_ms is not None:
        return line.at_ms, True
    start, shipped_ms = 0, line.at_ms
    cri = read_time(head)
    if cri is not None and cri.has_zone and head[cri.length : cri.length + 8] in _CRI_STREAMS:
        # Containerd's own time, followed by the stream and a letter.
        start, shipped_ms = cri.length + 10, cri.ms
    written = read_time(head, start + (head[start : start + 1] == "["))
    if written is not None:
        return (written.ms if written.has_zone else to_utc(written.ms)), written.has_ms
    fallback = shipped_ms if shipped_ms is not None else observed_ms
    return None if fallback is None else (fallback, False)


def _events(
    text: CoordinatorText, values: Mapping[str, str], time: tuple[int, bool] | None, observed_ms: int | None
) -> list[tuple[str, CoordinatorEvent]] | LineOutcome:
    if time is None:
        return LineOutcome.OTHER
    at_ms, exact = time
    if observed_ms is not None and at_ms > observed_ms + AHEAD_MS:
        return LineOutcome.FUTURE
    refused = _refusal(values)
    if refused is not None:
        return refused
    group = values["group"]
    event = CoordinatorEvent(
        at_ms=at_ms,
        act=text.act,
        generation=_number(values.get("generation")),
        member_id=values.get("member"),
        instance_id=_option(values.get("instance")),
        replaced_id=values.get("replaced"),
        members=_number(values.get("members")),
        reason=text.fixed.get("reason") or client_reason(values.get("detail", "")),
        exact=exact,
    )
    if "listed" in values:
        listed = read_members(values["listed"].rstrip("."))
        return [(group, replace(event, member_id=each)) for each in listed[:_MOST_MEMBERS] if len(each) <= MAX_NAME]
    return [(group, _with_reason(event, values))]


def _refusal(values: Mapping[str, str]) -> LineOutcome | None:
    """Return the reason why values do not fit their fields; null if they do."""
    names = [values.get(each, "") for each in ("group", "member", "instance", "replaced")]
    if max(map(len, names)) > MAX_NAME:
        return LineOutcome.TOO_LONG
    known = values.get("state", GroupState.STABLE).lower() in _STATES
    counted = "generation" not in values or _number(values["generation"]) is not None
    return None if values["group"] and known and counted else LineOutcome.UNKNOWN_TEXT


def _with_reason(event: CoordinatorEvent, values: Mapping[str, str]) -> CoordinatorEvent:
    """Return the event of a rebalance that is prepared, with the content of its reason."""
    if event.act != CoordinatorAct.PREPARING:
        return event
    if "why" not in values:
        return replace(event, trigger=CoordinatorTrigger.OTHER)
    why = values["why"].removesuffix(".").removesuffix(")")
    reason = read_reason(why)
    return replace(event, trigger=reason.trigger, member_id=reason.member_id, reason=reason.text)


def _number(text: str | None) -> int | None:
    """Return the number at the beginning of a text; a log partition in brackets may follow it."""
    head = (text or "").partition(" ")[0].rstrip(".")
    return int(head) if head.isascii() and head.isdecimal() and len(head) <= 10 else None


def _option(text: str | None) -> str | None:
    """Return the content of Scala's Option in its text form; null for None and for Java's null."""
    if text in (None, "", "None", "null"):
        return None
    return text[5:-1] if text.startswith("Some(") and text.endswith(")") else text

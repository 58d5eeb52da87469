"""`silence` and `announce`: typed options become a request, and answers become lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rebalance_contract import AlertSilence, SilenceKind
from rebalance_contract.api import MadeSilence, SilenceMark, SilenceRequest, SilencesAnswer
from rebalance_contract.display import SILENCES, asked_by
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.figures import Clock, span_ms
from rebalance_exporters.terminal.report import Column, Grid
from rebalance_exporters.text.figures import span


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceOptions:
    """Options of a silence or a deploy, as typed. `start` null: now; `by` null: the user who logs in."""

    groups: Sequence[str]
    reason: str
    length: str
    start: str | None = None
    by: str | None = None
    version: str | None = None
    kind: SilenceKind = SilenceKind.SILENCE


def request(options: SilenceOptions, *, cluster: str | None, now_ms: int, clock: Clock) -> SilenceRequest:
    """Return the request to the exporter. Raises ExporterError for times that cannot be read."""
    duration_ms = span_ms(options.length)
    if not duration_ms:
        raise ExporterError(f"cannot read --for {safe(options.length)}: type it as 30m, 2h or 1d")
    try:
        starts_at_ms = None if options.start is None else clock.read_ahead(options.start, now_ms)
    except ValueError as error:
        raise ExporterError(safe(str(error))) from error
    return SilenceRequest(
        tuple(options.groups),
        options.reason,
        duration_ms,
        starts_at_ms,
        cluster,
        options.kind,
        options.version,
        options.by,
    )


def describe_made(silence: AlertSilence, now_ms: int, clock: Clock, access: Access) -> Iterator[str]:
    """Yield the lines about a new silence, and the command that ends it early."""
    start = "" if silence.starts_at_ms <= now_ms else f"from {clock.moment(silence.starts_at_ms)} "
    end = clock.moment(silence.ends_at_ms)
    yield f"{silence_word(silence.kind)} {start}until {end}: {', '.join(silence.groups)} [cluster {silence.cluster}]"
    if isinstance(silence, MadeSilence):
        yield from _describe_covered(silence.covered_groups, access)
    if silence.ends_at_ms > now_ms:
        yield f"end it sooner: {access.suggest('silence expire', silence.silence_id)}"


def _describe_covered(groups: int | None, access: Access) -> Iterator[str]:
    if groups == 0:
        yield f"no group of such a name is known now: compare with {access.suggest('top', '--once')}"
    elif groups is not None:
        yield f"of the groups known now it covers {groups}"


def describe_all(answer: SilencesAnswer, clock: Clock, *, ended: bool) -> Grid:
    """Return the table of active and future silences and, if `ended`, of those that have ended."""
    shown = [each for each in answer.silences if ended or each.ends_at_ms > answer.at_ms]
    several = len({each.cluster for each in shown}) > 1
    heads = ("ID", *(("CLUSTER",) if several else ()), "GROUPS", "WHEN", "WHAT", "WHO", "WHY")
    rows = tuple(
        (
            each.silence_id,
            *((each.cluster,) if several else ()),
            ", ".join(each.groups),
            _when(each, answer.at_ms, clock),
            silence_word(each.kind) + ("" if each.version is None else f" {each.version}"),
            asked_by(each.created_by, each.on_behalf_of),
            each.reason,
        )
        for each in shown
    )
    return Grid("", tuple(Column(head, may_shrink=head in {"GROUPS", "WHY"}) for head in heads), rows)


def describe_mark(mark: SilenceMark, clock: Clock) -> str:
    """Return one line on why a group is silenced, or what is being deployed."""
    by = asked_by(mark.created_by, mark.on_behalf_of)
    return f"{silence_word(mark.kind)} until {clock.moment(mark.ends_at_ms)} by {by}: {mark.reason}"


def _when(silence: AlertSilence, now_ms: int, clock: Clock) -> str:
    if silence.ends_at_ms <= now_ms:
        by = "" if silence.expired_by is None else f" by {silence.expired_by}"
        return f"ended {clock.moment(silence.ends_at_ms)}{by}"
    if silence.starts_at_ms > now_ms:
        return f"from {clock.moment(silence.starts_at_ms)} for {span(silence.ends_at_ms - silence.starts_at_ms)}"
    return f"until {clock.moment(silence.ends_at_ms)}"


def silence_word(kind: str) -> str:
    """Return the word for the state of a group that has a silence of this kind."""
    # A newer exporter may have more kinds.
    return SILENCES.get(kind, kind)

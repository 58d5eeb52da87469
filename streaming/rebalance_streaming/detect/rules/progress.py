"""Partitions that do not advance, or not fast enough, or that nobody reads (catalogue §4.7).

Receives a group that is settled; compares what it committed with where its partitions end. Without probed end offsets
nothing is said: nobody knows then whether records wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import median

from rebalance_contract import Advice, Alternative, Evidence, Member, Partitions, Subject
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.clients import CONSUMED_RATE, ClientHistory
from rebalance_streaming.detect.fingerprints import fingerprint
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.memory import Memory
from rebalance_streaming.detect.progress import Position
from rebalance_streaming.detect.rules.evicted import commit_failures_after_rebalance, zombie_member
from rebalance_streaming.detect.rules.unread import commit_only_group, empty_group_with_lag, orphan_partition
from rebalance_streaming.detect.verdict import (
    CERTAIN,
    CLIENT_METRICS,
    COMMITS,
    LOG,
    PLAUSIBLE,
    PROBES,
    STRONG,
    TICKET,
    Verdict,
    name_of,
    seconds,
    subject_of,
)

#: A max.poll.interval this long says that there is none.
_UNLIMITED_MS = 24 * 3_600_000
#: A rhythm is known from so many commits on (of a group without members, that might have ended).
_REGULAR = 5
#: Commits this far apart tell a rate; end offsets are kept every ten seconds.
_RATE_MS = 30_000
#: A group that is less behind than this share of the window is not behind.
_BEHIND = 1 / 15
_FRESH_MS = 60_000
#: End offsets are remembered this far apart.
_END_SPACING_MS = 10_000
_NAMED = 5
_NO_TRANSACTION = Evidence(PROBES, "last stable offset", "ahead of the committed one", "no transaction holds it up")


# --- Standing still ---


def stalled_consumer(look: Look) -> Iterator[Verdict]:
    """A member is there and takes part, but commits nothing while records wait (IBM/sarama#2855; Cloudflare)."""
    if look.is_young or look.history.progress.ends_since() is None:
        return
    if look.history.is_simple():
        yield from _stopped_checkpoints(look)
        return
    stable = look.stable_since_ms()
    if not look.is_settled or stable is None or not look.lasted(stable, look.thresholds.stalled_ms):
        return
    for member, positions in _waiting(look):
        wait = _patience(look, member)
        if wait is None or not look.lasted(stable, wait):
            continue
        stuck = [each for each in positions if _waits_for(look, each, wait)]
        if stuck:
            yield _stalled_verdict(look, member, stuck, max(stable, *(each.advanced_ms or 0 for each in stuck)))


def recollect_waiting(look: Look) -> Memory:
    """Remember since when records are seen waiting in partitions that are not committed any further.

    A rebalance makes the time begin anew, for its new owners.
    """
    if look.is_young or look.history.progress.ends_since() is None:
        return replace(look.memory, waiting={})
    if look.history.is_simple():
        positions = [each for each in look.history.progress.lagging() if not _in_transaction(each)]
    else:
        positions = [each for _, several in _waiting(look) for each in several] if look.is_settled else []
    before, since = look.memory.waiting, look.stable_since_ms() or 0
    waiting = {}
    for each in positions:
        began = before.get(each.name, look.now_ms)
        waiting[each.name] = began if began >= since else look.now_ms
    return replace(look.memory, waiting=waiting)


def _waiting(look: Look) -> Iterator[tuple[Member, list[Position]]]:
    """Yield members with those of their partitions that have lag and were not committed any further for some time.

    Readers of committed records wait for a transaction as long as it is open.
    """
    progress, wait_ms = look.history.progress, look.thresholds.stalled_ms
    behind: dict[str, list[Position]] = {}
    for each in progress.lagging():
        if not _in_transaction(each) and (each.advanced_ms is None or look.lasted(each.advanced_ms, wait_ms)):
            behind.setdefault(each.topic, []).append(each)
    for member in look.members if behind else ():
        mine = member.partitions or {}
        positions = [each for topic in mine for each in behind.get(topic, ()) if each.partition in mine[topic]]
        if positions:
            yield member, positions


def _positions(look: Look, member: Member) -> Iterator[Position]:
    for topic, numbers in (member.partitions or {}).items():
        for partition in numbers:
            yield look.history.progress.position(topic, partition)


def _patience(look: Look, member: Member) -> int | None:
    """Return for how long (ms) a member may commit nothing; null when its rhythm is not known."""
    progress = look.history.progress
    gap = progress.rhythm(member.partitions or {}, look.now_ms).gap_ms
    if gap is None:
        gap = progress.rhythm(_assigned(look.members), look.now_ms).gap_ms
    if gap is None:
        return None
    poll = member.rebalance_timeout_ms or 0
    enforced = poll if poll < _UNLIMITED_MS and fingerprint(member, _client(look, member)).enforces_poll else 0
    return max(look.thresholds.stalled_ms, 3 * gap, enforced)


def _assigned(members: Sequence[Member]) -> Partitions:
    found: Partitions = {}
    for member in members:
        for topic, numbers in (member.partitions or {}).items():
            found.setdefault(topic, []).extend(numbers)
    return found


def _client(look: Look, member: Member) -> ClientHistory | None:
    return look.history.clients.of(member.member_id, member.client_id, member.host, member.group_instance_id)


def _waits_for(look: Look, position: Position, wait_ms: int) -> bool:
    """Whether records that were there so long ago still are, and more have come since.

    How long records wait is known from ends probed then, or from having looked for so long. After a transaction,
    which may just have ended, its reader needs a commit interval to go on.
    """
    progress, since = look.history.progress, look.now_ms - wait_ms
    began = look.memory.waiting.get(position.name, look.now_ms)
    before = progress.end_at(position.topic, position.partition, since)
    seen_then = before is not None and position.committed is not None and position.committed < before
    if not (seen_then or look.lasted(began, wait_ms)) or not look.lasted(position.advanced_ms or since, wait_ms):
        # A probe remembered until then may tell sooner than having looked for so long.
        look.deadline.note(look.now_ms + _END_SPACING_MS)
        return False
    settle = 2 * look.probe_ms if position.stable_end is not None else 0
    grown = look.end_growth(position.topic, position.partition, wait_ms) or 0
    return grown > 0 and look.lasted(began, settle)


def _in_transaction(position: Position) -> bool:
    stable = position.stable_end
    return stable is not None and stable < (position.end or 0) and (position.committed or 0) >= stable


def _stalled_subject(look: Look, member: Member, stuck: Sequence[Position], since_ms: int) -> Subject:
    """Return the member, or the partition if it is the only one that stands still while its member goes on."""
    goes_on = any((each.advanced_ms or 0) > since_ms for each in _positions(look, member))
    return Subject(partitions=(stuck[0].name,)) if goes_on and len(stuck) == 1 else subject_of(member)


def _stalled_verdict(look: Look, member: Member, stuck: Sequence[Position], since_ms: int) -> Verdict:
    subject = _stalled_subject(look, member, stuck, since_ms)
    names, lag = [each.name for each in stuck], sum(each.lag or 0 for each in stuck)
    variant, told = _what_it_does(look, member)
    alone = not subject.members
    what = (
        "is assigned but not consumed by" if alone else "are not consumed by" if len(names) > 1 else "stands still at"
    )
    known = all(each.stable_end is not None for each in stuck)
    return Verdict(
        rule="stalled_consumer",
        confidence=CERTAIN if told else STRONG,
        summary=f"{_listed(names)} {what} {name_of(member)}: nothing committed for {seconds(look.now_ms - since_ms)} "
        f"and {lag} records wait, although the group is stable.",
        started_at_ms=since_ms,
        subject=subject,
        variant="partition" if alone else variant,
        evidence=(
            Evidence(COMMITS, "offset", f"unchanged for {seconds(look.now_ms - since_ms)}", "longer than any batch"),
            Evidence(PROBES, "lag", f"{lag} records, growing", "there is work"),
            Evidence(LOG, "members", f"{name_of(member)} in a stable group", "no rebalance explains it"),
            *((_NO_TRANSACTION,) if known else ()),
            *told,
        ),
        alternatives=(
            Alternative("slow_consumer_group", "the committed offset does not move at all"),
            Alternative("no_progress_loop", "the owner does not change"),
        ),
        missing=(
            *(() if told else ("client metrics of this member: polls, records consumed",)),
            *(() if known else ("last stable offsets",)),
        ),
        advice=(
            Advice("operation", None, f"restart {name_of(member)}", "it takes up its partitions anew"),
            Advice("code", None, "make the health check watch committed offsets, not the connection", "-"),
        ),
    )


def _what_it_does(look: Look, member: Member) -> tuple[str | None, tuple[Evidence, ...]]:
    """Return what the member's client says it does meanwhile, and that as evidence; null and none if it is silent."""
    client = _client(look, member)
    latest = None if client is None else client.latest()
    if client is None or latest is None or not look.is_within(latest.emitted_ms, _FRESH_MS + client.interval_ms):
        return None, ()
    consumed = latest.values.get(CONSUMED_RATE)
    if latest.poll_age_ms is not None and latest.poll_age_ms >= look.thresholds.stalled_ms:
        return "not_polling", (_told("last poll", f"{seconds(latest.poll_age_ms)} ago", "it is stuck"),)
    if consumed == 0:
        return "nothing_fetched", (_told("records consumed", "0/s", "paused, or lost inside the client"),)
    if consumed is not None:
        return "not_committing", (_told("records consumed", f"{consumed:.1f}/s", "never committed"),)
    return None, ()


def _told(field: str, value: str, rule: str) -> Evidence:
    return Evidence(CLIENT_METRICS, field, value, rule)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _stopped_checkpoints(look: Look) -> Iterator[Verdict]:
    """Yield that a group without members, which committed regularly, does so no more; it may have ended on purpose."""
    progress = look.history.progress
    last = progress.last_commit_ms
    if last is None or look.history.ownership or not look.lasted(last, look.thresholds.stalled_ms):
        return
    lagging = list(progress.lagging())
    rhythm = progress.rhythm(_places(lagging), look.now_ms)
    if rhythm.gap_ms is None or rhythm.commits < _REGULAR or not look.lasted(last, 3 * rhythm.gap_ms):
        return
    wait = max(look.thresholds.stalled_ms, 3 * rhythm.gap_ms)
    stuck = [each for each in lagging if not _in_transaction(each) and _waits_for(look, each, wait)]
    if stuck:
        yield Verdict(
            rule="stalled_consumer",
            confidence=PLAUSIBLE,
            summary=f"Whoever commits for this group every {seconds(rhythm.gap_ms)} stopped "
            f"{seconds(look.now_ms - last)} ago; {sum(each.lag or 0 for each in stuck)} records wait.",
            started_at_ms=last,
            variant="checkpoints_stopped",
            severity=TICKET,
            evidence=(
                Evidence(COMMITS, "last commit", f"{seconds(look.now_ms - last)} ago", "more than 3 of its intervals"),
                Evidence(PROBES, "lag", f"{len(stuck)} partition(s), growing", "there is work"),
            ),
            alternatives=(Alternative("commit_only_group", "it may have ended on purpose: it has no members to tell"),),
            missing=("whether the job is meant to run",),
            advice=(Advice("operation", None, "look at the job's checkpoints (Flink) or at the job itself", "-"),),
        )


def _places(positions: Sequence[Position]) -> Partitions:
    found: Partitions = {}
    for each in positions:
        found.setdefault(each.topic, []).append(each.partition)
    return found


# --- Advancing, but too slowly ---


@dataclass(frozen=True, slots=True)
class _Flow:
    """Records per second into and out of a group's partitions, over the same stretch of time, and what waits."""

    produced: float
    consumed: float
    lag: int
    partitions: int


def slow_consumer_group(look: Look) -> Iterator[Verdict]:
    """All partitions advance, but more is produced than consumed: not a rebalance's fault."""
    window, stable = look.thresholds.slow_ms, look.stable_since_ms()
    if not look.is_settled or stable is None or not look.members or not look.lasted(stable, window):
        return
    flow = _flow(look)
    if flow is None or flow.produced <= flow.consumed or flow.lag <= flow.produced * window / 1000 * _BEHIND:
        return
    yield replace(_slow_verdict(look, flow), lasting_ms=window)


def _flow(look: Look) -> _Flow | None:
    """Return what flows; null while a partition with lag stands still, or where commits or ends are not known."""
    produced = consumed = 0.0
    lag = partitions = 0
    if not look.history.progress.total_lag():
        return None
    for each in look.history.progress.positions():
        if each.lag is None or each.committed_ms is None or each.committed is None:
            return None
        if each.lag and look.lasted(each.advanced_ms or 0, look.thresholds.stalled_ms):
            return None
        lag, partitions = lag + each.lag, partitions + 1
        rates = _rates(look, each)
        if rates is not None:
            produced, consumed = produced + rates[0], consumed + rates[1]
    return _Flow(produced, consumed, lag, partitions) if consumed else None


def _rates(look: Look, position: Position) -> tuple[float, float] | None:
    """Return records per second (produced, committed) of a partition between two of its commits."""
    progress, place = look.history.progress, (position.topic, position.partition)
    if position.committed is None or position.committed_ms is None:
        return None
    before = progress.committed_before(place, position.committed_ms - _RATE_MS)
    if before is None:
        return None
    ends = progress.end_at(*place, before[0]), progress.end_at(*place, position.committed_ms)
    if ends[0] is None or ends[1] is None:
        return None
    lasted = (position.committed_ms - before[0]) / 1000
    return (ends[1] - ends[0]) / lasted, (position.committed - before[1]) / lasted


def _slow_verdict(look: Look, flow: _Flow) -> Verdict:
    working = sum(1 for member in look.members if any((member.partitions or {}).values())) or 1
    needed = min(flow.partitions, ceil(1.3 * flow.produced / (flow.consumed / working)))
    replicas = Advice(
        "replicas", str(len(look.members)), str(needed), "min(partitions, ceil(1.3 x production / per-member rate))"
    )
    faster = Advice("code", None, "make processing faster, or add partitions: each has a member already", "-")
    return Verdict(
        rule="slow_consumer_group",
        confidence=CERTAIN,
        summary=f"The group consumes {flow.consumed:.1f} records/s of {flow.produced:.1f} produced: {flow.lag} records "
        "behind and falling further, without any rebalance.",
        started_at_ms=look.now_ms,
        evidence=(
            Evidence(PROBES, "production", f"{flow.produced:.1f} records/s", "more than is consumed"),
            Evidence(
                COMMITS,
                "consumption",
                f"{flow.consumed:.1f} records/s",
                f"for at least {seconds(look.thresholds.slow_ms)}",
            ),
            Evidence(LOG, "rebalances", "none meanwhile", "lag has another cause"),
        ),
        alternatives=(Alternative("stalled_consumer", "every partition advances"),),
        advice=(replicas,) if needed > len(look.members) else (faster,),
    )


def partition_skew(look: Look) -> Iterator[Verdict]:
    """One partition gets most of the records: members added do not help."""
    if not look.is_settled or look.is_young or look.history.progress.ends_since() is None:
        return
    lagging = list(look.history.progress.lagging())
    total = sum(each.lag or 0 for each in lagging)
    most = [each for each in lagging if (each.lag or 0) > look.thresholds.skew_share * total]
    for each in most:
        yield from _skew(look, each, total)


def _skew(look: Look, position: Position, total: int) -> Iterator[Verdict]:
    """Yield the skew of the partition that has most of the lag, once it has lasted."""
    progress, window = look.history.progress, look.thresholds.slow_ms
    count = progress.partition_counts().get(position.topic, 0)
    grown = [look.end_growth(position.topic, p, window) for p in range(count)]
    known = [each for each in grown if each is not None]
    own = grown[position.partition] if position.partition < count else None
    usual = median(known) if known else 0
    skewed = (
        own is not None
        and own > look.thresholds.skew_factor * usual
        and len(known) > 1
        # What came within a minute or so may just have come.
        and (position.lag or 0) > own * _BEHIND
    )
    if skewed and own is not None:
        yield Verdict(
            rule="partition_skew",
            confidence=CERTAIN,
            summary=f"{position.name} got {own} records in {seconds(window)} where others got {usual:g}, and has "
            f"{(position.lag or 0) / total:.0%} of the lag: more members will not help.",
            started_at_ms=look.now_ms,
            subject=Subject(partitions=(position.name,)),
            severity=TICKET,
            lasting_ms=window,
            evidence=(
                Evidence(PROBES, "production", f"{own} records against {usual:g}", "more than 3 x the median"),
                Evidence(COMMITS, "lag", f"{position.lag} of {total} records", "most of the lag"),
            ),
            alternatives=(Alternative("slow_consumer_group", "other partitions keep up"),),
            advice=(
                Advice(
                    "code", None, "spread the producer's keys, or process this partition's records in parallel", "-"
                ),
            ),
        )


CONDITIONS: tuple[Condition, ...] = (
    Condition(stalled_consumer, inputs.COMMITS | inputs.ENDS | inputs.CLIENTS),
    Condition(slow_consumer_group, inputs.COMMITS | inputs.ENDS),
    Condition(orphan_partition, inputs.COMMITS | inputs.ENDS),
    Condition(partition_skew, inputs.COMMITS | inputs.ENDS),
    Condition(empty_group_with_lag, inputs.COMMITS | inputs.ENDS),
    Condition(commit_only_group, inputs.COMMITS),
    Condition(zombie_member, inputs.CLIENTS),
    Condition(commit_failures_after_rebalance, inputs.COMMITS | inputs.CLIENTS),
)

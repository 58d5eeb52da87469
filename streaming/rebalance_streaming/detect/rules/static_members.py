"""Static members (KIP-345): back late, gone, not polling, or wrongly named.

Receives a group's current state. A static member does not leave: the broker keeps its place and its partitions until
its session ends, so faults show late or not at all. The log has no replacements for KIP-848 groups, so there only
reports of the processes, or log lines of their coordinator, show that two share an instance id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rebalance_contract import CoordinatorEvent, Member, Replacement, Severity, Subject, SubjectMember
from rebalance_contract.client_settings import OWN_SESSION
from rebalance_streaming.detect.advice import session_for_absence, session_of_member, shortens
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.group_view import DAY_MS, GroupView, condition
from rebalance_streaming.detect.rules.member_settings import type_of
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.groups.partitions import partition_names, places
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.barriers import Barrier, longest_barrier
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import SESSION_EXPIRED, session_of
from rebalance_streaming.observed.timeouts import kept_place_without_polls

#: Causes of a lost member that did not poll but was not away.
_UNPOLLED = with_trait("unpolled")
#: Minimum time without commits after which a member counts as silent while the others go on.
_SILENT_MS = 60_000
#: A join barrier of this share of its timeout ended by the timeout, allowing for clock differences.
_WHOLE_BARRIER = 0.9
_SLACK_MS = 10_000
#: group.consumer.max.session.timeout.ms: by default, no KIP-848 member is kept for longer without a heartbeat.
_LONGEST_GROUP_SESSION_MS = 60_000
#: Numbers of replacements of one instance that one or two quick restarts do not explain; the second if on one host.
_REPLACEMENTS, _ON_ONE_HOST = 2, 3
#: Random instance ids: at least this many ids per member in a day, and at least this many in all.
_NAMES_PER_MEMBER, _LEAST_NAMES = 3, 6


# --- Away for longer than the session ---
@condition()
def static_session_too_short(view: GroupView) -> Iterator[Verdict]:
    """A static member was away for longer than its session, so that its restart cost two rebalances (KIP-345)."""
    absences: dict[str, list[tuple[int, ExplainedDeparture]]] = {}
    for past in view.recent_past(DAY_MS):
        away = _absence(view, past)
        if away is not None and past.member.group_instance_id is not None:
            absences.setdefault(past.member.group_instance_id, []).append((away, past))
    for instance, several in sorted(absences.items()):
        longest, _ = max(several, key=lambda each: each[0])
        present = _holder(view, instance)
        # A longer session by now means that the advice was applied.
        if present is None or session_of(present) < longest:
            yield _too_short(view, instance, longest, [past for _, past in several])


def _absence(view: GroupView, past: ExplainedDeparture) -> int | None:
    """Return how long (ms) a static member whose session expired was away until it returned; null for all others.

    For a member without a known expiry it is not known whether it was away or stood still.
    """
    departure = past.departure
    if past.rule in _UNPOLLED or departure.likely != SESSION_EXPIRED or kept_place_without_polls(departure):
        return None
    gone_ms = view.away_ms(past)
    if past.member.group_instance_id is None or not gone_ms:
        return None
    away = gone_ms + past.left_ms - (departure.rhythm.last_ms or past.left_ms - departure.session_ms)
    away = min(away, gone_ms + departure.session_ms + _SLACK_MS)
    return away if departure.session_ms < away <= OWN_SESSION.longest_ms else None


def _too_short(view: GroupView, instance: str, longest: int, several: list[ExplainedDeparture]) -> Verdict:
    last = several[-1].departure
    config = view.history.clients.config_of(last.member)
    known = session_of_member(last.member, last.client, type_of(view.history), config)
    return view.say(
        "static_session_too_short.repeated",
        several[0].left_ms,
        instance_subject(view, instance),
        confidence=STRONG if last.confidence >= STRONG else PLAUSIBLE,
        evidence=last.evidence,
        advice=session_for_absence(known, longest),
        rebalance_ids=tuple(dict.fromkeys(each.rebalance_id for each in several)),
        instance=instance,
        times=len(several),
        longest=longest,
        session=last.session_ms,
    )


# --- Not coming back ---
@condition(inputs.REPORTED, grown=True)
def static_member_ghost(view: GroupView) -> Iterator[Verdict]:
    """A static instance does not come back; nobody reads its partitions until its session ends (KIP-345)."""
    yield from (verdict for each in view.members if (verdict := _gone_unseen(view, each)) is not None)
    horizon = view.thresholds.stay_ms + view.thresholds.resolve_after_ms
    for past in view.recent_past(horizon):
        expired = past.departure.likely == SESSION_EXPIRED and not kept_place_without_polls(past.departure)
        waited = view.time.lasted(past.left_ms, view.thresholds.stay_ms)
        if past.member.group_instance_id is not None and expired and waited and view.away_ms(past) is None:
            yield view.say(
                "static_member_ghost.gone",
                past.left_ms - past.departure.session_ms,
                subject_of(past.member),
                confidence=past.departure.confidence,
                evidence=past.departure.evidence,
                rebalance_ids=(past.rebalance_id,),
                member=past.member,
                session=past.departure.session_ms,
                shortens=shortens(past.member.session_timeout_ms),
            )


def _gone_unseen(view: GroupView, member: Member) -> Verdict | None:
    """Return a verdict on a static member that is still listed but silent, with work to do, while the others go on."""
    silent = _silence_with_work(view, member)
    client = None if silent is None else view.client_of(member)
    if silent is None or (client is not None and view.is_reporting(client)):
        return None
    session = session_of(member)
    harmed = session > view.thresholds.stalled_ms and view.is_harmed([member.partitions])
    return view.say(
        "static_member_ghost.unseen",
        view.now_ms - silent,
        _with_partitions(member),
        confidence=STRONG if client is not None else HINT,
        severity=Severity.PAGE if harmed else Severity.TICKET,
        member=member,
        silent=silent,
        session=session,
        reported=client is not None,
        shortens=shortens(member.session_timeout_ms),
    )


def _with_partitions(member: Member) -> Subject:
    return subject_of(member, partitions=partition_names(member.partitions)[:20])


def _silence_with_work(view: GroupView, member: Member) -> int | None:
    """Return for how long (ms) a static member has committed nothing despite work, while others went on; or None."""
    if member.group_instance_id is None or not member.partitions:
        return None
    stable_ms = view.stable_since_ms()
    rhythm = view.progress.rhythm(member.partitions, view.now_ms)
    since = max(rhythm.last_ms or 0, stable_ms or 0)
    if rhythm.last_ms is None or not view.time.lasted(since, max(_SILENT_MS, 3 * (rhythm.gap_ms or 0))):
        return None
    positions = view.positions_of(member.partitions)
    working = any(each.lag and view.grew_since(each, since) for each in positions)
    others = any(
        view.progress.commits_between(each.partitions or {}, since + _SILENT_MS // 2, view.now_ms)
        for each in view.members
        if each.member_id != member.member_id
    )
    return view.now_ms - since if working and others else None


# --- Alive, but not polling ---
@condition(inputs.REPORTED, grown=True)
def static_stalled_member(view: GroupView) -> Iterator[Verdict]:
    """A static member that stops polling keeps its partitions until max.poll.interval plus its session (KIP-345)."""
    static = [member for member in view.members if member.group_instance_id is not None]
    barrier = _barrier_that_ran_out(view) if static else None
    for member in static:
        verdict = _stalled_by_report(view, member)
        if verdict is None and barrier is not None:
            verdict = _stalled_by_barrier(view, member, barrier)
        if verdict is not None:
            yield verdict


def _stalled_by_report(view: GroupView, member: Member) -> Verdict | None:
    client, limit = view.client_of(member), member.rebalance_timeout_ms
    latest = None if client is None else client.latest()
    age = None if latest is None else latest.poll_age_ms
    if client is None or latest is None or age is None or limit is None:
        return None
    if age < limit or not view.is_reporting(client):
        return None
    return _stalled(view, member, round(latest.emitted_ms - age), poll_age=age)


def _barrier_that_ran_out(view: GroupView) -> Barrier | None:
    """Return the longest barrier of the latest rebalance if it ended by its timeout."""
    latest = view.history.latest()
    barrier = None if latest is None else longest_barrier(view.history, latest)
    limit = max((each.rebalance_timeout_ms or 0 for each in view.members), default=0)
    ran_out = barrier is not None and limit > 0 and barrier.waited_ms >= _WHOLE_BARRIER * limit
    return barrier if ran_out else None


def _stalled_by_barrier(view: GroupView, member: Member, barrier: Barrier) -> Verdict | None:
    """Return a verdict on a static member that may have let a barrier time out and has not committed since; or None."""
    known = any(each.member_id == member.member_id for each in barrier.stayed)
    committed = view.progress.commits_between(member.partitions or {}, barrier.from_ms, view.now_ms)
    waiting = any(position.lag for position in view.positions_of(member.partitions))
    others = {place for each in view.members if each is not member for place in places(each.partitions)}
    went_on = any((view.progress.position(*place).committed_ms or 0) > barrier.released_ms for place in others)
    if not known or committed or not waiting or not went_on:
        return None
    return _stalled(view, member, barrier.from_ms, barrier_ms=barrier.waited_ms)


def _stalled(
    view: GroupView,
    member: Member,
    since_ms: int,
    *,
    poll_age: float | None = None,
    barrier_ms: int | None = None,
) -> Verdict:
    poll, session = member.rebalance_timeout_ms or 0, session_of(member)
    return view.say(
        "static_stalled_member.present",
        since_ms,
        _with_partitions(member),
        confidence=PLAUSIBLE if poll_age is None else STRONG,
        severity=Severity.PAGE if view.is_harmed([member.partitions]) else Severity.TICKET,
        member=member,
        kept=poll + session,
        poll_age=poll_age,
        barrier=barrier_ms,
        reported=poll_age is not None,
        limit=poll,
        session=session,
        shortens=shortens(member.session_timeout_ms),
    )


# --- Instance ids: shared by two processes, or new at each start ---


@dataclass(frozen=True, slots=True)
class _Name:
    """The recent history of one group.instance.id.

    `swaps` are the replacements of its holder, `processes` those that reported under it, in the order of their first
    reports, and `rivals` those of them that report at the same time: at least two, or none.
    """

    instance: str
    swaps: list[Replacement]
    processes: list[ClientHistory]
    rivals: list[ClientHistory]

    @property
    def is_shared(self) -> bool:
        """Whether two processes have it at the same time or in turns."""
        return bool(self.rivals) or self.turns > 0 or self.returns > 0

    @property
    def is_in_place(self) -> bool:
        """Whether it was taken over repeatedly on a single host."""
        return len(self.hosts) == 1 and len(self.swaps) >= _ON_ONE_HOST

    @property
    def hosts(self) -> set[str]:
        """The hosts of its old and new holders."""
        return {host for each in self.swaps for host in (each.old_host, each.new_host)}

    @property
    def turns(self) -> int:
        """How often it moved back to the host it had just left."""
        return sum(
            one.old_host == other.new_host and one.new_host == other.old_host != other.new_host
            for one, other in pairwise(self.swaps)
        )

    @property
    def returns(self) -> int:
        """How often a program had it again after another one; restarts keep the client id and host."""
        names = [(each.client_id, each.host) for each in self.processes]
        return sum(a == c != b for a, b, c in zip(names, names[1:], names[2:], strict=False))

    @property
    def gaps_ms(self) -> list[int]:
        """The time (ms) from each process's last report to the next process's start; empty if any started earlier.

        A fenced process lives until its next heartbeat, after the other one joined, so two that share an id overlap. A
        restarted process starts after the previous one has ended.
        """
        gaps = [_began_ms(after) - before.reports[-1].emitted_ms for before, after in pairwise(self.processes)]
        return gaps if all(gap > 0 for gap in gaps) else []


# Commits are not an input, because rules with that input are not evaluated where the log is not read.
@condition(inputs.CLIENTS | inputs.STATES)
def static_id_conflict(view: GroupView) -> Iterator[Verdict]:
    """Two live processes share a group.instance.id and fence each other (twmb/franz-go#931, kafka4beam/brod#674)."""
    for name in _names(view, {each.group_instance_id for each in view.members if each.group_instance_id is not None}):
        refused = _refusals(view, name.instance)
        if refused or name.is_shared or (name.is_in_place and not name.gaps_ms):
            yield _conflict(view, name, refused)


def _names(view: GroupView, instances: Collection[str]) -> Iterator[_Name]:
    """Yield the recent history of each of these instance ids, sorted by id."""
    snapshot, window_ms = view.history.snapshot, view.thresholds.conflict_window_ms
    reporting = _processes_by_instance(view, instances)
    for instance in sorted(instances):
        swaps = [
            each
            for each in (snapshot.replacements if snapshot else ())
            if each.group_instance_id == instance and view.time.is_within(each.at_ms, window_ms)
        ]
        processes = reporting.get(instance, [])
        yield _Name(instance, swaps, processes, _rivals(view, processes))


def _refusals(view: GroupView, instance: str) -> Sequence[CoordinatorEvent]:
    """Return the joins that a KIP-848 coordinator refused because another live member had the instance id.

    A process that is killed and restarted is refused for one session, until its own ghost is removed. A holder that is
    still a member after one session sends heartbeats.
    """
    window_ms = view.thresholds.conflict_window_ms
    refused = view.history.coordinator_log.refusals(instance, view.now_ms - window_ms)
    if not refused:
        return ()
    owner = _holder(view, instance)
    by_owner = [each for each in refused if owner is not None and each.replaced_id == owner.member_id]
    if owner is None or not by_owner or not view.time.is_within(by_owner[-1].at_ms, window_ms):
        return ()
    session = max(session_of(owner), _LONGEST_GROUP_SESSION_MS if owner.session_timeout_ms is None else 0)
    return by_owner if view.time.lasted(by_owner[0].at_ms, session + _SLACK_MS) else ()


def _is_alive(view: GroupView, refused: Sequence[CoordinatorEvent]) -> bool:
    """Whether the holder of an instance id committed or reported since a join under the id was refused.

    If brokers allow longer sessions, the ghost of a killed process keeps the id for as long. Only reports with the
    holder's member id count, because the refused process has the same instance id.
    """
    if not refused:
        return False
    since_ms, owner_id = refused[0].at_ms, refused[0].replaced_id
    owner = next((each for each in view.members if each.member_id == owner_id), None)
    if owner is not None and view.progress.commits_between(owner.partitions or {}, since_ms, view.now_ms):
        return True
    reports = (each for client in view.history.clients for each in client.reports)
    return any(each.member_id == owner_id and each.emitted_ms > since_ms + _SLACK_MS for each in reports)


def _rivals(view: GroupView, processes: list[ClientHistory]) -> list[ClientHistory]:
    """Return the processes of an instance that report at the same time; empty if fewer than two."""
    several = [each for each in processes if len(each.reports) > 1]
    live = [each for each in several if view.is_reporting(each)] if len(several) >= _REPLACEMENTS else []
    if len(live) < _REPLACEMENTS:
        return []
    latest_start = max(each.reports[0].emitted_ms for each in live)
    # A process that was just replaced still counts as live for a short time: both must have reported since.
    return live if all(sum(s.emitted_ms >= latest_start for s in each.reports) > 1 for each in live) else []


def _processes_by_instance(view: GroupView, instances: Collection[str]) -> dict[str, list[ClientHistory]]:
    """Return the processes that reported recently under each of these instance ids, in the order of first reports.

    Instances without any are left out.
    """
    found: dict[str, list[ClientHistory]] = {}
    for each in view.history.clients:
        instance = each.instance_id
        if instance is None or instance not in instances or not each.reports:
            continue
        if view.time.is_within(each.reports[-1].emitted_ms, view.thresholds.conflict_window_ms):
            found.setdefault(instance, []).append(each)
    for processes in found.values():
        processes.sort(key=lambda each: each.reports[0].emitted_ms)
    return found


def _began_ms(process: ClientHistory) -> int:
    first = process.reports[0]
    return first.emitted_ms if first.process_start_ms is None else first.process_start_ms


def _conflict(view: GroupView, name: _Name, refused: Sequence[CoordinatorEvent]) -> Verdict:
    swaps, processes, turns, returns = name.swaps, name.processes, name.turns, name.returns
    sure = bool(name.rivals) or _is_alive(view, refused) or turns > 1 or returns > 1
    seen = bool(turns or returns)
    times = [swaps[0].at_ms] if swaps else [each.reports[0].emitted_ms for each in processes[:1]]
    others = {f"{each.client_id} ({each.host})" for each in processes} if name.rivals or returns else name.hosts
    hosts = [each.old_host for each in swaps[:1]] + [each.new_host for each in swaps]
    return view.say(
        "static_id_conflict",
        refused[0].at_ms if refused else times[0],
        _refused_subject(view, name.instance, refused) if refused else _both(view, name),
        confidence=CERTAIN if sure else STRONG if seen else PLAUSIBLE if refused else HINT,
        severity=Severity.PAGE if turns else Severity.TICKET,
        instance=name.instance,
        between=" and ".join(sorted(others)) if len(others) > 1 else None,
        swaps=len(swaps) or None,
        hosts=" -> ".join(hosts) if turns else None,
        programs=" -> ".join(each.client_id or "?" for each in processes) if returns else None,
        rivals=len(name.rivals) or None,
        refused=len(refused) or None,
        owner=refused[-1].replaced_id if refused else None,
        known=sure or seen or bool(refused),
    )


def _refused_subject(view: GroupView, instance: str, refused: Sequence[CoordinatorEvent]) -> Subject:
    """Return the holder of an instance id and the member refused last, whose host the coordinator does not log."""
    owner = instance_subject(view, instance)
    return replace(owner, members=(*owner.members, SubjectMember(refused[-1].member_id, group_instance_id=instance)))


def _both(view: GroupView, name: _Name) -> Subject:
    """Return both sides: the member fenced last and its replacement, or the rival processes."""
    if not name.swaps:
        sides = [SubjectMember(each.member_id, each.client_id, each.host, name.instance) for each in name.rivals]
        return Subject(tuple(sides)) if sides else instance_subject(view, name.instance)
    last = name.swaps[-1]
    named = ((last.old_member_id, last.old_host), (last.new_member_id, last.new_host))
    return Subject(tuple(SubjectMember(each, _client_id(view, each), host, name.instance) for each, host in named))


def _client_id(view: GroupView, member_id: str) -> str | None:
    """Return the client id reported with a member id, or None; the log keeps that of the instance's first holder."""
    of_member = (c for c in view.history.clients if any(each.member_id == member_id for each in c.reports))
    return next((each.client_id for each in of_member), None)


def _holder(view: GroupView, instance: str) -> Member | None:
    return next((each for each in view.members if each.group_instance_id == instance), None)


def instance_subject(view: GroupView, instance: str) -> Subject:
    """Return the current holder of an instance id as a subject, or the bare id if there is no holder."""
    member = _holder(view, instance)
    return Subject((SubjectMember(None, group_instance_id=instance),)) if member is None else subject_of(member)


@condition(inputs.CLIENTS)
def static_member_restart(view: GroupView) -> Iterator[Verdict]:
    """A static member was restarted within its session, without affecting other members (KIP-345, KAFKA-10284)."""
    snapshot = view.history.snapshot
    for name in _names(view, {each.group_instance_id for each in (snapshot.replacements if snapshot else ())}):
        if not name.swaps or name.is_shared:
            continue
        gaps, last, times = name.gaps_ms, name.swaps[-1], len(name.swaps)
        # Many restarts on one host may also be two processes there: the log cannot tell, so both are hints.
        doubt = HINT if name.is_in_place and not gaps else PLAUSIBLE
        seen = bool(gaps) and len(gaps) >= times - 1 and max(gaps) >= name.processes[0].interval_ms
        yield view.say(
            "static_member_restart",
            last.at_ms,
            instance_subject(view, name.instance),
            confidence=CERTAIN if times == 1 else STRONG if seen else doubt,
            instance=name.instance,
            host=last.new_host,
            times=times,
        )


@condition(grown=True)
def random_instance_ids(view: GroupView) -> Iterator[Verdict]:
    """Every start has a new group.instance.id, and each leaves a ghost behind (variant of `static_member_ghost`)."""
    recent = view.recent(DAY_MS)
    seen = {m.group_instance_id for each in recent for m in (*each.members_before, *each.members_after)} - {None}
    most = max((len(each.members_after) for each in recent), default=0)
    if len(seen) >= max(_LEAST_NAMES, _NAMES_PER_MEMBER * most):
        since_ms = recent[0].started_before_ms
        yield view.say("static_member_ghost.random_instance_ids", since_ms, names=len(seen), members=most)

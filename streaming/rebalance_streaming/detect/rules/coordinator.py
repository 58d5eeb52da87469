"""The coordinator: stuck in a rebalance, slow, standing still, or unable to store.

Receives one group's history with its probes: the log shows neither where a group's coordinator is nor its state between
two records. One group alone cannot distinguish its broker from the network to it, so a slow coordinator, or one that
cannot store, is plausible at most. Moved coordinators are reported in `failover`, leaders in `leader`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from rebalance_contract import GroupState, GroupType, Member, ProbedMember, Rebalance, Severity, Subject
from rebalance_contract.clients import ANY_RESPONSE_MAX, RESPONSE_MAX
from rebalance_streaming.detect.episode import Episode, ExplainedDeparture
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.rules.failover import OFTEN, moved_lately, regained
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.groups.identity import client_stem
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.clients import ClientHistory, ClientReport
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, SESSION_EXPIRED, session_of
from rebalance_streaming.observed.history import SEEN_FOR_MS, Sighting
from rebalance_streaming.observed.liveness import ALIVE, HEALTHY, UNREACHABLE, gave_up
from rebalance_streaming.observed.unsettled import count_aborted_syncs, unsettled

_MINUTE_MS = 60_000
_SLOW_CLIENTS = 2
#: If a reporting thread wakes this late, its own process was slow.
_LATE_TICK_MS = 1_000
#: Liveness of a process, or of an event loop, that kept running.
_RAN_ON = (ALIVE, HEALTHY, UNREACHABLE)
#: A probe that waits at a coordinator is answered within this time after the coordinator resumes.
_THAW_MS = 1_000
_ABORTED_SYNCS, _ABORTING_MS = 2, 30_000
_ABORTED = 2
_LEAST_HOSTS, _LEAST_COORDINATORS = 2, 2
#: Errors of storing an assignment, as returned by the log or as translated by coordinators (GroupMetadataManager,
#: CoordinatorOperationExceptionHelper): another broker leads the partition, or the record is too large.
_NOT_LEADING = frozenset({"NOT_COORDINATOR", "NOT_LEADER_OR_FOLLOWER"})
_TOO_LARGE = frozenset({"UNKNOWN_SERVER_ERROR", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_FETCH_SIZE"})


@condition(inputs.STATES)
def coordinator_stuck_rebalance(view: GroupView) -> Iterator[Verdict]:
    """The coordinator exceeds the rebalance's own timeout, which it must not (KAFKA-9752, KAFKA-12890)."""
    run = _trailing_run(view)
    limit = max((each.rebalance_timeout_ms or 0 for each in view.members), default=0)
    if len(run) < 2 or not limit or run[-1].at_ms - run[0].at_ms <= limit + view.thresholds.stuck_slack_ms:
        return
    listed = next((each.members for each in reversed(run) if each.members is not None), ())
    static = bool(listed) and all(each.group_instance_id is not None for each in listed)
    strangers = _are_strangers(view, listed)
    preparing = run[-1].state == GroupState.PREPARING_REBALANCE
    yield view.say(
        "coordinator_stuck_rebalance",
        run[0].at_ms,
        confidence=CERTAIN if not preparing else PLAUSIBLE if static or strangers else STRONG,
        variant="preparing" if preparing else "completing",
        state=run[-1].state,
        waited=run[-1].at_ms - run[0].at_ms,
        probes=len(run),
        limit=limit,
        static=static,
        strangers=strangers,
        preparing=preparing,
    )


def _are_strangers(view: GroupView, listed: Sequence[ProbedMember]) -> bool:
    """Whether a member of an unknown client waits: its rebalance timeout may be longer than the known ones."""
    known = {client_stem(each.client_id) for each in view.members}
    return any(client_stem(each.client_id) not in known for each in listed)


def _trailing_run(view: GroupView) -> list[Sighting]:
    """Return the latest probes that all saw the same unsettled state, with no record and no blind spot in between."""
    run: list[Sighting] = []
    for each in unsettled(view.history):
        if run and (run[0].at_ms - each.at_ms > SEEN_FOR_MS or each.state != run[0].state):
            break
        run.insert(0, each)
    return run if run and view.time.is_within(run[-1].at_ms, SEEN_FOR_MS) else []


# --- Slow, or standing still ---


def find_standstill(episode: Episode) -> Verdict | None:
    """Return a verdict that the coordinator answered no request for a session, so that all members rejoined; or null.

    A coordinator that stands still removes no member meanwhile: all are lost, and back under other ids, in one
    rebalance. One that works removes disconnected or paused members after their session, which leaves its group empty.
    Null unless all reporting clients, at least two, kept running, and one of them reports that its requests were not
    answered, or commits stopped for a session. Requests that wait at the coordinator are processed when it resumes: a
    commit, or a heartbeat that keeps a member.
    """
    lost = episode.departures
    reporting = [(each, each.loss_reports) for each in lost if each.loss_reports is not None]
    ran_on = all(each.process_survived and each.liveness in _RAN_ON for each, _ in reporting)
    if not ran_on or len(reporting) < _SLOW_CLIENTS or not _all_joined_anew(episode):
        return None
    session = max(each.session_ms for each in lost)
    unanswered, silence = sum(gave_up(each) for _, each in reporting), max(each.silence_ms or 0 for each in lost)
    left_in_order = 2 * sum(each.likely == CLEAN for each in lost) > len(lost)
    if not unanswered and (left_in_order or silence < session):
        return None
    began_ms = episode.rebalance.started_before_ms
    seen = episode.history.sightings_between(began_ms - session, began_ms - _THAW_MS)
    if any(each.state is not None for each in seen):
        return None
    return say(
        "coordinator_overload.standstill",
        began_ms - session,
        subject_of(*(each.member for each in lost)),
        confidence=STRONG if unanswered == len(reporting) else PLAUSIBLE,
        members=len(lost),
        reporting=len(reporting),
        unanswered=unanswered or None,
        session=session,
        silence=silence if silence >= session else None,
    )


def _all_joined_anew(episode: Episode) -> bool:
    """Whether all members were lost, and all rejoined in the same generation that went on without their old ids."""
    rebalance, lost, barrier = episode.rebalance, episode.departures, episode.longest_barrier
    if rebalance.is_at_least or len(rebalance.generations) > 1 or len(lost) < len(rebalance.members_before):
        return False
    # The coordinator waits for the old ids for one session, which begins when it resumes.
    longest_ms = max(episode.long_barrier_ms, max(each.session_ms for each in lost) + _THAW_MS)
    if barrier is not None and barrier.waited_ms > longest_ms:
        return False
    came = {each.member_id for each in rebalance.members_after}
    backs = (each.back_as.member_id if each.back_as is not None else None for each in lost)
    return all(back in came for back in backs) and all(map(episode.came_with_loss_of, lost))


@condition(inputs.CLIENTS | inputs.STATES, grown=True)
def coordinator_overload(view: GroupView) -> Iterator[Verdict]:
    """Several clients wait long for the coordinator's responses, or its broker loses the group repeatedly."""
    waited, moves, back = _waiting_clients(view), moved_lately(view), regained(view)
    slow = [(each, ms) for each, ms in waited if ms > view.thresholds.overload_response_ms]
    # Clients that wait for a coordinator that just moved do not wait for a slow one.
    if moves != 1 and len(slow) >= _SLOW_CLIENTS and 2 * len(slow) >= len(waited):
        yield _overloaded(view, slow, len(waited), moves)
    elif len(back) >= OFTEN:
        yield view.say(
            "coordinator_overload.regained",
            back[0].at_ms,
            broker=back[-1].after,
            times=len(back),
            span=back[-1].at_ms - back[0].at_ms,
        )


def _waiting_clients(view: GroupView) -> list[tuple[Member, float]]:
    """Return the longest wait for a response (ms) of members that ran on time; empty if no client waited long."""
    names = (RESPONSE_MAX,) if _joined_lately(view) else (RESPONSE_MAX, ANY_RESPONSE_MAX)
    limit = view.thresholds.overload_response_ms
    if not any((_response_ms(view, each, names) or 0) > limit for each in view.history.clients):
        return []
    pairs = ((each, view.client_of(each)) for each in view.members)
    reporting = [(each, client) for each, client in pairs if client is not None and _ran_on_time(view, client)]
    return [(each, ms) for each, client in reporting if (ms := _response_ms(view, client, names)) is not None]


def _joined_lately(view: GroupView) -> bool:
    """Whether members may have waited for each other in the minutes that librdkafka's statistics cover."""
    settled_ms = view.stable_since_ms()
    return not view.is_settled or settled_ms is None or not view.time.lasted(settled_ms, 2 * _MINUTE_MS)


def _recent(view: GroupView, client: ClientHistory) -> Iterator[ClientReport]:
    """Yield the reports of the last minute, newest first."""
    since_ms = view.now_ms - _MINUTE_MS
    return takewhile(lambda each: each.emitted_ms >= since_ms, reversed(client.reports))


def _response_ms(view: GroupView, client: ClientHistory, names: Sequence[str]) -> float | None:
    """Return the longest response time (ms) of the last minute; null if not reported."""
    answers = (each.values[name] for each in _recent(view, client) for name in names if name in each.values)
    return max(answers, default=None)


def _ran_on_time(view: GroupView, client: ClientHistory) -> bool:
    """Whether a reporting client was not slow itself; false if its last report is more than a minute old."""
    on_time = not any((each.tick_late_ms or 0) > _LATE_TICK_MS for each in _recent(view, client))
    return on_time and view.is_reporting(client) and view.time.is_within(client.reports[-1].emitted_ms, _MINUTE_MS)


def _overloaded(view: GroupView, slow: list[tuple[Member, float]], reporting: int, moves: int) -> Verdict:
    worst, hosts = max(ms for _, ms in slow), sorted({each.host for each, _ in slow})
    session = min((session_of(each) for each in view.members), default=0)
    since_ms = view.now_ms - view.thresholds.resolve_after_ms
    evicted = any(each.departure.likely == SESSION_EXPIRED and each.left_ms >= since_ms for each in view.past)
    return view.say(
        "coordinator_overload.slow",
        view.now_ms - _MINUTE_MS,
        # If the broker answers some clients quickly, the network of the others is likelier; a broker that loses the
        # group repeatedly is slow for all.
        confidence=PLAUSIBLE if moves or (len(hosts) > 1 and len(slow) == reporting) else HINT,
        severity=Severity.PAGE if evicted and 2 * worst > session else Severity.TICKET,
        slow=len(slow),
        reporting=reporting,
        worst=worst,
        hosts=", ".join(hosts),
        moves=moves or None,
    )


# --- Unable to store ---
@condition(inputs.STATES | inputs.COMMITS, grown=True)
def offsets_topic_unhealthy(view: GroupView) -> Iterator[Verdict]:
    """The group's offsets partition cannot store assignments (confluentinc/librdkafka#2722)."""
    aborted = _probes_of_aborted_syncs(view)
    recent = [] if aborted else view.recent(view.thresholds.resolve_after_ms)
    lost = [each for each in recent if each.type == GroupType.CLASSIC and _lost_rounds(each)]
    if not aborted and not lost:
        return
    since_ms = aborted[0].at_ms if aborted else lost[0].started_before_ms
    last_commit = view.progress.last_commit_ms if aborted else None
    stopped = last_commit is not None and last_commit < since_ms
    yield view.say(
        "offsets_topic_unhealthy.inferred",
        since_ms,
        confidence=PLAUSIBLE if stopped else HINT,
        # A hint does not page.
        severity=Severity.PAGE if stopped else Severity.TICKET,
        aborted=max((each.generations_aborted for each in lost), default=None),
        times=count_aborted_syncs(aborted) or None,
        stopped=stopped,
        silence=view.now_ms - last_commit if stopped and last_commit is not None else None,
    )


def find_store_failure(episode: Episode, moved: Verdict | None) -> Verdict | None:
    """Return why an assignment of a rebalance could not be stored, as its coordinator logged; null if it logged none.

    `moved` is the failover that the rebalance followed, or null. A broker that is no longer the coordinator has a
    successor, even if no other source shows it; if no error is logged, a failover is the likelier reason.
    """
    failure = episode.history.coordinator_log.store_failure(episode.rebalance)
    if failure is None:
        return None
    if failure.error in _NOT_LEADING or (failure.error is None and moved is not None):
        return moved or say("coordinator_failover.logged", failure.at_ms, error=failure.error)
    if failure.error in _TOO_LARGE:
        return say("offsets_topic_unhealthy.too_large", failure.at_ms, error=failure.error)
    sure = CERTAIN if failure.error is not None else STRONG
    return say("offsets_topic_unhealthy.logged", failure.at_ms, confidence=sure, error=failure.error)


def _lost_rounds(rebalance: Rebalance) -> bool:
    """Whether rounds got no record although at most one member came or went, which can interrupt only one round."""
    return rebalance.generations_aborted >= _ABORTED and rebalance.changes <= 1 and bool(rebalance.members_after)


def _probes_of_aborted_syncs(view: GroupView) -> list[Sighting]:
    """Return the latest probes if they saw the group return to its join phase repeatedly, without any record since."""
    run = [*unsettled(view.history)][::-1]
    fresh = bool(run) and view.time.is_within(run[-1].at_ms, SEEN_FOR_MS)
    return (
        run
        if fresh and count_aborted_syncs(run) >= _ABORTED_SYNCS and run[-1].at_ms - run[0].at_ms >= _ABORTING_MS
        else []
    )


# --- Disturbances of several groups at the same time ---


def cluster_wide(
    losses: Iterable[tuple[str, ExplainedDeparture]],
    coordinator_of: Callable[[str], int | None],
    thresholds: Thresholds,
    now_ms: int,
) -> Iterator[Verdict]:
    """Groups on several coordinators and hosts lost members together: a fault of the network or the cluster."""
    recent = [(name, past) for name, past in losses if past.left_ms >= now_ms - thresholds.resolve_after_ms]
    if len({name for name, _ in recent}) < thresholds.wide_groups:
        return
    recent.sort(key=lambda each: each[1].left_ms)
    times = [past.left_ms for _, past in recent]
    for i, (_, first) in enumerate(recent):
        end = bisect_right(times, first.left_ms + thresholds.wide_window_ms)
        if end - i < thresholds.wide_groups:
            continue
        near = recent[i:end]
        groups = sorted({name for name, _ in near})
        hosts = sorted({past.member.host for _, past in near})
        brokers = sorted({broker for name in groups if (broker := coordinator_of(name)) is not None})
        if len(groups) < thresholds.wide_groups or len(hosts) < _LEAST_HOSTS or len(brokers) < _LEAST_COORDINATORS:
            continue
        yield say(
            "cluster_wide_disturbance",
            first.left_ms,
            Subject(hosts=tuple(hosts)),
            rebalance_ids=tuple(past.rebalance_id for _, past in near),
            count=len(groups),
            groups=", ".join(groups[:10]),
            hosts=len(hosts),
            brokers=len(brokers),
            coordinators=", ".join(map(str, brokers)),
            limits=thresholds,
        )
        return

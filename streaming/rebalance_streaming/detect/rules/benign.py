"""Benign rebalances: intended by an operator, or caused by a change of topics, subscriptions or protocol.

Receives one rebalance at a time, with its arrivals and departures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rebalance_contract import Evidence, EvidenceSource, GroupType, Member, Rebalance, RebalanceReason, Severity
from rebalance_streaming.detect.episode import Arrival, Episode, runs_of_own
from rebalance_streaming.detect.group_view import DAY_MS
from rebalance_streaming.detect.verdict import MOST_MEMBERS, Verdict, subject_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.groups.partitions import places
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.coordinator_log import UNSUBSCRIBED
from rebalance_streaming.observed.departures import CLEAN, COMMIT_GAP_MS, UNKNOWN, Departure, slot_of
from rebalance_streaming.observed.evidence import seconds
from rebalance_streaming.observed.liveness import GONE, RESTARTED

BenignRule = Callable[[Episode], Verdict | None]
#: Time until clients notice an added partition: metadata.max.age (5 min) and one heartbeat.
_METADATA_AGE_MS = 310_000
#: A rebalance without joins or leaves that follows another within this time belongs to it.
_AFTERMATH_MS = 30_000
#: Reasons of rebalances that leaders start by themselves after another rebalance.
_AFTERMATHS = (RebalanceReason.LEADER_REJOIN, RebalanceReason.STREAMS_INTERNAL, RebalanceReason.CONNECT_INTERNAL)


def protocol_migration(episode: Episode) -> Verdict | None:
    """The group changed its assignor, or between the classic protocol and KIP-848's."""
    rebalance, before = episode.rebalance, episode.history.before(episode.rebalance)
    if before is None or not episode.rebalance.members_before:
        return None
    kinds = {before.type, rebalance.type} <= {GroupType.CLASSIC, GroupType.CONSUMER} and before.type != rebalance.type
    assignors = rebalance.type == before.type and before.protocol and rebalance.protocol
    renamed = assignors and before.protocol != rebalance.protocol
    if not kinds and not renamed:
        return None
    was, now = (before.type, rebalance.type) if kinds else (before.protocol, rebalance.protocol)
    return say("protocol_migration", rebalance.started_before_ms, was=was, now=now)


def initial_formation(episode: Episode) -> Verdict | None:
    """The first members of an empty group; the broker waits for more (group.initial.rebalance.delay.ms, KIP-134)."""
    rebalance = episode.rebalance
    if rebalance.reason != RebalanceReason.FIRST_JOIN and (rebalance.members_before or rebalance.is_at_least):
        return None
    return _formed(rebalance)


def formed_anew(episode: Episode) -> Verdict | None:
    """The group became empty during a rebalance: all members left in order, and others came."""
    rebalance = episode.rebalance
    left_in_order = all(each.likely == CLEAN for each in episode.departures)
    began_anew = any(each.reason == RebalanceReason.FIRST_JOIN for each in rebalance.rounds)
    return _formed(rebalance) if rebalance.members_after and left_in_order and began_anew else None


def _formed(rebalance: Rebalance) -> Verdict:
    # A group may become empty before it was ever stable; then the members that passed through are counted.
    came = rebalance.members_after or rebalance.passing
    left = None if rebalance.members_after or not came else "all"
    subject = subject_of(*came[:MOST_MEMBERS])
    return say("initial_group_formation", rebalance.started_before_ms, subject, count=len(came), left=left)


def subscription_change(episode: Episode) -> Verdict | None:
    """A member subscribed to other topics."""
    changed = _changed_topics(episode)
    if episode.rebalance.reason != RebalanceReason.SUBSCRIPTION_CHANGE:
        return None
    if not changed:
        return _changed_between_epochs(episode)
    old, new = changed[0]
    gained, lost = set(new.topics) - set(old.topics), set(old.topics) - set(new.topics)
    if _grew_by_pattern(episode, gained, lost):
        return None
    what = ", ".join([*(f"+{topic}" for topic in sorted(gained)), *(f"-{topic}" for topic in sorted(lost))])
    return say(
        "subscription_change.topics",
        episode.rebalance.started_before_ms,
        subject_of(*(member for _, member in changed)),
        member=new,
        changes=what or "its pattern",
        topics=what or str(new.topic_regex),
    )


def unsubscribed(episode: Episode) -> Verdict | None:
    """Members unsubscribed from all topics, or subscribed again, without a restart of their processes."""
    gone = list(episode.departures) or [each.returned_from.departure for each in episode.arrivals if each.returned_from]
    if not gone or (not episode.departures and len(gone) < len(episode.arrivals)):
        return None
    if any(each.logged is None or each.logged.meaning != UNSUBSCRIBED for each in gone):
        return None
    return say(
        "subscription_change.unsubscribed",
        episode.rebalance.started_before_ms,
        subject_of(*(each.member for each in gone[:MOST_MEMBERS])),
        evidence=tuple(evidence for each in gone[:5] for evidence in each.evidence),
        member=gone[0].member,
        again=not episode.departures,
    )


def rack_change(episode: Episode) -> Verdict | None:
    """A member reports another rack than before, and nothing else changed (KIP-881)."""
    moved = [(old, new) for old, new in _stayed(episode.rebalance) if old.rack_id != new.rack_id]
    if episode.rebalance.reason != RebalanceReason.RACK_CHANGE or not moved:
        return None
    members, (old, new) = [each for _, each in moved], moved[0]
    return say(
        "rack_change",
        episode.rebalance.started_before_ms,
        subject_of(*members),
        members=members,
        was=old.rack_id or "none",
        now=new.rack_id or "none",
    )


def _changed_between_epochs(episode: Episode) -> Verdict | None:
    """A KIP-848 member changed its subscription before the group's epoch rose, so the previous generation has it."""
    rebalance = episode.rebalance
    if rebalance.type == GroupType.CLASSIC:
        return None
    members = [each for each in rebalance.members_after if each.member_id == rebalance.first_offender]
    if not members:
        return None  # not caused by a member: its pattern matched other topics
    return say(
        "subscription_change.between_epochs",
        rebalance.started_before_ms,
        subject_of(*members),
        member=members[0],
        topics=", ".join(members[0].topics) or "its pattern",
    )


def _stayed(rebalance: Rebalance) -> list[tuple[Member, Member]]:
    """Return (before, after) of the members that were in the group before a rebalance and after it."""
    before = {each.member_id: each for each in rebalance.members_before}
    return [(before[each.member_id], each) for each in rebalance.members_after if each.member_id in before]


def _changed_topics(episode: Episode) -> list[tuple[Member, Member]]:
    """Return (before, after) of the members that stayed and changed their subscriptions."""
    return [
        (old, new)
        for old, new in _stayed(episode.rebalance)
        if (old.topics, old.topic_regex) != (new.topics, new.topic_regex)
    ]


def _grew_by_pattern(episode: Episode, gained: set[str], lost: set[str]) -> bool:
    """Whether all members gained or lost the same topics: then the topics that match a pattern changed."""
    changed = _changed_topics(episode)
    everybody = len(changed) == len(episode.rebalance.members_after) > 1
    same = all((set(n.topics) - set(o.topics), set(o.topics) - set(n.topics)) == (gained, lost) for o, n in changed)
    return everybody and same and not (gained and lost)


def topic_metadata_change(episode: Episode) -> Verdict | None:
    """Partitions were added, or topics matching a pattern came or went."""
    rebalance, began_ms = episode.rebalance, episode.rebalance.started_before_ms
    subscribed = {topic for member in rebalance.members_after for topic in member.topics}
    until_now = [each for each in episode.history.topic_changes if each[0] <= began_ms + 10_000]
    changes = [each for each in until_now if each[1] in subscribed or not subscribed]
    seen = [each for each in changes if each[0] >= began_ms - _METADATA_AGE_MS]
    unchanged = not episode.departures and not episode.arrivals
    own = rebalance.type != GroupType.CLASSIC and rebalance.first_offender is not None
    grown = rebalance.reason == RebalanceReason.SUBSCRIPTION_CHANGE and not own
    by_log = grown or rebalance.reason == RebalanceReason.TOPIC_METADATA_CHANGE
    if not by_log and not (seen and unchanged and rebalance.reason == RebalanceReason.LEADER_REJOIN):
        return None
    today = sum(at_ms >= began_ms - DAY_MS for at_ms, *_ in changes)
    texts = ", ".join(f"{t} has {b} partitions instead of {a}" for _, t, a, b in seen)
    return say(
        "topic_metadata_change",
        began_ms,
        confidence=CERTAIN if seen else STRONG,
        severity=Severity.TICKET if today > episode.thresholds.topic_changes_per_day else None,
        evidence=tuple(
            Evidence(EvidenceSource.PROBES, "partitions", f"{t}: {a} -> {b}", "changed shortly before")
            for _, t, a, b in seen
        ),
        changes=texts,
    )


def scale_out(episode: Episode) -> Verdict | None:
    """New members joined."""
    rebalance = episode.rebalance
    newcomers = [each.member for each in episode.arrivals if each.returned_from is None]
    if not newcomers or episode.departures or (rebalance.is_at_least and not _is_seen_whole(episode)):
        return None
    stayed = episode.time.lasted(rebalance.completed_at_ms or episode.now_ms, episode.thresholds.stay_ms)
    return say(
        "scale_out.arrivals",
        rebalance.started_before_ms,
        subject_of(*newcomers[:MOST_MEMBERS]),
        confidence=HINT if _stood_still(episode) else STRONG if stayed else PLAUSIBLE,
        before=rebalance.size_before,
        after=rebalance.size_after,
    )


def resized_restart(episode: Episode) -> Verdict | None:
    """A group that was stopped in order came back soon, with more members than before, or with fewer."""
    rebalance = episode.rebalance
    back = _back_from_stop(episode)
    was, since_ms = _before_stop(episode)
    if not back or not was or rebalance.is_at_least or _lost_any(episode, since_ms):
        return None
    now, formed_ms = rebalance.size_after, rebalance.completed_at_ms or episode.now_ms
    stayed = episode.time.lasted(formed_ms, episode.thresholds.stay_ms)
    if now > was:
        newcomers = [each.member for each in episode.arrivals if each.member.member_id not in back]
        subject, sure = subject_of(*newcomers[:MOST_MEMBERS]), STRONG if stayed else PLAUSIBLE
        return say("scale_out.restarted", rebalance.started_before_ms, subject, confidence=sure, before=was, after=now)
    # Members that come later than that are a separate scale-out, regardless of the time of judgement.
    until_ms = formed_ms + episode.thresholds.stay_ms
    late = (each.size_after for each in episode.history.after(rebalance) if each.started_before_ms <= until_ms)
    now = max(now, *late, 0)
    if stayed and now < was:
        return say("scale_in.restarted", rebalance.started_before_ms, before=was, after=now)
    return None


def _back_from_stop(episode: Episode) -> frozenset[str]:
    """Return the new ids of the members that are back in a group that all had left in order, now or before."""
    first, *more = episode.rebalance.rounds or (None,)
    if more and first is not None and first.reason == RebalanceReason.GROUP_EMPTIED:
        if not all(each.stopped_in_order for each in episode.departures):
            return frozenset()
        return frozenset(each.back_as.member_id for each in episode.departures if each.back_as is not None)
    if episode.rebalance.reason != RebalanceReason.FIRST_JOIN:
        return frozenset()
    return frozenset(each.member.member_id for each in episode.arrivals if _stopped(each) is not None)


def _stopped(arrival: Arrival) -> Departure | None:
    """Return the departure in order from which a member comes back with another process; null if there is none."""
    past = arrival.returned_from
    return past.departure if past is not None and past.departure.stopped_in_order else None


def _before_stop(episode: Episode) -> tuple[int, int]:
    """Return the number of members before the latest run of shrinking rebalances, and when that run began (epoch ms).

    A pause longer than `stay_ms` interrupts the run: a group that was empty for longer is started, not restarted.
    """
    rebalance = episode.rebalance
    size, since_ms = rebalance.size_before, rebalance.started_before_ms
    for each in reversed(episode.history.until(rebalance)):
        is_long_ago = since_ms - each.last_known_ms > episode.thresholds.stay_ms
        if is_long_ago or each.size_after >= each.size_before:
            break
        size, since_ms = each.size_before, each.started_before_ms
    return size, since_ms


def _lost_any(episode: Episode, since_ms: int) -> bool:
    """Whether a member is known to have left otherwise than in order since `since_ms`."""
    went = (*(each for each in episode.earlier if each.to_ms >= since_ms), *episode.departures)
    return any(each.likely not in (CLEAN, UNKNOWN) for each in went)


def _stood_still(episode: Episode) -> bool:
    """Whether some member committed none of its partitions for the length of a long barrier plus its commit interval.

    Newcomers alone do not delay others for so long. Without probes, these gaps are the only trace of a barrier: all
    members show it except the one that the others wait for.
    """
    history, rebalance, began_ms = episode.history, episode.rebalance, episode.rebalance.started_before_ms
    gaps = {
        (each.topic, each.partition): each.resumed_at_ms - each.last_commit_ms
        for each in history.commit_gaps_of(rebalance)
        if each.resumed_at_ms is not None and each.last_commit_ms is not None
    }
    return any(
        min((gaps.get(each, 0) for each in places(member.partitions)), default=0)
        >= episode.long_barrier_ms
        + (history.progress.rhythm(member.partitions or {}, began_ms).gap_ms or COMMIT_GAP_MS)
        for member in rebalance.members_before
    )


def _is_seen_whole(episode: Episode) -> bool:
    """Whether probes saw a join completely: no member passed through, and there was no long wait."""
    rebalance = episode.rebalance
    short = episode.duration_ms < episode.long_barrier_ms
    return rebalance.reason == RebalanceReason.JOIN and not rebalance.passing and short


def replaced(episode: Episode) -> Verdict | None:
    """Members left in order and at least as many others came, perhaps on other hosts: part of a deploy, or a move."""
    left, came = episode.departures, episode.arrivals
    if not left or any(each.likely != CLEAN or each.back_as is not None for each in left):
        return None
    if episode.rebalance.size_after < episode.rebalance.size_before or not came:
        return None
    return say(
        "rolling_deploy.replaced",
        episode.rebalance.started_before_ms,
        subject_of(*(each.member for each in left[:MOST_MEMBERS])),
        confidence=min(PLAUSIBLE, _surely_in_order(left)),
        left=len(left),
        came=len(came),
    )


def scale_in(episode: Episode) -> Verdict | None:
    """Members left in order and did not come back."""
    rebalance, left = episode.rebalance, [each for each in episode.departures if each.likely == CLEAN]
    if not left or len(left) < len(episode.departures) or any(each.back_as is not None for each in left):
        return None
    if rebalance.size_after >= rebalance.size_before:
        return None
    waited = episode.time.lasted(left[-1].to_ms, episode.thresholds.stay_ms)
    evidence = tuple(evidence for each in left[:5] for evidence in each.evidence)
    return say(
        "scale_in.departures",
        rebalance.started_before_ms,
        subject_of(*(each.member for each in left[:MOST_MEMBERS])),
        confidence=min(STRONG if waited else PLAUSIBLE, _surely_in_order(left)),
        evidence=evidence,
        has_evidence=bool(evidence),
        before=rebalance.size_before,
        after=rebalance.size_after,
    )


def _surely_in_order(left: Sequence[Departure]) -> float:
    """Return the lowest confidence that members left in order, as an upper bound for verdicts based on that."""
    return min((each.confidence for each in left), default=CERTAIN)


def restart(episode: Episode) -> Verdict | None:
    """An instance left in order and came back: part of a deploy, possibly its only instance."""
    gone = [each for each in episode.departures if each.stopped_in_order]
    left = [each for each in gone if each.back_as is not None]
    back = [(each.member, of) for each in episode.arrivals if (of := _stopped(each)) is not None]
    members = [*(each.member for each in left), *(member for member, _ in back)]
    # Members that left in order and are not back were not meant to be; any other departure is no restart.
    if not members or len(gone) < len(episode.departures):
        return None
    away = [each.away_ms for each in left if each.away_ms is not None]
    text = f"back after {seconds(max(0, *away))}" if away else "came back under a new id"
    returned = (*left, *(of for _, of in back))
    restarted = PLAUSIBLE if _are_new_processes(episode, returned) else HINT
    return say(
        "rolling_deploy.restart",
        episode.rebalance.started_before_ms,
        subject_of(*members),
        confidence=min(restarted, _surely_in_order(returned)),
        member=members[0],
        back=text,
    )


def _are_new_processes(episode: Episode, returned: Sequence[Departure]) -> bool:
    """Whether members that left in order and came back are surely new processes.

    A client may also leave and join again within one process: it unsubscribes, or has not polled for too long and
    leaves by itself (aiokafka#848). In the log both look the same. If several instances leave in order, in turn or
    together, they were stopped; for a single one, its reports or the coordinator's log line are decisive.
    """
    since_ms = episode.rebalance.started_before_ms - episode.thresholds.deploy_per_member_ms
    recent = (each for each in episode.earlier if each.to_ms >= since_ms)
    in_order = (each for each in (*recent, *episode.departures) if each.stopped_in_order)
    slots = {slot_of(each.member) for each in (*returned, *in_order)}
    known = any(each.liveness in (GONE, RESTARTED) or each.logged is not None for each in returned)
    is_only_one = max(episode.rebalance.size_before, episode.rebalance.size_after) <= 1
    return known or len(slots) > 1 or is_only_one


def aftermath(episode: Episode) -> Verdict | None:
    """A generation without joins or leaves that a cooperative assignor, or an eager leader, adds to the one before."""
    before = episode.history.before(episode.rebalance)
    if before is None or before.completed_at_ms is None or episode.departures or episode.arrivals:
        return None
    due = episode.rebalance.reason == RebalanceReason.COOPERATIVE_FOLLOWUP
    soon = episode.rebalance.started_before_ms - before.completed_at_ms <= _AFTERMATH_MS
    if not due and not (soon and episode.rebalance.reason in _AFTERMATHS):
        return None
    return say("follows", episode.rebalance.started_before_ms, confidence=STRONG if due else PLAUSIBLE)


#: Not a diagnosis: a placeholder for the cause of the rebalance before.
FOLLOWS = "follows"


def called_within(episode: Episode) -> Iterator[tuple[int, Verdict]]:
    """Yield (duration in ms, verdict) for the later generations of a rebalance that have a cause of their own.

    A partition that is added seconds after a group formed causes generations of the same rebalance, for example.
    """
    for part in runs_of_own(episode.rebalance):
        looked = replace(episode, rebalance=part, departures=(), arrivals=())
        of_topics = topic_metadata_change(looked)
        # Changed subscriptions show in the whole rebalance, which has the members before and after.
        whole = replace(episode, rebalance=replace(episode.rebalance, reason=part.reason))
        subscribed = part.reason == RebalanceReason.SUBSCRIPTION_CHANGE and bool(_changed_topics(whole))
        verdict = subscription_change(whole) if subscribed else None
        sure = part.reason == RebalanceReason.TOPIC_METADATA_CHANGE or (of_topics and of_topics.confidence == CERTAIN)
        found = verdict or (of_topics if sure else None)
        if found is not None:
            yield looked.duration_ms, found


def return_after_loss(episode: Episode) -> Verdict | None:
    """A member came back that was lost, or whose process ran on: this rebalance has the cause of its departure, too."""
    back = [(each.member, each.returned_from) for each in episode.arrivals if each.returned_from is not None]
    lost = [(member, past) for member, past in back if not past.departure.stopped_in_order]
    if not lost or (len(lost) < len(episode.arrivals) and len(back) < len(episode.arrivals)):
        return None
    member, past = lost[0]
    verdict = say(
        "returned",
        past.left_ms,
        subject_of(*(each for each, _ in lost)),
        confidence=min(PLAUSIBLE, past.confidence),
        member=member,
        away=max(0, episode.rebalance.started_before_ms - past.left_ms),
    )
    return replace(verdict, rule=past.rule, is_consequence=True)


def unexplained(episode: Episode) -> Verdict:
    """Return the verdict for a rebalance without a known cause; it names the sources that would show one."""
    rebalance = episode.rebalance
    return say(
        "undetermined.trigger",
        rebalance.started_before_ms,
        reason=rebalance.reason,
        unchanged=rebalance.reason
        in (RebalanceReason.LEADER_REJOIN, RebalanceReason.RACK_CHANGE, RebalanceReason.OTHER),
        unread=rebalance.is_at_least,
        reported=episode.has_reports,
        probed=episode.is_probed,
    )


def not_understood(rebalance: Rebalance) -> Verdict:
    """Return the verdict for a rebalance that cannot be judged, because its data is inconsistent."""
    ids = (rebalance.rebalance_id,)
    return say("undetermined.inconsistent", rebalance.started_before_ms, rebalance_ids=ids, reason=rebalance.reason)


BENIGN_RULES: tuple[BenignRule, ...] = (
    protocol_migration,
    subscription_change,
    unsubscribed,
    rack_change,
    topic_metadata_change,
    aftermath,
    return_after_loss,
    resized_restart,
    initial_formation,
    restart,
    formed_anew,
    replaced,
    scale_in,
    scale_out,
)

"""A cluster as the exporter reports it, made of the contract's objects, for tests of the terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rebalance_contract import (
    Advice,
    Alternative,
    CommitGap,
    Counters,
    Evidence,
    Finding,
    FindingState,
    Generation,
    GroupSnapshot,
    Member,
    Moves,
    RebalanceImpact,
    Subject,
    SubjectMember,
)
from rebalance_contract.api import FindingMark, Overview, OverviewRow, OverviewWindow, RebalanceRow
from rebalance_contract.api_reports import (
    AdviceAnswer,
    Avoided,
    EstimateRange,
    GroupEstimate,
    GroupName,
    PeriodCause,
    PeriodGroup,
    PeriodPart,
    PeriodReport,
    PeriodSetting,
    PeriodSums,
    PeriodWorth,
    SettingEstimate,
)

#: 2026-09-21 13:33:20 UTC.
NOW_MS = 1_790_000_000_000
MINUTE_MS = 60_000

#: A hostile client name: repaints the terminal, fakes a line, reverses the reading direction, is HTML.
HOSTILE = "\x1b[2J\x1b]0;owned\x07\nall is well\u202e\x9b31m\u2028<script>|x`"


def member(name: str, host: str, partitions: dict[str, list[int]] | None, life: int = 1, **changes: Any) -> Member:
    """A member; each `life` has a member id of its own."""
    return Member(f"{name}-{life:08x}", name, host, session_timeout_ms=10_000, partitions=partitions, **changes)


SIX = member("consumer-enricher-6", "10.4.2.18", {"orders": [0, 1, 2, 3]})
SEVEN = member("consumer-enricher-7", "10.4.2.19", {"orders": [4, 5, 6, 7]})
EIGHT = member("consumer-enricher-8", "10.4.2.20", {"orders": [8, 9], "refunds": [0, 1]})

COST = RebalanceImpact(
    "prod",
    "payments-enricher",
    "12-4711",
    silences=(
        CommitGap("orders", 4, NOW_MS - 4 * MINUTE_MS, NOW_MS - 3 * MINUTE_MS + 9_000),
        CommitGap("orders", 5, NOW_MS - 4 * MINUTE_MS, NOW_MS - 3 * MINUTE_MS + 9_000),
    ),
    lost_partition_ms=42_000,
    lag_before=120,
    lag_peak=1_900_000,
)

LOSS = RebalanceRow(
    cluster="prod",
    group="payments-enricher",
    rebalance_id="12-4711",
    type="classic",
    reason="departure",
    outcome="completed",
    generation_from=825,
    generation_to=827,
    generations=(
        Generation(
            826,
            "departure",
            join_ended_at_ms=NOW_MS - 3 * MINUTE_MS,
            assigned_at_ms=NOW_MS - 3 * MINUTE_MS + 40,
            left=(SEVEN.member_id,),
        ),
        Generation(
            827,
            "leader_rejoin",
            join_ended_at_ms=NOW_MS - 3 * MINUTE_MS + 2_900,
            assigned_at_ms=NOW_MS - 3 * MINUTE_MS + 3_000,
        ),
    ),
    generations_aborted=0,
    started_after_ms=NOW_MS - 3 * MINUTE_MS - 14_500,
    started_before_ms=NOW_MS - 3 * MINUTE_MS - 12_000,
    join_ended_at_ms=NOW_MS - 3 * MINUTE_MS,
    completed_at_ms=NOW_MS - 3 * MINUTE_MS + 3_000,
    sync_ms=40,
    duration_min_ms=15_000,
    duration_max_ms=17_500,
    protocol="range",
    leader=SIX.member_id,
    members_before=(SIX, SEVEN, EIGHT),
    members_after=(
        replace(SIX, partitions={"orders": [0, 1, 2, 3, 4, 6]}),
        replace(EIGHT, partitions={"orders": [5, 7, 8, 9], "refunds": [0, 1]}),
    ),
    joined=(),
    left=(SEVEN.member_id,),
    first_offender=SEVEN.member_id,
    moves=Moves(moved={"orders": [4, 5, 6, 7]}, kept=8),
    impact=COST,
)

FORMED = RebalanceRow(
    cluster="prod",
    group="payments-enricher",
    rebalance_id="12-17",
    type="classic",
    reason="first_join",
    outcome="completed",
    generation_from=None,
    generation_to=1,
    generations=(Generation(1, "first_join", assigned_at_ms=NOW_MS - 20 * MINUTE_MS),),
    generations_aborted=0,
    started_after_ms=NOW_MS - 20 * MINUTE_MS - 3_000,
    started_before_ms=NOW_MS - 20 * MINUTE_MS - 3_000,
    join_ended_at_ms=NOW_MS - 20 * MINUTE_MS - 10,
    completed_at_ms=NOW_MS - 20 * MINUTE_MS,
    sync_ms=10,
    duration_min_ms=3_000,
    duration_max_ms=3_000,
    protocol="range",
    leader=SIX.member_id,
    members_before=(),
    members_after=(SIX, SEVEN, EIGHT),
    joined=(SIX.member_id, SEVEN.member_id, EIGHT.member_id),
    left=(),
    moves=Moves(gained=12),
    impact=RebalanceImpact("prod", "payments-enricher", "12-17"),
)

STARVED = Finding(
    finding_id="f-1",
    cluster="prod",
    group="payments-enricher",
    rule="heartbeat_starvation",
    severity="ticket",
    state="firing",
    primary=True,
    confidence=0.97,
    subject=Subject(members=(SubjectMember(SEVEN.member_id, SEVEN.client_id, SEVEN.host),)),
    started_at_ms=NOW_MS - 18 * MINUTE_MS,
    detected_at_ms=NOW_MS - 2 * MINUTE_MS,
    updated_at_ms=NOW_MS - 2 * MINUTE_MS,
    resolved_at_ms=None,
    summary="consumer-enricher-7 (10.4.2.19) was alive but sent no heartbeat for its session of 10.0 s.",
    variant="idle_lock",
    rebalances=12,
    rebalance_ids=("12-4650", "12-4711"),
    evidence=(
        Evidence("client_metrics", "starved", "last heartbeat 37.0 s before, session 10.0 s", "the process ran"),
        Evidence("log", "session_timeout", "lost 10.2 s after its last commit", "never a heartbeat"),
    ),
    alternatives=(Alternative("poll_overrun", "its silence matches the session, not max.poll.interval"),),
    missing=("zookeeper: not asked",),
    advice=(
        Advice("upgrade", "kafka-python 1.4.6", "kafka-python 3.0.3 or later", "-"),
        Advice("metadata_max_age_ms", "300000", "3000", "heartbeat.interval.ms"),
    ),
)

TWICE = replace(
    STARVED,
    finding_id="f-2",
    rule="duplicate_processing",
    variant=None,
    primary=False,
    confidence=0.75,
    summary="At least 20 records were processed twice.",
    evidence=(),
    alternatives=(),
    missing=(),
    advice=(Advice("code", None, "commit when partitions are revoked", "-"),),
)

FORMATION = replace(
    STARVED,
    finding_id="f-3",
    rule="initial_group_formation",
    variant=None,
    severity="info",
    state="resolved",
    summary="The group formed with 3 members.",
    rebalances=1,
    rebalance_ids=("12-17",),
    evidence=(Evidence("log", "members", "0 -> 3", "no members before"),),
    alternatives=(),
    missing=(),
    advice=(),
)

BROKER = replace(
    STARVED,
    finding_id="f-4",
    group="",
    rule="coordinator_failover",
    variant=None,
    severity="page",
    summary="9 groups of broker 3 rebalanced within 4.0 s.",
    rebalances=0,
    rebalance_ids=(),
)

ENRICHER = GroupSnapshot(
    cluster="prod",
    group="payments-enricher",
    type="classic",
    state="Stable",
    protocol_type="consumer",
    protocol="range",
    generation=827,
    leader=SIX.member_id,
    members=LOSS.members_after,
    counters=Counters(rebalances=Counters().rebalances | {"departure": 13, "first_join": 1}),
    first_seen_ms=NOW_MS - 60 * MINUTE_MS,
    last_rebalance_ms=LOSS.completed_at_ms,
    last_rebalance_id=LOSS.rebalance_id,
    coordinator=3,
)


def _mark(finding_id: str, rule: str, severity: str, summary: str, confidence: float, *, primary: bool = False):
    return FindingMark(finding_id, rule, severity, summary, confidence, FindingState.FIRING, NOW_MS, primary)


BARE_ROW = OverviewRow(
    cluster="prod",
    group="new",
    state=None,
    state_since_ms=None,
    type=None,
    protocol=None,
    generation=None,
    members=None,
    idle_members=None,
    assigned_partitions=None,
    coordinator=None,
    owner=None,
    windows={},
    rebalances_total=0,
    lost_partition_seconds_total=0.0,
    last_rebalance_ms=None,
    lag=None,
    time_lag_ms=None,
    commit_age_ms=None,
    lag_slope=None,
    heartbeat_headroom_ratio=None,
    poll_gap_max_seconds=None,
    findings=(),
)

ENRICHER_ROW = replace(
    BARE_ROW,
    group="payments-enricher",
    state="Stable",
    state_since_ms=NOW_MS - 3 * MINUTE_MS,
    type="classic",
    protocol="range",
    generation=827,
    members=2,
    idle_members=0,
    assigned_partitions=12,
    coordinator=3,
    owner="team-payments",
    windows={
        "1m": OverviewWindow(0, 0, 0.0, 0.0),
        "5m": OverviewWindow(5, 9, 0.4, 310.0),
        "15m": OverviewWindow(14, 27, 0.38, 2_052.0),
    },
    rebalances_total=14,
    lost_partition_seconds_total=2_100.0,
    last_rebalance_ms=LOSS.completed_at_ms,
    lag=1_900_000,
    findings=(
        _mark("f-1", STARVED.rule, "ticket", STARVED.summary, 0.97, primary=True),
        _mark("f-2", TWICE.rule, "ticket", TWICE.summary, 0.75),
    ),
)

CALM_ROW = replace(
    BARE_ROW,
    group="billing",
    state="Stable",
    state_since_ms=NOW_MS - 600 * MINUTE_MS,
    type="consumer",
    protocol="uniform",
    generation=12,
    members=3,
    assigned_partitions=30,
    coordinator=3,
    windows={name: OverviewWindow(0, 0, 0.0, 0.0) for name in ("1m", "5m", "15m")},
    rebalances_total=2,
    lag=0,
)

STUCK_ROW = replace(
    BARE_ROW,
    group="ledger",
    state="PreparingRebalance",
    state_since_ms=NOW_MS - 41_000,
    type="classic",
    generation=7,
    members=2,
    assigned_partitions=6,
    coordinator=1,
    windows={"15m": OverviewWindow(1, 1, 0.05, 0.0)},
    findings=(_mark("f-9", "stalled_member_join_barrier", "page", "c1 does not poll.", 0.9, primary=True),),
)

OVERVIEW = Overview(
    at_ms=NOW_MS,
    ready=True,
    ready_text="ready",
    data_age_ms=2_000,
    version="0.1",
    groups=(BARE_ROW, CALM_ROW, ENRICHER_ROW, STUCK_ROW),
)

STALE = replace(OVERVIEW, ready=False, ready_text="no batch for 75 s: is `rebalance-monitor stream` running?")


WEEK_MS = 7 * 24 * 60 * MINUTE_MS

STARVED_COST = PeriodCause("heartbeat_starvation", 1, PeriodSums(12, 180_000, 3_000_000), PeriodSums(1, 9_000, 40_000))
OVERRUN_COST = PeriodCause("poll_overrun", 2, PeriodSums(4, 60_000, 600_000, 1), PeriodSums(6, 90_000, 900_000))

#: The rebalances of payments-enricher that settings would have avoided: one setting for certain, others perhaps.
SESSION_WORTH = Avoided(EstimateRange(8, 10), EstimateRange(120_000, 150_000), EstimateRange(1_200_000, 2_600_000))
RECORDS_WORTH = Avoided(EstimateRange(1, 1), EstimateRange(10_000, 10_000), EstimateRange(0, 200_000))
PROTOCOL_WORTH = Avoided(EstimateRange(), EstimateRange(0, 20_000), EstimateRange())
ADVISED = AdviceAnswer(
    at_ms=NOW_MS,
    ready=True,
    ready_text="ready",
    cluster="prod",
    group="payments-enricher",
    since_ms=NOW_MS - 24 * 60 * MINUTE_MS,
    kept_since_ms=NOW_MS - 3 * WEEK_MS,
    dropped_until_ms=None,
    sums=PeriodSums(14, 200_000, 3_200_000, 1),
    estimates=(
        SettingEstimate(
            "session.timeout.ms",
            "10000",
            "30000",
            30_000,
            SESSION_WORTH,
            "a member that dies is noticed after 30 s instead of 10 s, and its partitions wait as long",
            "members whose session ran out and that came back as the same process",
            ("12-4711", "12-17"),
        ),
        SettingEstimate(
            "max.poll.records",
            None,
            "25 % of what it is",
            25,
            RECORDS_WORTH,
            "more polls for as many records",
            "batches that took longer than max.poll.interval.ms",
            ("12-17",),
        ),
        SettingEstimate(
            "group.protocol",
            "classic",
            "consumer (KIP-848)",
            None,
            PROTOCOL_WORTH,
            "needs brokers of 4.0 or newer",
            "the time that a group waited for a member",
            (),
        ),
    ),
    useless=("max.poll.interval.ms", "heartbeat.interval.ms"),
)

#: The report on the week before NOW_MS, with a comparison to the week before that.
WEEKLY = PeriodReport(
    at_ms=NOW_MS,
    version="0.1",
    ready=True,
    ready_text="ready",
    since_ms=NOW_MS - WEEK_MS,
    until_ms=NOW_MS,
    cluster=None,
    kept_since_ms=NOW_MS - 3 * WEEK_MS,
    dropped_until_ms=None,
    known_groups=340,
    rebalanced_groups=3,
    sums=PeriodSums(18, 245_000, 4_000_000, 1),
    before=PeriodSums(9, 110_000, 6_400_000),
    groups=(
        PeriodGroup(
            "prod",
            "payments-enricher",
            "team-payments",
            PeriodSums(14, 200_000, 3_200_000),
            PeriodSums(1, 9_000, 40_000),
            (
                replace(STARVED_COST, before=None),
                PeriodCause("poll_overrun", 1, PeriodSums(1, 10_000, 200_000), None),
                PeriodCause("initial_group_formation", 1, PeriodSums(1, 3_000, 0), None),
            ),
            41_000,
            "12-4711",
        ),
        PeriodGroup(
            "prod",
            "billing",
            None,
            PeriodSums(3, 45_000, 800_000),
            PeriodSums(),
            (PeriodCause("poll_overrun", 1, PeriodSums(3, 45_000, 400_000), None),),
            21_000,
            "4-7",
        ),
        PeriodGroup("prod", "new", None, PeriodSums(1, 0, 0, 1), PeriodSums(), (), None, None),
    ),
    changed=(
        PeriodGroup("prod", "ledger", None, PeriodSums(), PeriodSums(8, 101_000, 6_360_000), (), None, None),
        PeriodGroup(
            "prod",
            "payments-enricher",
            "team-payments",
            PeriodSums(14, 200_000, 3_200_000),
            PeriodSums(1, 9_000, 40_000),
            (),
            41_000,
            "12-4711",
        ),
        PeriodGroup("prod", "new", None, PeriodSums(1, 0, 0, 1), PeriodSums(), (), None, None),
    ),
    causes=(STARVED_COST, OVERRUN_COST),
    unexplained=PeriodSums(2, 5_000, 400_000),
    settings=(
        PeriodSetting(
            "metadata_max_age_ms",
            "300000",
            "3000",
            ("heartbeat_starvation",),
            (GroupName("prod", "payments-enricher"),),
            1,
            PeriodSums(12, 180_000, 3_000_000),
        ),
        PeriodSetting(
            "max.poll.records",
            None,
            "at most 124",
            ("poll_overrun",),
            tuple(GroupName("prod", each) for each in ("billing", "payments-enricher", "a", "b")),
            12,
            PeriodSums(4, 60_000, 600_000),
        ),
    ),
    parts=tuple(
        PeriodPart(NOW_MS - WEEK_MS + part * WEEK_MS // 28, PeriodSums(part % 3, 9_000, 100_000 * (part % 7)))
        for part in range(28)
    ),
    worth=(
        PeriodWorth(
            "session.timeout.ms",
            SESSION_WORTH,
            (GroupEstimate("prod", "payments-enricher", "10000", "30000", SESSION_WORTH, "later"),),
            1,
        ),
        PeriodWorth(
            "max.poll.records",
            Avoided(EstimateRange(3, 4), EstimateRange(40_000, 55_000), EstimateRange(0, 600_000)),
            tuple(
                GroupEstimate("prod", group, None, f"{share} % of what it is", RECORDS_WORTH, "more polls")
                for group, share in (("billing", 33), ("payments-enricher", 25), ("a", 50), ("b", 50), ("c", 10))
            ),
            12,
        ),
    ),
)

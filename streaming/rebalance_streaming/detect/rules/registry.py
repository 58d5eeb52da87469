"""The table of rules that look at a group: in the order they are asked, with the inputs that each looks at."""

from __future__ import annotations

from rebalance_streaming.detect.group_view import Condition, MemoryUpdate
from rebalance_streaming.detect.rules import (
    announced,
    assignors,
    configuration,
    coordinator,
    duplicates,
    failover,
    kip848,
    leader,
    loops,
    membership,
    offsets,
    patterns,
    polling,
    progress,
    scheduled,
    static_members,
    unread,
    zookeeper,
)
from rebalance_streaming.observed import inputs

#: Where partitions stand, and with it what clients say of themselves.
_PROGRESS = inputs.COMMITS | inputs.ENDS
_REPORTED = _PROGRESS | inputs.CLIENTS

#: What is to be remembered before rules are asked.
MEMORY_UPDATES: tuple[MemoryUpdate, ...] = (
    MemoryUpdate(progress.update_waiting, _PROGRESS),
    MemoryUpdate(offsets.update_jumps, _PROGRESS),
    MemoryUpdate(duplicates.update_duplicates, _REPORTED),
)
#: What several rebalances have in common, and what stands, rebalance or not.
CONDITIONS: tuple[Condition, ...] = (
    Condition(announced.announced_deploy),
    Condition(patterns.crash_loop),
    Condition(patterns.short_lived_consumers),
    Condition(patterns.rolling_deploy),
    Condition(patterns.member_flapping),
    Condition(loops.no_progress_loop, _REPORTED),
    Condition(loops.poison_record, _PROGRESS),
    Condition(leader.leader_rejoin_loop),
    Condition(leader.assignor_slow_or_failing, inputs.CLIENTS, grown=True),
    Condition(leader.cooperative_livelock, _REPORTED),
    Condition(coordinator.coordinator_stuck_rebalance, inputs.STATES),
    Condition(coordinator.coordinator_overload, inputs.CLIENTS | inputs.STATES, grown=True),
    Condition(coordinator.offsets_topic_unhealthy, inputs.STATES | inputs.COMMITS, grown=True),
    Condition(failover.coordinator_failover, inputs.STATES),
    Condition(kip848.reconciliation_stuck, _REPORTED),
    Condition(kip848.assigning_stuck, inputs.STATES),
    Condition(kip848.epoch_churn, grown=True),
    Condition(scheduled.streams_probing_rebalance),
    Condition(scheduled.connect_scheduled_rebalance),
    Condition(configuration.session_heartbeat_ratio, inputs.CLIENTS, grown=True),
    Condition(configuration.session_timeout_too_short, inputs.CLIENTS, grown=True),
    Condition(configuration.rebalance_timeout_excessive, inputs.CLIENTS, grown=True),
    Condition(configuration.initial_delay_too_short, grown=True),
    Condition(configuration.join_rejected, _REPORTED | inputs.STATES),
    Condition(polling.poll_overrun_risk, _REPORTED, grown=True),
    # Which libraries there are changes its advice only, and not from report to report.
    Condition(assignors.eager_assignor, grown=True),
    Condition(assignors.assignor_migration_error, grown=True),
    Condition(assignors.idle_members, grown=True),
    Condition(assignors.assignment_imbalance, grown=True),
    Condition(assignors.shared_group_id, grown=True),
    Condition(assignors.shared_connect_group, grown=True),
    Condition(membership.static_membership_missing, grown=True),
    Condition(membership.autoscaler_flapping, grown=True),
    # Not at commits: rules that need those are not asked where the log is not read.
    Condition(static_members.static_id_conflict, inputs.CLIENTS | inputs.STATES),
    Condition(static_members.static_member_restart, inputs.CLIENTS),
    Condition(static_members.random_instance_ids, grown=True),
    Condition(static_members.static_session_too_short),
    Condition(static_members.static_member_ghost, _REPORTED, grown=True),
    Condition(static_members.static_stalled_member, _REPORTED, grown=True),
    Condition(progress.stalled_consumer, _REPORTED, grown=True),
    Condition(progress.slow_consumer_group, _PROGRESS),
    Condition(progress.partition_skew, _PROGRESS, grown=True),
    Condition(progress.zombie_member, inputs.CLIENTS),
    Condition(progress.commit_failures_after_rebalance, inputs.COMMITS | inputs.CLIENTS),
    Condition(unread.orphan_partition, _PROGRESS),
    Condition(unread.empty_group_with_lag, _PROGRESS, grown=True),
    Condition(unread.commit_only_group, inputs.COMMITS, grown=True),
    Condition(offsets.offset_rewind, _PROGRESS),
    Condition(offsets.offset_skip, _PROGRESS),
    Condition(offsets.offsets_expired, inputs.COMMITS),
    Condition(duplicates.duplicate_processing, _PROGRESS),
    Condition(zookeeper.zk_partition_owner_conflict, inputs.OWNERS | _PROGRESS),
    Condition(zookeeper.zk_orphan_partition, inputs.OWNERS | _PROGRESS),
    Condition(zookeeper.zk_session_flap, inputs.OWNERS),
)
#: Sum up what has been explained; judged last.
AGGREGATES: tuple[Condition, ...] = (Condition(patterns.rebalance_storm, _PROGRESS, without_log=True),)

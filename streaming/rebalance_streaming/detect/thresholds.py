"""The thresholds that rules compare with and that the catalogue's texts name."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

_MINUTE = 60_000
_HOUR = 60 * _MINUTE
#: Limits that settings of groups are compared with; they are not windows, so they are never scaled.
_LIMITS_OF_SETTINGS = frozenset({"rebalance_timeout_ms", "session_timeout_ms", "retention_ms"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds of all rules, with the catalogue's defaults. Times in milliseconds.

    `scaled` multiplies times longer than a minute, so that short recordings and tests can be judged.
    """

    #: A join barrier from this length on needs a cause.
    barrier_ms: int = 10_000
    barrier_page_ms: int = _MINUTE
    #: A finding about rebalances is resolved if its cause has not recurred for this long.
    resolve_after_ms: int = 10 * _MINUTE
    recurring_per_day: int = 3
    churn_share: float = 0.01
    deploy_window_ms: int = 30 * _MINUTE
    deploy_per_member_ms: int = 5 * _MINUTE
    stay_ms: int = 10 * _MINUTE
    crash_loop_cycles: int = 3
    crash_loop_window_ms: int = 10 * _MINUTE
    short_life_ms: int = 2 * _MINUTE
    short_lived_window_ms: int = _HOUR
    short_lived_arrivals: int = 6
    flapping_returns: int = 3
    flapping_window_ms: int = 15 * _MINUTE
    poison_departures: int = 3
    poison_window_ms: int = 30 * _MINUTE
    no_progress_generations: int = 3
    formation_window_ms: int = 2 * _MINUTE
    formation_generations: int = 4
    storm_rebalances: int = 5
    storm_window_ms: int = 10 * _MINUTE
    storm_share: float = 0.3
    leader_rejoins: int = 3
    leader_rejoin_window_ms: int = 10 * _MINUTE
    livelock_generations: int = 4
    livelock_spacing_ms: int = _MINUTE
    callback_ms: int = 5_000
    rebalance_timeout_ms: int = 900_000
    session_timeout_ms: int = 10_000
    eager_members: int = 5
    idle_ms: int = 30 * _MINUTE
    imbalance_ms: int = 10 * _MINUTE
    shared_ms: int = _HOUR
    autoscaler_turns: int = 3
    autoscaler_window_ms: int = _HOUR
    conflict_window_ms: int = 10 * _MINUTE
    static_restarts_per_week: int = 20
    sync_warn_ms: int = 5_000
    sync_ticket_ms: int = 30_000
    failover_window_ms: int = _MINUTE
    stuck_slack_ms: int = _MINUTE
    overload_response_ms: int = 1_000
    wide_groups: int = 3
    wide_window_ms: int = _MINUTE
    reconciliation_ms: int = 15_000
    assigning_ms: int = 15_000
    churn_epochs: int = 6
    churn_window_ms: int = 10 * _MINUTE
    stalled_ms: int = 5 * _MINUTE
    slow_ms: int = 15 * _MINUTE
    orphan_ms: int = _MINUTE
    metadata_ms: int = 5 * _MINUTE
    skew_factor: float = 3.0
    skew_share: float = 0.5
    jump_factor: float = 10.0
    empty_ms: int = 5 * _MINUTE
    duplicates_share: float = 0.001
    retention_ms: int = 7 * 24 * _HOUR
    zk_idle_ms: int = 12_000
    zk_orphan_ms: int = 30_000
    zk_flaps: int = 3
    zk_flap_window_ms: int = 10 * _MINUTE
    topic_changes_per_day: int = 3
    poll_risk_warn: float = 0.5
    poll_risk_ticket: float = 0.8
    #: Conditions are not evaluated for groups younger than this.
    young_ms: int = 2 * _MINUTE

    def scaled(self, factor: float) -> Thresholds:
        """Return the thresholds with every window and hold time longer than a minute multiplied."""
        changes = {
            each.name: max(1, round(value * factor))
            for each in fields(self)
            if each.name.endswith("_ms")
            and each.name not in _LIMITS_OF_SETTINGS
            and (value := getattr(self, each.name)) > _MINUTE
        }
        return replace(self, **changes)

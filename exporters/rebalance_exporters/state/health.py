"""Readiness of the exporter: whether every group is shown with its present state and lag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_contract import CountedFrom, DiagnosisStatus, Participant, QueryStatus
from rebalance_contract.api import Readiness
from rebalance_contract.probes import PROBE_REPEAT_MS
from rebalance_exporters.state.fleet import FleetSnapshot, is_probed

#: The queries that read the log: one produces the groups, the other their commits.
_READERS = (Participant.MEMBERSHIP, Participant.ACTIVITY)

_IS_IT_RUNNING = "is `rebalance-monitor stream` running?"
_TRIGGERS_WITHOUT_BATCH = 3
#: A batch may take long while a query catches up; one that takes longer than this is reported with its duration.
_LONG_BATCH_MS = 60_000
#: Allowed delay of the diagnosis behind the queries that it reads from: it runs after them.
_BEHIND_MS = 5_000
#: How long to wait for a prober once everything else is ready.
_AWAIT_PROBER_MS = 30_000
#: Maximum age of the newest probe if the prober's clock is right.
_PROBES_LATE_MS = 3 * PROBE_REPEAT_MS

#: Remarks added to `ready`: in these cases a missing lag is not a fault.
NO_PROBES = "ready; no probe of any group yet, and the log is not read: is `rebalance-monitor probe` running?"
LAG_UNKNOWN = "ready; lag is unknown because no prober reports end offsets: is `rebalance-monitor probe` running?"


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """Progress of the reader of the output topics.

    `read` and `wanted` count log positions from the beginning to the end offsets found at the start. `kafka_error` is
    the latest error of the Kafka client, null once anything was read after it. `failure` is set if the reader's thread
    ended without being stopped. `unreached` is why no broker has answered since the start, null once one has.
    `of_clusters` is, if several clusters are read separately, the progress of each by cluster name; the empty name
    stands for all clusters without a reader of their own.
    """

    missing_topics: tuple[str, ...] = ()
    read: int = 0
    wanted: int = 0
    loaded: bool = False
    kafka_error: str | None = None
    kafka_errors: int = 0
    failure: str | None = None
    unreached: str | None = None
    of_clusters: Mapping[str, ReadProgress] = field(default_factory=dict)


def together(parts: Mapping[str, ReadProgress]) -> ReadProgress:
    """Return the progress of several readers as one, with each in `of_clusters`; a single one is returned as it is."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    each = parts.values()
    return ReadProgress(
        missing_topics=tuple(name for part in each for name in part.missing_topics),
        read=sum(part.read for part in each),
        wanted=sum(part.wanted for part in each),
        loaded=all(part.loaded for part in each),
        kafka_error=next((part.kafka_error for part in each if part.kafka_error is not None), None),
        kafka_errors=sum(part.kafka_errors for part in each),
        failure=next((part.failure for part in each if part.failure is not None), None),
        unreached=next((part.unreached for part in each if part.unreached is not None), None),
        of_clusters=parts,
    )


@dataclass(frozen=True, slots=True)
class _Awaited:
    """What is still missing for readiness; `share` as in Readiness."""

    text: str
    share: float | None = None


@dataclass(slots=True)
class Judge:
    """Judges whether what is served can be trusted.

    It remembers only what a single snapshot cannot show: whether a clock that differs still advances, since when a
    prober is awaited, and that lag was once complete. So a group that appears later does not make everything unready.
    """

    stale_after_seconds: float
    #: By cluster and part: its latest report's time, and when that was first seen; null if it was not seen to advance.
    _heard: dict[tuple[str, str], tuple[int, int | None]] = field(default_factory=dict)
    #: By cluster: since when everything but the lag is ready.
    _ready_since: dict[str, int] = field(default_factory=dict)
    #: By cluster: the start times of the queries when lag was last complete.
    _complete: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def judge(self, fleet: FleetSnapshot, progress: ReadProgress, now_ms: int) -> Readiness:
        """Return ready if all topics are read and, for every cluster, the stream is caught up, alive and knows the lag.

        `partly` means that this holds for only some of the clusters that are read separately.
        """
        verdicts = self._judge_clusters(fleet, now_ms)
        parts = progress.of_clusters or {"": progress}
        judged = {name: self._judge_part(name, part, parts, verdicts) for name, part in parts.items()}
        of_cluster = {name: each for name, each in judged.items() if name}
        common = parts.get("", progress)
        for name, each in verdicts.items():
            of_cluster.setdefault(name, _told(_judge_reading(common) or each, name, common))
        clusters = {name: each is None for name, each in of_cluster.items()}
        texts = {name: self._say(each, fleet, now_ms, name) for name, each in of_cluster.items()}
        awaited = next((each for each in judged.values() if each is not None), None)
        partly = awaited is not None and len(parts) > 1 and any(each is None for each in judged.values())
        share, text = 1.0 if awaited is None else awaited.share, self._say(awaited, fleet, now_ms)
        return Readiness(awaited is None, text, share, partly, clusters, texts)

    def _judge_part(
        self,
        name: str,
        progress: ReadProgress,
        parts: Mapping[str, ReadProgress],
        verdicts: Mapping[str, _Awaited | None],
    ) -> _Awaited | None:
        """Judge one cluster that is read separately or, without a name, all clusters without a reader of their own."""
        own = {cluster: each for cluster, each in verdicts.items() if cluster == name or not (name or cluster in parts)}
        awaited, about = _judge_reading(progress), name
        if awaited is None and not own:
            awaited = _Awaited(f"no status from the stream yet: {_IS_IT_RUNNING}")
        if awaited is None:
            about, awaited = next(((cluster, each) for cluster, each in own.items() if each), (name, None))
        return _told(awaited, about, progress)

    def _judge_clusters(self, fleet: FleetSnapshot, now_ms: int) -> dict[str, _Awaited | None]:
        statuses: dict[str, dict[str, QueryStatus]] = {}
        for status in fleet.queries:
            statuses.setdefault(status.cluster, {})[status.query] = status
        # Judge all clusters each time, so that the reports of each are followed even while an earlier one is not ready.
        return {cluster: self._judge_cluster(cluster, statuses[cluster], fleet, now_ms) for cluster in sorted(statuses)}

    def _judge_cluster(
        self, cluster: str, queries: Mapping[str, QueryStatus], fleet: FleetSnapshot, now_ms: int
    ) -> _Awaited | None:
        diagnosis = fleet.diagnoses.get(cluster)
        awaited = (
            self._judge_signs(cluster, queries, diagnosis, now_ms)
            or self._judge_prober(cluster, queries, diagnosis, now_ms)
            or _judge_probes(queries, diagnosis, now_ms)
            or _judge_queries(queries)
            or _judge_batches(queries, now_ms, self.stale_after_seconds)
            or _judge_diagnosis(queries, diagnosis, fleet)
        )
        if awaited is not None or diagnosis is None:
            self._ready_since.pop(cluster, None)
            return awaited
        return self._judge_lag(cluster, queries, diagnosis, now_ms)

    def _judge_signs(
        self, cluster: str, queries: Mapping[str, QueryStatus], diagnosis: DiagnosisStatus | None, now_ms: int
    ) -> _Awaited | None:
        """Judge whether all parts of the stream still report."""
        signs = {name: None if name not in queries else queries[name].updated_at_ms for name in _READERS}
        signs[Participant.DIAGNOSIS] = None if diagnosis is None else diagnosis.updated_at_ms
        found = [self._judge_sign(cluster, part, reported_ms, now_ms) for part, reported_ms in signs.items()]
        return next((each for each in found if each is not None), None)

    def _judge_sign(self, cluster: str, part: str, reported_ms: int | None, now_ms: int) -> _Awaited | None:
        if reported_ms is None:
            return _Awaited(f"no status yet from the {part} of the stream: {_IS_IT_RUNNING}")
        stale_ms = int(self.stale_after_seconds * 1000)
        differs = self._judge_clock(cluster, f"stream's {part}", reported_ms, now_ms, stale_ms)
        age_ms = now_ms - reported_ms
        if differs is not None or age_ms <= stale_ms:
            return differs
        return _Awaited(f"no status from the {part} for {age_ms / 1000:.0f} s: {_IS_IT_RUNNING}")

    def _judge_prober(
        self, cluster: str, queries: Mapping[str, QueryStatus], diagnosis: DiagnosisStatus | None, now_ms: int
    ) -> _Awaited | None:
        """Judge the prober's clock, once the stream has caught up and no longer reads old probes."""
        if diagnosis is None or diagnosis.probed_at_ms is None:
            return None
        differs = self._judge_clock(cluster, "prober", diagnosis.probed_at_ms, now_ms, _PROBES_LATE_MS)
        return differs if all(queries[name].caught_up for name in _READERS) else None

    def _judge_clock(self, cluster: str, whose: str, reported_ms: int, now_ms: int, usual_ms: int) -> _Awaited | None:
        """Judge whether a regularly reported time is too far from now; it usually arrives at most `usual_ms` late."""
        known = self._heard.get((cluster, whose))
        if known is None or known[0] != reported_ms:
            is_news = known is not None and reported_ms > known[0]
            known = self._heard[cluster, whose] = (reported_ms, now_ms if is_news else None)
        age_ms = now_ms - reported_ms
        if age_ms < -usual_ms:
            return _Awaited(f"{_clocks(whose, -age_ms)} ahead of the exporter's: set both by NTP")
        # A time that was already old when it arrived recently comes from a clock that is behind but advances.
        if known[1] is not None and known[1] - reported_ms > usual_ms and now_ms - known[1] <= usual_ms:
            return _Awaited(f"{_clocks(whose, age_ms)} behind the exporter's: set both by NTP")
        return None

    def _judge_lag(
        self, cluster: str, queries: Mapping[str, QueryStatus], diagnosis: DiagnosisStatus, now_ms: int
    ) -> _Awaited | None:
        since_ms = self._ready_since.setdefault(cluster, now_ms)
        starts = tuple(queries[name].started_at_ms for name in _READERS)
        if _reads_log(queries) and diagnosis.committing_groups <= 0 and diagnosis.groups_awaiting_ends <= 0:
            # No lag is missing: a cluster without groups has no probes.
            self._complete[cluster] = starts
            return None
        if is_probed(diagnosis, now_ms):
            if diagnosis.groups_awaiting_ends <= 0 or self._complete.get(cluster) == starts:
                self._complete[cluster] = starts
                return None
            return _await_ends(diagnosis)
        if self._complete.get(cluster) == starts or now_ms - since_ms >= _AWAIT_PROBER_MS:
            return None
        return _Awaited("waiting for a prober to report where partitions end: is `rebalance-monitor probe` running?")

    def _say(self, awaited: _Awaited | None, fleet: FleetSnapshot, now_ms: int, cluster: str | None = None) -> str:
        """Return one line: what is awaited or, when ready, what is permanently missing in one cluster or in any."""
        if awaited is not None:
            return " ".join(awaited.text.split())
        queries = [each for each in fleet.queries if cluster in {None, each.cluster}]
        if any(each.counted_from != CountedFrom.LOG and _has_nothing(fleet, each.cluster) for each in queries):
            return NO_PROBES
        asked = [each for each in fleet.diagnoses.values() if cluster in {None, each.cluster}]
        unprobed = [each for each in asked if not is_probed(each, now_ms)]
        return LAG_UNKNOWN if any(each.committing_groups for each in unprobed) else "ready"


def _told(awaited: _Awaited | None, cluster: str, progress: ReadProgress) -> _Awaited | None:
    """Return what is awaited with the cluster's name ("": of all) and the latest error of the reader."""
    if awaited is None:
        return None
    text = awaited.text if not cluster else f"{awaited.text} [cluster {cluster}]"
    text = text if progress.kafka_error is None else f"{text} (Kafka says: {progress.kafka_error})"
    return _Awaited(text, awaited.share)


def status_age_seconds(status: QueryStatus, now_ms: int) -> float:
    """Return the age of a status; never negative, even if two clocks differ."""
    return max(0, now_ms - status.updated_at_ms) / 1000


def read_until_ms(fleet: FleetSnapshot) -> dict[str, int]:
    """Return the time up to which the log was read for groups, by cluster, in epoch milliseconds."""
    return {status.cluster: status.read_until_ms for status in fleet.queries if status.query == Participant.MEMBERSHIP}


def read_share(status: QueryStatus) -> float | None:
    """Return the share of the records in the log at the start that a query has processed, 0 to 1; null while unknown.

    For an empty log it is 1 once the query has caught up.
    """
    if status.wanted_records > 0:
        return min(1.0, status.read_records / status.wanted_records)
    return 1.0 if status.caught_up else None


def describe_long_batch(status: QueryStatus) -> str | None:
    """Return a sentence if a query has finished no batch for long, by the stream's own clock, else null.

    The query may hang, for example because Kafka never answers it, before the stream ends the batch.
    """
    since_ms = status.started_at_ms if status.last_batch_at_ms is None else status.last_batch_at_ms
    passed_ms = status.updated_at_ms - since_ms
    if passed_ms <= max(_LONG_BATCH_MS, _TRIGGERS_WITHOUT_BATCH * status.trigger_ms):
        return None
    return f"no batch of the {status.query} query has ended for {passed_ms / 1000:.0f} s"


def _clocks(whose: str, difference_ms: int) -> str:
    return f"clocks differ: that of the {whose} is {difference_ms / 1000:.0f} s"


def _judge_reading(progress: ReadProgress) -> _Awaited | None:
    if progress.failure is not None:
        return _Awaited(f"the reader stopped: {progress.failure}; restart the exporter")
    if progress.unreached is not None:
        return _Awaited(progress.unreached)
    if progress.missing_topics:
        names = ", ".join(progress.missing_topics)
        return _Awaited(f"waiting for topic {names}: `rebalance-monitor stream` creates what is missing")
    if not progress.loaded and not progress.wanted:
        return _Awaited("asking Kafka for the stream's topics")
    if not progress.loaded:
        text = f"reading the monitor's topics: {progress.read:,} of {progress.wanted:,}"
        return _Awaited(text, progress.read / progress.wanted)
    return None


def _judge_queries(queries: Mapping[str, QueryStatus]) -> _Awaited | None:
    for name in _READERS:
        if queries[name].error is not None:
            return _Awaited(f"the query {name} does not run: {queries[name].error}")
        if queries[name].is_stalled:
            return _Awaited(f"the query {name} makes no progress; the stream ends a batch that hangs, see its log")
    if all(queries[name].caught_up for name in _READERS):
        return None
    shares = {name: 1.0 if queries[name].caught_up else read_share(queries[name]) for name in _READERS}
    known = {name: share for name, share in shares.items() if share is not None}
    long = next((f"; {text}" for name in _READERS if (text := describe_long_batch(queries[name]))), "")
    if len(known) < len(shares):
        return _Awaited(f"stream not caught up{_behind(queries)}{long}")
    slowest = min(_READERS, key=lambda name: known[name])
    each = ", ".join(f"{name} {_percent(share)}" for name, share in known.items())
    wanted = queries[slowest].wanted_records
    return _Awaited(f"reading the log: {_percent(known[slowest])} of {wanted:,} records ({each}){long}", known[slowest])


def _percent(share: float) -> str:
    # Rounded down: 100 % only when done.
    return f"{int(100 * share)} %"


def _behind(queries: Mapping[str, QueryStatus]) -> str:
    known = [queries[name].source_lag_records or 0 for name in _READERS if not queries[name].caught_up]
    return f": {max(known):,} log positions behind" if any(known) else ""


def _judge_batches(queries: Mapping[str, QueryStatus], now_ms: int, stale_after_seconds: float) -> _Awaited | None:
    """Judge progress: if a query hangs while its process reports, its last batch ages but its status does not."""
    for name in _READERS:
        status = queries[name]
        patience_ms = 1000 * max(stale_after_seconds, _TRIGGERS_WITHOUT_BATCH * status.trigger_ms / 1000)
        since_ms = status.updated_at_ms if status.last_batch_at_ms is None else status.last_batch_at_ms
        if now_ms - since_ms > patience_ms:
            return _Awaited(
                f"no batch for {(now_ms - since_ms) / 1000:.0f} s: the query {name} reports but does not advance"
            )
    return None


def _judge_diagnosis(
    queries: Mapping[str, QueryStatus], diagnosis: DiagnosisStatus | None, fleet: FleetSnapshot
) -> _Awaited | None:
    """Judge whether the diagnosis has processed what the queries had read when they caught up, or have read now."""
    assert diagnosis is not None, "its silence was judged before"
    now_until_ms = min(queries[name].read_until_ms for name in _READERS) - _BEHIND_MS
    first_until_ms = max(fleet.caught_up_until.get((diagnosis.cluster, name), 0) for name in _READERS)
    behind_ms = min(now_until_ms, first_until_ms) - diagnosis.read_until_ms
    if behind_ms <= 0:
        return None
    return _Awaited(f"the diagnosis is {behind_ms / 1000:.0f} s behind what was read of the log")


def _reads_log(queries: Mapping[str, QueryStatus]) -> bool:
    """Return whether groups are known from the log, not from probes alone."""
    reader = queries.get(Participant.MEMBERSHIP)
    return reader is None or reader.counted_from == CountedFrom.LOG


def _judge_probes(
    queries: Mapping[str, QueryStatus], diagnosis: DiagnosisStatus | None, now_ms: int
) -> _Awaited | None:
    """Judge whether there are recent probes, if groups are known from probes alone."""
    if _reads_log(queries) or diagnosis is None:
        return None
    if is_probed(diagnosis, now_ms):
        return None
    if diagnosis.probed_at_ms is None and not diagnosis.groups:
        return None  # a cluster without groups has no probes
    since = "" if diagnosis.probed_at_ms is None else f" for {(now_ms - diagnosis.probed_at_ms) / 1000:.0f} s"
    return _Awaited(
        f"no probe{since}, and the log is not read, so no group is known: is `rebalance-monitor probe` running?"
    )


def _has_nothing(fleet: FleetSnapshot, cluster: str) -> bool:
    """Return whether no group of a cluster was ever probed."""
    diagnosis = fleet.diagnoses.get(cluster)
    return diagnosis is not None and diagnosis.probed_at_ms is None


def _await_ends(diagnosis: DiagnosisStatus) -> _Awaited:
    groups, awaiting = max(diagnosis.committing_groups, diagnosis.groups_awaiting_ends), diagnosis.groups_awaiting_ends
    text = (
        f"lag is known of {groups - awaiting:,} of {groups:,} groups: the prober has not reported all end offsets yet"
    )
    return _Awaited(text, (groups - awaiting) / groups)

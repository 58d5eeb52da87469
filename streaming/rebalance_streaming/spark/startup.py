"""Steps before the queries run: wait for brokers, check them, and open or create the checkpoint.

From the settings and the command line it prepares the inputs of the queries. The checks before Spark starts report
problems with which a query would only fail.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rebalance_contract as contract
from rebalance_kafka.backoff import Backoff
from rebalance_kafka.clock import epoch_ms
from rebalance_kafka.properties import java_properties
from rebalance_streaming.brokers.cluster import Cluster, LogEnds
from rebalance_streaming.brokers.ownership import QueryOwnership, read_statuses
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import BrokersUnreachableError, StreamError
from rebalance_streaming.spark.checkpoint import (
    LAYOUT,
    Baseline,
    has_checkpoint,
    is_of_cluster,
    older_layout,
    open_checkpoint,
    read_counted,
    read_inputs,
    read_rebuild_values,
    set_aside,
    store_counted,
    store_inputs,
    store_rebuild_values,
)
from rebalance_streaming.spark.input_queries import INPUT_QUERIES, QueryInputs, ReadUp
from rebalance_streaming.spark.inputs import WatchedInputs
from rebalance_streaming.spark.membership import MEMBERSHIP, PublishedRows
from rebalance_streaming.spark.offset_log import has_begun, positions
from rebalance_streaming.spark.rebuilding import OnRead, first_live, has_rows, read_published
from rebalance_streaming.spark.source import delivers_rows
from rebalance_streaming.spark.supervision import root_cause

#: First and longest pause between attempts to start while brokers are unavailable.
_AWAY_SECONDS, _LONGEST_AWAY_SECONDS = 1.0, 10.0
#: Number of positions before a partition's end that the start-up check reads; longer than any run of markers.
_CHECKED_POSITIONS = 1_000

Notify = Callable[[str], None]
OnLook = Callable[[Sequence[contract.QueryStatus]], None]
OnWait = Callable[[str | None], None]


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks: `notify` receives progress messages, `warn` problems, `on_look` the statuses of the queries.

    `on_wait` receives why no broker answers at the start, and null once one does; `on_read` the number of positions of
    the published topics read for a new checkpoint, and their total number.
    """

    notify: Notify
    warn: Notify
    on_look: OnLook
    on_wait: OnWait = lambda _: None
    on_read: OnRead = lambda *_: None


@dataclass(frozen=True, slots=True)
class AskedRebuild:
    """The rebuild options of the command line, and the stop signal: no checkpoint is renamed once it is set."""

    rebuild: bool
    may_set_aside: bool
    stop: threading.Event


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """The cluster before Spark starts, the last published statuses, and this process's ownership of its outputs."""

    cluster: Cluster
    cluster_id: str
    statuses: Sequence[contract.Status]
    ownership: QueryOwnership
    read: ReadUp


def await_cluster(config: StreamConfig, listeners: Listeners, stop: threading.Event) -> FoundCluster | None:
    """Return the cluster once brokers answer; null if `stop` is set before. Called before Spark starts.

    Raises StreamError like `_look_at_cluster`.
    """
    warned, backoff = set[str](), Backoff(_AWAY_SECONDS, _LONGEST_AWAY_SECONDS, random.random)
    while not stop.is_set():
        try:
            found = _look_at_cluster(config, listeners)
        except BrokersUnreachableError as error:
            text = str(error)
            listeners.on_wait(text)
            if text not in warned:
                warned.add(text)
                listeners.warn(text)
            stop.wait(backoff.fail())
        else:
            listeners.on_wait(None)
            return found
    return None


def _look_at_cluster(config: StreamConfig, listeners: Listeners) -> FoundCluster:
    """Check the settings, the brokers and the topics, take ownership of the outputs, and return the cluster.

    Raises BrokersUnreachableError if brokers do not answer, StreamError if a requirement of the stream is not met.
    """
    _raise_problems(config)
    cluster = Cluster(config)
    cluster_id = cluster.check_reachable()
    if config.reads_log:
        cluster.ensure_source()
        cluster.check_readable(cluster.log_ends(config.source_topic))
    cluster.ensure_topics(listeners.warn)
    cluster.check_foreign_topics()
    statuses = read_statuses(config, listeners.warn)
    ownership = QueryOwnership(config, statuses, epoch_ms())
    read = ReadUp.of(cluster, config)
    ownership.start(listeners.warn)
    listeners.notify(f"cluster {cluster_id}: {len(read.ends.visible)} partitions of {read.topic}; starting Spark")
    if not config.reads_log:
        listeners.notify(
            "the log is not read (sources.log = false): groups are counted from probes, which see some rebalances"
        )
    return FoundCluster(cluster, cluster_id, statuses, ownership, read)


def prepare(
    spark: SparkSession,
    config: StreamConfig,
    found: FoundCluster,
    listeners: Listeners,
    *,
    asked: AskedRebuild,
) -> QueryInputs:
    """Open or create the checkpoint, and return the inputs of the queries.

    Raises StreamError if the checkpoint belongs to another log, or if Spark delivers no rows of this one.
    """
    read, ownership = found.read, found.ownership
    published = _take_up(spark, config, found, listeners, asked)
    now = Baseline(found.cluster_id, read.topic, dict(read.ends.visible) if config.reads_log else {})
    if published is not None:
        now = replace(now, first_live=first_live(now.first_live, published, read.topic))
    baseline = open_checkpoint(spark, config.checkpoint, now)
    totals = [each for each in found.statuses if isinstance(each, contract.LogTotals)]
    stored = partial(positions, spark, config.checkpoint)
    watched = WatchedInputs(config, found.cluster, baseline.first_live, totals, stored)
    properties = java_properties(config.kafka)
    if config.reads_log:
        check_source_delivers(spark, found.cluster, properties, read.ends)
    # True also for a checkpoint whose log has not grown since it was created.
    is_first_start = baseline == now
    counted = read_counted(spark, config.checkpoint, listeners.warn)
    published = replace(published or PublishedRows(), counted=counted)
    return QueryInputs(found.cluster, watched, read, properties, is_first_start, ownership, published)


def _take_up(
    spark: SparkSession, config: StreamConfig, found: FoundCluster, listeners: Listeners, asked: AskedRebuild
) -> PublishedRows | None:
    """Return published rows from which the queries of a checkpoint start.

    This is requested by `rebuild` or a new value of `stream.rebuild`, or follows from a checkpoint of an older layout.
    Null: the queries continue from their own checkpoint, or start without state.
    """
    is_there, older = has_checkpoint(spark, config.checkpoint), older_layout(spark, config.checkpoint)
    values = read_rebuild_values(spark, config.checkpoint, config.rebuild)
    begun: list[str] = []
    why = ""
    anew = asked.rebuild or values.is_new
    if anew:
        option = "--rebuild" if asked.rebuild else f"stream.rebuild = {values.asked!r}"
        found.ownership.refuse_beside_another(option, asked.stop)
        if is_there and not (asked.may_set_aside or values.is_new):
            raise StreamError(
                f"--rebuild: a checkpoint exists at {config.checkpoint}; without --rebuild the stream continues from "
                "it, with --rebuild --set-aside it is renamed first"
            )
    elif older is not None or values.done:
        here = [name for name in INPUT_QUERIES if name in config.queries]
        # A query that was stopped before the end of its first batch has stored nothing and loads the rows again.
        begun = [name for name in here if has_begun(spark, config.checkpoint, name)]
        if begun == here:
            return None
        was = "not rebuilt to its end" if values.done else f"of layout {older}"
        why = f"the checkpoint at {config.checkpoint} is {was}, a new one of layout {LAYOUT} is created: "
        found.ownership.refuse_beside_another(why.removesuffix(": "), asked.stop)
    else:
        if not is_there and MEMBERSHIP in config.queries and has_rows(config):
            listeners.warn(
                f"{config.groups_topic} has groups of another checkpoint than {config.checkpoint}: totals start at 0. "
                "To continue from the published rows, stop the stream and start it with --rebuild --set-aside, or "
                "with a new value of stream.rebuild"
            )
        return None
    published = read_published(config, found.cluster, found.statuses, listeners.warn, listeners.on_read).without(begun)
    if anew:
        # The published rows have these eras, too. Those of another cluster say nothing about this one's topics.
        is_same = is_of_cluster(spark, config.checkpoint, found.cluster_id)
        names = INPUT_QUERIES if is_same else ()
        kept = [read_inputs(spark, config.checkpoint, name, listeners.warn) for name in names]
        # Only after everything has been read: otherwise the old checkpoint must stay in place.
        if is_there:
            listeners.notify(f"the checkpoint was moved to {set_aside(spark, config.checkpoint, epoch_ms())}")
        store_rebuild_values(spark, config.checkpoint, values)
        for each in kept:
            if each is not None:
                store_inputs(spark, config.checkpoint, each)
    if MEMBERSHIP in config.queries and MEMBERSHIP not in begun:
        store_counted(spark, config.checkpoint, published.totals.positions)
    listeners.notify(f"{why}{published.group_count} groups continue from their published rows")
    return published


def check_source_delivers(spark: SparkSession, cluster: Cluster, properties: Mapping[str, str], ends: LogEnds) -> None:
    """Ensure that Spark's source returns rows of a log that has records.

    Raises StreamError if it does not: the source fails silently for internal topics, and a monitor without input cannot
    be told from a calm cluster.
    """
    partition = max(ends.visible, key=lambda p: ends.visible[p] - ends.earliest[p])
    end = ends.visible[partition]
    checked = range(max(ends.earliest[partition], end - _CHECKED_POSITIONS), end)
    if not cluster.has_record(partition, checked):
        return
    try:
        delivers, reason = delivers_rows(spark, properties, cluster.source_topic, partition, checked), "no rows"
    except (Py4JJavaError, PySparkException) as error:
        delivers, reason = False, root_cause(str(error))
    if not delivers:
        raise StreamError(
            f"Spark cannot read {cluster.source_topic} although partition {partition} has records before {end} "
            f"({reason}); check that nothing overrides spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true "
            "and that this client may read the topic"
        )


def _raise_problems(config: StreamConfig) -> None:
    problems = config.validate()
    if problems:
        raise StreamError("; ".join(problems))

"""The application's checkpoint: how far it has read, and which records of the log are history.

One directory per layout version has the checkpoints of both queries and `monitor.json`, which ties them to a cluster.
`inputs-QUERY.json` has the eras with which a query was last started, `counted.json` the positions up to which the
totals that a rebuild began with count records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rebalance_contract import QUERIES, ContractError, LogTotals, Participant, decode, encode
from rebalance_streaming.errors import StreamError
from rebalance_streaming.groups.counts import Position
from rebalance_streaming.spark import hadoop_files
from rebalance_streaming.spark.rebuild_values import RebuildValues, decode_values, encode_values
from rebalance_streaming.spark.session import is_local

#: Increment it when a query's sources, keys or state change in a way that Spark cannot migrate.
LAYOUT = "v4"
_LAYOUT_NAME = re.compile(r"v(\d+)")
#: New directory names of queries without state whose sources have changed: they read their inputs again, without a new
#: layout, which would lose the totals of the other queries.
_DIRECTORIES = {Participant.ACTIVITY.value: "activity-two-sources"}


@dataclass(frozen=True, slots=True)
class Baseline:
    """The cluster and the end of the log when the checkpoint was created.

    Records of the watched topic below `first_live` (per partition) may have been compacted before the monitor first
    read them: they show the state of groups, but not what happened.
    """

    cluster_id: str
    source_topic: str
    first_live: dict[int, int]


def open_checkpoint(spark: SparkSession, path: str, found_now: Baseline) -> Baseline:
    """Return the baseline stored at `path`; if there is none yet, store `found_now` and return it.

    Raises StreamError if the checkpoint cannot be used, is damaged, or belongs to another cluster or topic.
    """
    file = _baseline_file(path)
    try:
        if not hadoop_files.exists(spark, file):
            # A new baseline beside existing query checkpoints would mark records as history that they have not read.
            if any(hadoop_files.exists(spark, query_path(path, each)) for each in QUERIES):
                raise damaged(path, file)
            hadoop_files.write(spark, file, msgspec.json.encode(found_now))
        text = hadoop_files.read(spark, file)
    except Py4JJavaError as error:
        if _is_damage(error):
            raise damaged(path, file) from None
        raise unusable(path, error) from None
    try:
        kept = msgspec.json.decode(text, type=Baseline)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        raise damaged(path, file) from None
    _check_same(path, kept, found_now)
    return kept


def is_of_cluster(spark: SparkSession, path: str, cluster_id: str) -> bool:
    """Return whether the checkpoint at `path` was created for a cluster; false if that cannot be read from it.

    Raises StreamError if the checkpoint cannot be used.
    """
    content = _read(spark, path, _baseline_file(path))
    try:
        return content is not None and msgspec.json.decode(content, type=Baseline).cluster_id == cluster_id
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


def damaged(path: str, file: str) -> StreamError:
    """Return the error that says which file of a checkpoint cannot be read, and what to do."""
    return StreamError(
        f"checkpoint {path} is damaged: {file} cannot be read; start with --rebuild --set-aside, or with a new "
        "value of stream.rebuild, to continue from the published rows, or move it away to reset all totals"
    )


def read_rebuild_values(spark: SparkSession, path: str, asked: str) -> RebuildValues:
    """Return the value of `stream.rebuild` with the earlier ones stored in the checkpoint at `path`.

    Raises StreamError if the checkpoint cannot be used, because unknown earlier values must not cause a rebuild.
    """
    content = _read(spark, path, _values_file(path))
    return RebuildValues(asked, () if content is None else decode_values(content))


def store_rebuild_values(spark: SparkSession, path: str, values: RebuildValues) -> None:
    """Store the values of `stream.rebuild` as the first file of a new checkpoint. Raises StreamError."""
    if values.kept():
        _write(spark, path, _values_file(path), encode_values(values.kept()))


def read_inputs(spark: SparkSession, path: str, query: str, warn: Callable[[str], None]) -> LogTotals | None:
    """Return the row of a query's inputs stored in the checkpoint; null if there is none.

    A damaged file counts as none and is reported to `warn`. Raises StreamError if the checkpoint cannot be used.
    """
    file = _inputs_file(path, query)
    content = _read(spark, path, file)
    try:
        return None if content is None else decode(content, LogTotals)
    except ContractError:
        warn(
            f"{file} is damaged: how often inputs of the {query} query were cut or recreated is known from the status "
            "topic only; check that it was not recreated meanwhile"
        )
        return None


def store_inputs(spark: SparkSession, path: str, inputs: LogTotals) -> None:
    """Store the row of a query's inputs. Raises StreamError if that fails."""
    _write(spark, path, _inputs_file(path, inputs.query), encode(inputs))


def read_counted(spark: SparkSession, path: str, warn: Callable[[str], None]) -> dict[str, Position]:
    """Return, by `topic/partition`, up to which position the totals count records with which a rebuild began.

    Empty for a checkpoint without a rebuild. A damaged file counts as none and is reported to `warn`. Raises
    StreamError if the checkpoint cannot be used.
    """
    content = _read(spark, path, _counted_file(path))
    try:
        return {} if content is None else msgspec.json.decode(content, type=dict[str, Position])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        warn(
            f"{_counted_file(path)} is damaged: if the rebuild of this checkpoint was interrupted, records that are "
            "read again may be counted twice"
        )
        return {}


def store_counted(spark: SparkSession, path: str, counted: Mapping[str, Position]) -> None:
    """Store the positions of the totals with which a rebuild begins. Raises StreamError if that fails."""
    _write(spark, path, _counted_file(path), msgspec.json.encode(counted))


def _read(spark: SparkSession, path: str, file: str) -> bytes | None:
    """Return the content of a file of the checkpoint: null if there is none, empty if it is damaged."""
    try:
        return hadoop_files.read(spark, file) if hadoop_files.exists(spark, file) else None
    except Py4JJavaError as error:
        if not _is_damage(error):
            raise unusable(path, error) from None
        return b""


def _write(spark: SparkSession, path: str, file: str, content: bytes) -> None:
    try:
        hadoop_files.write(spark, file, content)
    except Py4JJavaError as error:
        raise unusable(path, error) from None


def _counted_file(path: str) -> str:
    return f"{_absolute(path)}/{LAYOUT}/counted.json"


def _inputs_file(path: str, query: str) -> str:
    return f"{_absolute(path)}/{LAYOUT}/inputs-{query}.json"


def _values_file(path: str) -> str:
    return f"{_absolute(path)}/{LAYOUT}/rebuilds.json"


def _is_damage(error: Py4JJavaError) -> bool:
    return "ChecksumException" in _reason(error)


def _reason(error: Py4JJavaError) -> str:
    return str(error.java_exception).splitlines()[0]


def unusable(path: str, error: Py4JJavaError) -> StreamError:
    """Return the error for a checkpoint whose file system fails, with the reason that it reports."""
    return StreamError(
        f"cannot use checkpoint {path} ({_reason(error)}); choose another with --set stream.checkpoint=DIR"
    )


def has_checkpoint(spark: SparkSession, path: str) -> bool:
    """Return whether there is a checkpoint of this layout at `path`, complete or not.

    Raises StreamError if that cannot be known, because an existing checkpoint must not be taken for a new one.
    """
    try:
        return hadoop_files.exists(spark, f"{_absolute(path)}/{LAYOUT}")
    except Py4JJavaError as error:
        raise unusable(path, error) from None


def older_layout(spark: SparkSession, path: str) -> str | None:
    """Return the newest layout older than this one that has a directory at `path`; null if there is none.

    Raises StreamError if `path` cannot be read.
    """
    try:
        names = (each.name for each in hadoop_files.listed(spark, _absolute(path)))
        found = {_number(match[0]): match[0] for name in names if (match := _LAYOUT_NAME.fullmatch(name))}
    except Py4JJavaError as error:
        raise unusable(path, error) from None
    older = [number for number in found if number < _number(LAYOUT)]
    return found[max(older)] if older else None


def set_aside(spark: SparkSession, path: str, now_ms: int) -> str:
    """Rename the checkpoint of this layout with a timestamp, and return its new path. Raises StreamError."""
    moved = f"{_absolute(path)}/{LAYOUT}.set-aside-{now_ms // 1000}"
    try:
        is_moved, why = hadoop_files.rename(spark, f"{_absolute(path)}/{LAYOUT}", moved), ""
    except Py4JJavaError as error:
        is_moved, why = False, f" ({_reason(error)})"
    if not is_moved:
        raise StreamError(
            f"the checkpoint cannot be moved to {moved}{why}; move it yourself, then start with --rebuild"
        )
    return moved


def query_path(path: str, query: str) -> str:
    """Return the checkpoint location of one query."""
    return f"{_absolute(path)}/{LAYOUT}/{_DIRECTORIES.get(query, query)}"


def _baseline_file(path: str) -> str:
    return f"{_absolute(path)}/{LAYOUT}/monitor.json"


def _number(layout: str) -> int:
    return int(layout.removeprefix("v"))


def _absolute(path: str) -> str:
    return str(Path(path.removeprefix("file:")).expanduser().absolute()) if is_local(path) else path.rstrip("/")


def _check_same(path: str, kept: Baseline, now: Baseline) -> None:
    for what, was, is_now in (
        ("cluster", kept.cluster_id, now.cluster_id),
        ("topic", kept.source_topic, now.source_topic),
    ):
        if was != is_now:
            raise StreamError(
                f"checkpoint {path} belongs to {what} {was}, not {is_now}; "
                "choose another with --set stream.checkpoint=DIR, or move it away to create a new one"
            )

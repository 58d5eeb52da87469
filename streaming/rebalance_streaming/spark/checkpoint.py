"""Where the application remembers how far it has read, and from where on what it reads is history.

One directory per layout version holds both queries' own checkpoints and `monitor.json`, which ties them to a cluster.
Paths go through Hadoop's file systems, as Spark's own do, so that any URI the executors can reach will do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rebalance_contract import QUERIES, Party
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.session import is_local

#: Raise it when a query's sources, keys or state change in a way Spark cannot carry over.
LAYOUT = "v4"
#: Where a query without state keeps its positions since its sources changed: it reads its inputs anew, and the layout,
#: with the totals of the others, stays.
_DIRECTORIES = {Party.ACTIVITY.value: "activity-two-sources"}
#: What a file of one batch is called while it is written (CheckpointFileManager of Spark).
_UNFINISHED = re.compile(r"\.\d+\.[0-9a-f-]+\.tmp")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What was there when the checkpoint was made.

    Records of the watched topic below `first_live` (per partition) had been thinned by compaction before the monitor
    came, so they are state and not history.
    """

    cluster_id: str
    source_topic: str
    first_live: dict[int, int]


def open_checkpoint(spark: SparkSession, path: str, found_now: Baseline) -> Baseline:
    """Return the baseline kept at `path`, or keep `found_now` there if there is none yet.

    Raises StreamError when the place cannot be used, is damaged, or belongs to another cluster or topic.
    """
    file = f"{_absolute(path)}/{LAYOUT}/monitor.json"
    try:
        if not _exists(spark, file):
            # Made anew beside what the queries keep it would take for history what they have not read yet.
            if any(_exists(spark, query_path(path, each)) for each in QUERIES):
                raise _damaged(path, file)
            _create(spark, file, msgspec.json.encode(found_now))
        text = _read(spark, file)
    except Py4JJavaError as error:
        reason = str(error.java_exception).splitlines()[0]
        if "ChecksumException" in reason:
            raise _damaged(path, file) from None
        raise StreamError(
            f"cannot use checkpoint {path} ({reason}); choose another with --set stream.checkpoint=DIR"
        ) from None
    try:
        kept = msgspec.json.decode(text, type=Baseline)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        raise _damaged(path, file) from None
    _check_same(path, kept, found_now)
    return kept


def _damaged(path: str, file: str) -> StreamError:
    return StreamError(
        f"checkpoint {path} is damaged: {file} cannot be read; start with --rebuild --set-aside to go on from what was "
        "published, or move it away to start afresh (totals restart)"
    )


def has_checkpoint(spark: SparkSession, path: str) -> bool:
    """Return whether there is a checkpoint of this layout at `path`, whole or not; false for a place of no use."""
    try:
        return _exists(spark, f"{_absolute(path)}/{LAYOUT}")
    except Py4JJavaError:
        return False


def set_aside(spark: SparkSession, path: str, now_ms: int) -> str:
    """Move the checkpoint of this layout to a name with the time; returns where it is. Raises StreamError."""
    moved = f"{_absolute(path)}/{LAYOUT}.set-aside-{now_ms // 1000}"
    system, target = _locate(spark, f"{_absolute(path)}/{LAYOUT}")
    try:
        is_moved = system.rename(target, _locate(spark, moved)[1])
    except Py4JJavaError:
        is_moved = False
    if not is_moved:
        raise StreamError(f"the checkpoint cannot be moved to {moved}; move it yourself, then start with --rebuild")
    return moved


def query_path(path: str, query: str) -> str:
    """Return the checkpoint location of one query."""
    return f"{_absolute(path)}/{LAYOUT}/{_DIRECTORIES.get(query, query)}"


def check_batches(spark: SparkSession, path: str, query: str) -> None:
    """Make sure that a query can begin with the batches that its checkpoint knows.

    A file that the first batch left unfinished when its JVM was killed is removed: Spark ends a query without a first
    batch where there is any file below `offsets` (MicroBatchExecution.verifyNewCheckpointDirectory).

    Raises StreamError where the newest batch has a file without content, or was committed and has no offsets any more:
    Spark tells neither in words that name the checkpoint.
    """
    offsets, commits = (_batches(spark, f"{query_path(path, query)}/{kind}") for kind in ("offsets", "commits"))
    newest = max(offsets, default=-1)
    for kind, sizes in (("offsets", offsets), ("commits", commits)):
        if sizes and sizes[max(sizes)] == 0:
            raise _damaged(path, f"{query_path(path, query)}/{kind}/{max(sizes)}")
    if newest < max(commits, default=-1):
        raise _damaged(path, f"{query_path(path, query)}/offsets/{max(commits)}")
    if not offsets:
        _remove_unfinished(spark, f"{query_path(path, query)}/offsets")


def _batches(spark: SparkSession, directory: str) -> dict[int, int]:
    """Return the size in bytes of the file of each batch in a directory."""
    return {int(name): size for name, size, _ in _files(spark, directory) if name.isdecimal()}


def _remove_unfinished(spark: SparkSession, directory: str) -> None:
    for name, _, file in _files(spark, directory):
        if _UNFINISHED.fullmatch(name):
            _locate(spark, directory)[0].delete(file, False)


def _files(spark: SparkSession, directory: str) -> list[tuple[str, int, Any]]:
    """Return (name, size in bytes, path) of each file in a directory; none where there is no such directory."""
    system, target = _locate(spark, directory)
    if not system.exists(target):
        return []
    return [(each.getPath().getName(), int(each.getLen()), each.getPath()) for each in system.listStatus(target)]


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
                "choose another with --set stream.checkpoint=DIR, or move it away to start afresh"
            )


def _locate(spark: SparkSession, file: str) -> tuple[Any, Any]:
    """Return (Hadoop's file system, path) of a file."""
    jvm: Any = spark.sparkContext._jvm
    target = jvm.org.apache.hadoop.fs.Path(file)
    hadoop: Any = spark.sparkContext._jsc
    return target.getFileSystem(hadoop.hadoopConfiguration()), target


def _exists(spark: SparkSession, file: str) -> bool:
    system, target = _locate(spark, file)
    return bool(system.exists(target))


def _create(spark: SparkSession, file: str, content: bytes) -> None:
    """Write aside and rename: a crash in between must not leave half a file."""
    system, target = _locate(spark, file)
    _, aside = _locate(spark, file + ".new")
    stream = system.create(aside, True)
    stream.write(bytearray(content))
    stream.close()
    system.rename(aside, target)


def _read(spark: SparkSession, file: str) -> bytes:
    jvm: Any = spark.sparkContext._jvm
    system, target = _locate(spark, file)
    stream = system.open(target)
    try:
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()

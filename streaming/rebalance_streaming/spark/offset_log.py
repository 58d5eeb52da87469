"""Spark's offset log of a query: checks whether the query can continue from it, and changes its positions.

`offsets/N` has the positions at which batch N ends, `commits/N` exists once the batch has ended. A query continues with
the batch after the newest committed one. Spark has no API to change the positions; a Kafka source whose position is
beyond the end of a truncated log continues from the present end and skips the records written meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rebalance_streaming.brokers.log_watch import Unread
from rebalance_streaming.spark import hadoop_files
from rebalance_streaming.spark.checkpoint import damaged, query_path, unusable

#: Name of a batch's file while it is being written (Spark's CheckpointFileManager).
_UNFINISHED = re.compile(r"\.\d+\.[0-9a-f-]+\.tmp")
#: The first line of a file, and the number of lines before those of the sources (Spark's OffsetSeqLog).
_VERSION, _HEAD = b"v1", 2

#: topic -> partition -> position.
Offsets = dict[str, dict[int, int]]


def check_batches(spark: SparkSession, path: str, query: str) -> None:
    """Ensure that a query can start with the batches in its checkpoint.

    Removes an unfinished file of a first batch whose JVM was killed, because Spark fails a query without a first batch
    if there is any file below `offsets` (MicroBatchExecution.verifyNewCheckpointDirectory).

    Raises StreamError if a file of the newest batch is empty, or if the batch is committed but its offsets are missing;
    Spark's own errors for these cases do not name the checkpoint.
    """
    place = query_path(path, query)
    offsets, commits = (_sizes(spark, f"{place}/{kind}") for kind in ("offsets", "commits"))
    for kind, sizes in (("offsets", offsets), ("commits", commits)):
        if sizes and sizes[max(sizes)] == 0:
            raise damaged(path, f"{place}/{kind}/{max(sizes)}")
    if max(offsets, default=-1) < max(commits, default=-1):
        raise damaged(path, f"{place}/offsets/{max(commits)}")
    if not offsets:
        _remove_unfinished(spark, f"{place}/offsets")


def has_begun(spark: SparkSession, path: str, query: str) -> bool:
    """Return whether a query has finished a batch, so that its initial state is stored.

    Raises StreamError if the checkpoint cannot be read.
    """
    try:
        # If `commits` is lost, a second batch shows that the first one had ended.
        planned = max(_sizes(spark, f"{query_path(path, query)}/offsets"), default=0)
        return planned > 0 or _committed(spark, path, query) >= 0
    except Py4JJavaError as error:
        raise unusable(path, error) from None


def positions(spark: SparkSession, path: str, query: str) -> Offsets:
    """Return the position in each partition from which a query reads next.

    Empty if it has committed no batch, or if files cannot be read, which the start of the query reports.
    """
    try:
        batch = _committed(spark, path, query)
        return _offsets(hadoop_files.read(spark, f"{query_path(path, query)}/offsets/{batch}")) if batch >= 0 else {}
    except Py4JJavaError:
        return {}


def go_back(spark: SparkSession, path: str, query: str, unread: Mapping[str, Mapping[int, Unread]]) -> None:
    """Move a stopped query back to the start of a new era's records, in partitions where it has read none of them.

    It has read none if its position is still beyond the end of the log, or moved down to the end with its last batch.
    Other partitions are left unchanged, because records read since, under the old era, may have been counted.
    """
    if not unread:
        return
    place, committed = query_path(path, query), _committed(spark, path, query)
    batches = [each for each in _sizes(spark, f"{place}/offsets") if each >= committed - 1]
    contents = {each: hadoop_files.read(spark, f"{place}/offsets/{each}") for each in batches}
    before = _offsets(contents.pop(committed - 1, b""))
    # An interrupted batch is repeated: it must end where the previous one does.
    newest = [_offsets(content) for _, content in sorted(contents.items())]
    begins: Offsets = {}
    for topic, partitions in unread.items():
        for partition, each in partitions.items():
            at = [offsets.get(topic, {}).get(partition) for offsets in newest]
            if _has_read_none(each, at, before.get(topic, {}).get(partition)):
                begins.setdefault(topic, {})[partition] = each.begin
    if begins:
        for batch, content in contents.items():
            hadoop_files.write(spark, f"{place}/offsets/{batch}", _moved(content, begins))


def _has_read_none(unread: Unread, ends: Sequence[int | None], before: int | None) -> bool:
    """Whether the last batches, with these ends, have read none of the records; `before` is where they start.

    A batch that does not end after its start is empty.
    """
    known = [each for each in ends if each is not None]
    if not known or len(known) < len(ends) or any(later > earlier for earlier, later in pairwise(known)):
        return False
    return known[0] == unread.stood_at or (before is not None and known[0] < before)


def _offsets(content: bytes) -> Offsets:
    """Return the positions of all sources in a file; empty for another version or format."""
    try:
        sources = [_decode(line) for line in _source_lines(content).values()]
    except msgspec.MsgspecError:
        return {}
    return {topic: partitions for source in sources for topic, partitions in source.items()}


def _moved(content: bytes, begins: Offsets) -> bytes:
    lines = content.split(b"\n")
    for number, line in _source_lines(content).items():
        source = _decode(line)
        for topic in source.keys() & begins.keys():
            source[topic] |= {p: at for p, at in begins[topic].items() if p in source[topic]}
        lines[number] = msgspec.json.encode(source)
    return b"\n".join(lines)


def _source_lines(content: bytes) -> dict[int, bytes]:
    """Return the lines with a source's positions, by line number; a source without positions has a dash instead."""
    version, *lines = content.split(b"\n")
    if version != _VERSION:
        return {}
    return {number: line for number, line in enumerate(lines, 1) if number >= _HEAD and line.startswith(b"{")}


def _decode(line: bytes) -> Offsets:
    return msgspec.json.decode(line, type=Offsets)


def _committed(spark: SparkSession, path: str, query: str) -> int:
    """Return the newest batch that has ended, or -1."""
    return max(_sizes(spark, f"{query_path(path, query)}/commits"), default=-1)


def _sizes(spark: SparkSession, directory: str) -> dict[int, int]:
    """Return the size in bytes of each batch's file in a directory."""
    return {int(each.name): each.size for each in hadoop_files.listed(spark, directory) if each.name.isdecimal()}


def _remove_unfinished(spark: SparkSession, directory: str) -> None:
    for each in hadoop_files.listed(spark, directory):
        if _UNFINISHED.fullmatch(each.name):
            hadoop_files.delete(spark, f"{directory}/{each.name}")

"""The log of offsets that Spark keeps of a query: whether it can be gone on from, and from where.

`offsets/N` has the positions at which batch N ends, `commits/N` is there once it has ended. A query goes on with the
batch behind the newest committed one. Spark offers no way to move that; a source of Kafka that finds its position
behind the end of a log that was cut goes on from the end there is by then, and passes over what was written meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rebalance_streaming.log_watch import Unread
from rebalance_streaming.spark import hadoop_files
from rebalance_streaming.spark.checkpoint import damaged, query_path

#: What a file of one batch is called while it is written (CheckpointFileManager of Spark).
_UNFINISHED = re.compile(r"\.\d+\.[0-9a-f-]+\.tmp")
#: The first line of a file, and how many lines come before those of the sources (OffsetSeqLog of Spark).
_VERSION, _HEAD = b"v1", 2

#: topic -> partition -> position.
Offsets = dict[str, dict[int, int]]


def check_batches(spark: SparkSession, path: str, query: str) -> None:
    """Make sure that a query can begin with the batches that its checkpoint knows.

    A file that the first batch left unfinished when its JVM was killed is removed: Spark ends a query without a first
    batch where there is any file below `offsets` (MicroBatchExecution.verifyNewCheckpointDirectory).

    Raises StreamError where the newest batch has a file without content, or was committed and has no offsets any more:
    Spark reports neither in words that name the checkpoint.
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
    """Return whether a query has ended a batch, and so keeps what it began with."""
    # Where `commits` is lost, a second batch shows that the first one had ended.
    planned = max(_sizes(spark, f"{query_path(path, query)}/offsets"), default=0)
    return planned > 0 or _committed(spark, path, query) >= 0


def positions(spark: SparkSession, path: str, query: str) -> Offsets:
    """Return the next position that a query reads in each partition.

    Empty where it has committed no batch, and where files cannot be read: the start of the query reports that.
    """
    try:
        batch = _committed(spark, path, query)
        return _offsets(hadoop_files.read(spark, f"{query_path(path, query)}/offsets/{batch}")) if batch >= 0 else {}
    except Py4JJavaError:
        return {}


def go_back(spark: SparkSession, path: str, query: str, unread: Mapping[str, Mapping[int, Unread]]) -> None:
    """Let a query that does not run go on from where records of a new era begin, in partitions where it read none.

    It has read none where it still stands behind the end of the log, or came down to that with its last batch. Others
    are left: what was read on from there, as of the old era, may have been counted.
    """
    if not unread:
        return
    place, committed = query_path(path, query), _committed(spark, path, query)
    batches = [each for each in _sizes(spark, f"{place}/offsets") if each >= committed - 1]
    contents = {each: hadoop_files.read(spark, f"{place}/offsets/{each}") for each in batches}
    before = _offsets(contents.pop(committed - 1, b""))
    # A batch that a stop has cut is run again: it must end where the one before does.
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
    """Whether the last batches, which end there, read none of these records; `before` is where they began.

    A batch that ends where it begins, or before that, is empty.
    """
    known = [each for each in ends if each is not None]
    if not known or len(known) < len(ends) or any(later > earlier for earlier, later in pairwise(known)):
        return False
    return known[0] == unread.stood_at or (before is not None and known[0] < before)


def _offsets(content: bytes) -> Offsets:
    """Return the positions of all sources in a file; none where it is of another version or form."""
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
    """Return the lines that are positions of a source by number; a source without any yet is a dash."""
    version, *lines = content.split(b"\n")
    if version != _VERSION:
        return {}
    return {number: line for number, line in enumerate(lines, 1) if number >= _HEAD and line.startswith(b"{")}


def _decode(line: bytes) -> Offsets:
    return msgspec.json.decode(line, type=Offsets)


def _committed(spark: SparkSession, path: str, query: str) -> int:
    """Return the newest batch that has ended, -1 where there is none."""
    return max(_sizes(spark, f"{query_path(path, query)}/commits"), default=-1)


def _sizes(spark: SparkSession, directory: str) -> dict[int, int]:
    """Return the size in bytes of the file of each batch in a directory."""
    return {int(each.name): each.size for each in hadoop_files.listed(spark, directory) if each.name.isdecimal()}


def _remove_unfinished(spark: SparkSession, directory: str) -> None:
    for each in hadoop_files.listed(spark, directory):
        if _UNFINISHED.fullmatch(each.name):
            hadoop_files.delete(spark, f"{directory}/{each.name}")

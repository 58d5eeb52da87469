"""File access through Hadoop's file systems, as Spark itself does: any URI that the executors can reach is valid.

Functions raise Py4JJavaError if the file system reports an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ListedFile:
    """An entry of a directory, a file or a directory: its name without the path, and its size in bytes."""

    name: str
    size: int


def exists(spark: SparkSession, file: str) -> bool:
    """Return whether a file or directory exists."""
    system, target = _locate(spark, file)
    return bool(system.exists(target))


def read(spark: SparkSession, file: str) -> bytes:
    """Return the content of a file."""
    jvm: Any = spark.sparkContext._jvm
    system, target = _locate(spark, file)
    stream = system.open(target)
    try:
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


def write(spark: SparkSession, file: str, content: bytes) -> None:
    """Write a file atomically, replacing an existing one, with Spark's CheckpointFileManager."""
    jvm: Any = spark.sparkContext._jvm
    hadoop: Any = spark.sparkContext._jsc
    target = jvm.org.apache.hadoop.fs.Path(file)
    checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    manager = checkpointing.CheckpointFileManager.create(target.getParent(), hadoop.hadoopConfiguration())
    manager.mkdirs(target.getParent())
    stream = manager.createAtomic(target, True)
    stream.write(bytearray(content))
    stream.close()


def rename(spark: SparkSession, directory: str, name: str) -> bool:
    """Rename a directory, and return whether that succeeded; some file systems give no reason if not."""
    system, target = _locate(spark, directory)
    return bool(system.rename(target, _locate(spark, name)[1]))


def listed(spark: SparkSession, directory: str) -> list[ListedFile]:
    """Return the entries of a directory; an empty list if it does not exist."""
    system, target = _locate(spark, directory)
    if not system.exists(target):
        return []
    return [ListedFile(each.getPath().getName(), int(each.getLen())) for each in system.listStatus(target)]


def delete(spark: SparkSession, file: str) -> None:
    """Delete a file."""
    system, target = _locate(spark, file)
    system.delete(target, False)


def _locate(spark: SparkSession, file: str) -> tuple[Any, Any]:
    """Return (Hadoop's file system, path) of a file."""
    jvm: Any = spark.sparkContext._jvm
    target = jvm.org.apache.hadoop.fs.Path(file)
    hadoop: Any = spark.sparkContext._jsc
    return target.getFileSystem(hadoop.hadoopConfiguration()), target

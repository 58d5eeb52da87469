"""Files by way of Hadoop's file systems, as Spark's own: any URI that the executors reach will do.

Every function raises Py4JJavaError where the file system does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ListedFile:
    """What is in a directory, a file or another one: its name without the directory, and its size in bytes."""

    name: str
    size: int


def exists(spark: SparkSession, file: str) -> bool:
    """Return whether there is a file or directory."""
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
    """Write a file whole or not at all, in the place of any that is there, as Spark's CheckpointFileManager does."""
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
    """Return whether a directory could be given another name."""
    system, target = _locate(spark, directory)
    try:
        return bool(system.rename(target, _locate(spark, name)[1]))
    except Py4JJavaError:
        return False


def listed(spark: SparkSession, directory: str) -> list[ListedFile]:
    """Return what is in a directory; nothing where there is no such directory."""
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

"""How far a query got, as its checkpoint says.

In: the folder of a checkpoint, on any file system that Spark can write to. Out: the offsets behind the last
batch that was committed, and when that was. ::

    <checkpoint>/metadata     written once, when the query first started
    <checkpoint>/offsets/12   where batch 12 ends: a version, a line of JSON about the batch, one per source
    <checkpoint>/commits/12   batch 12 is done
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from isthmus.errors import HardFailure


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is known to be done."""

    offsets: Mapping[tuple[str, int], int]
    """By topic and partition: what to read next. Empty before the first commit."""
    time_ms: int
    """When that was written, by the clock of the file system. Everything after these offsets is younger."""


def read_checkpoint(spark: SparkSession, folder: str) -> Checkpoint | None:
    """The checkpoint in the folder; None if no query has ever started there."""
    # Not in PySpark's public interface, and the only way to a file system that Spark alone is configured for.
    jvm: Any = spark.sparkContext._jvm
    root = jvm.org.apache.hadoop.fs.Path(folder)
    files = root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def path(*names: str) -> Any:
        return jvm.org.apache.hadoop.fs.Path(root, "/".join(names))

    def modified_ms(*names: str) -> int:
        return int(files.getFileStatus(path(*names)).getModificationTime())

    def text(*names: str) -> str:
        stream = files.open(path(*names))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def batches(log: str) -> set[str]:
        listed = files.listStatus(path(log)) if files.exists(path(log)) else ()
        return {name for each in listed if (name := each.getPath().getName()).isdecimal()}

    if not files.exists(path("metadata")):
        return None
    # Spark trims both logs: only a commit whose offsets are still known says anything.
    committed = batches("commits") & batches("offsets")
    if not committed:
        return Checkpoint({}, modified_ms("metadata"))
    last = max(committed, key=int)
    written_ms = min(modified_ms("offsets", last), modified_ms("commits", last))
    return Checkpoint(parse_offsets(text("offsets", last)), written_ms)


def parse_offsets(text: str) -> dict[tuple[str, int], int]:
    """What a file of Spark's log of offsets says, for a query with one source, which is Kafka."""
    try:
        source = json.loads(text.rstrip("\n").splitlines()[-1])
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in source.items()
            for partition, offset in partitions.items()
        }
    except (IndexError, AttributeError, ValueError) as error:
        raise HardFailure(
            f"the checkpoint's offsets cannot be read: {error}",
            remedy="use the Spark that Isthmus names, or move the checkpoint away: all is then routed again",
        ) from error

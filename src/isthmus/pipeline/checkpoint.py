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
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from isthmus.errors import HardFailure


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is known to be done."""

    offsets: Mapping[tuple[str, int], int]
    """By topic and partition: what to read next. Empty before the first commit."""
    time_ms: int
    """When that was written, by the clock of the file system. Everything after these offsets is younger."""
    batch_begun: bool = False
    """Whether a batch after that has begun: Spark ends it where it was to end before it begins another."""


def read_checkpoint(spark: SparkSession, folder: str) -> Checkpoint | None:
    """The checkpoint in the folder; None if no query has ever started there."""
    return _read(_SparksFolder(spark, folder))


def read_local_checkpoint(folder: Path) -> Checkpoint | None:
    """The same for a folder of this machine, without Spark."""
    return _read(_LocalFolder(folder))


class _Folder(Protocol):
    def has(self, name: str) -> bool: ...
    def names(self, folder: str) -> set[str]: ...
    def modified_ms(self, name: str) -> int: ...
    def text(self, name: str) -> str: ...


def _read(folder: _Folder) -> Checkpoint | None:
    if not folder.has("metadata"):
        return None
    # Spark trims both logs: only a commit whose offsets are still known says anything.
    offsets, commits = (
        {name for name in folder.names(log) if name.isdecimal()} if folder.has(log) else set()
        for log in ("offsets", "commits")
    )
    if not offsets & commits:
        return Checkpoint({}, folder.modified_ms("metadata"), batch_begun=bool(offsets))
    last = max(offsets & commits, key=int)
    written_ms = min(folder.modified_ms(f"{log}/{last}") for log in ("offsets", "commits"))
    begun = int(max(offsets, key=int)) > int(last)
    return Checkpoint(parse_offsets(folder.text(f"offsets/{last}")), written_ms, begun)


class _LocalFolder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, name: str) -> bool:
        return (self._root / name).exists()

    def names(self, folder: str) -> set[str]:
        return {each.name for each in (self._root / folder).iterdir()}

    def modified_ms(self, name: str) -> int:
        return int((self._root / name).stat().st_mtime * 1000)

    def text(self, name: str) -> str:
        return (self._root / name).read_text(encoding="utf-8")


class _SparksFolder:
    """A folder on a file system that Spark alone may be configured for."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        # Not in PySpark's public interface, and the only way to such a file system.
        jvm: Any = spark.sparkContext._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._root = self._path(root)
        self._files = self._root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._path(self._root, name)))

    def names(self, folder: str) -> set[str]:
        return {each.getPath().getName() for each in self._files.listStatus(self._path(self._root, folder))}

    def modified_ms(self, name: str) -> int:
        return int(self._files.getFileStatus(self._path(self._root, name)).getModificationTime())

    def text(self, name: str) -> str:
        stream = self._files.open(self._path(self._root, name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()


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

"""Records that were read from Kafka, on their way to whoever settles them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from aiokafka.record.memory_records import MemoryRecords

from isthmus.converters import ReceivedRecord
from isthmus.journal.layout import KafkaHeaders


class ReadRecord(Protocol):
    """A record as a Kafka client gives it."""

    @property
    def offset(self) -> int: ...  # noqa: D102
    @property
    def key(self) -> bytes | None: ...  # noqa: D102
    @property
    def value(self) -> bytes | None: ...  # noqa: D102
    @property
    def headers(self) -> KafkaHeaders: ...  # noqa: D102


class PolledRecord:
    """A record that was read, on its way to a receiver."""

    def __init__(self, topic: str, partition: int, read: ReadRecord, deliveries: int = 0) -> None:
        """``deliveries`` is how often it was delivered before, in vain."""
        self.topic = topic
        self.partition = partition
        self.offset = read.offset
        self.deliveries = deliveries
        self.read = read
        self.size = 0
        """What it takes in memory, for whoever counts that."""

    @property
    def record(self) -> ReceivedRecord:
        """What converters take. It is made when it is asked for: many may wait, few are converted twice."""
        read = self.read
        return ReceivedRecord(self.topic, self.partition, self.offset, read.key, read.value, read.headers)

    @property
    def tag(self) -> bytes:
        """The delivery tag: unique on the link."""
        return b"%d_%d" % (self.partition, self.offset)

    def again(self, *, failed: bool) -> PolledRecord:
        """The same, to be delivered once more; ``failed`` if this time counts."""
        return PolledRecord(self.topic, self.partition, self.read, self.deliveries + failed)


class Lock:
    """Kafka's lock on records that were acquired together."""

    def __init__(self, until: float) -> None:
        """``until`` is by the event loop's clock."""
        self.until = until


class AcquiredRecord(PolledRecord):
    """A record that is locked for a member of a share group, until that acknowledges it."""

    def __init__(self, topic: str, partition: int, read: ReadRecord, delivery_count: int, lock: Lock) -> None:
        super().__init__(topic, partition, read, delivery_count - 1)
        self.delivery_count = delivery_count
        """How often Kafka has handed it to a member of the group, this time included."""
        self.lock = lock


OVERHEAD_BYTES: Final = 1024
"""What a record takes in memory beside its bytes, roughly."""


def held_bytes(read: ReadRecord) -> int:
    """What a record takes in memory: its value, its headers, and something for all that is kept with it."""
    value = read.value
    size = OVERHEAD_BYTES if value is None else OVERHEAD_BYTES + len(value)
    for _, header in read.headers:
        if header is not None:
            size += len(header)
    return size


AcquiredRange = tuple[int, int, int, dict[int, bytes]]
"""First offset, last offset, delivery count, no tags."""

GAP: Final = 0


def acquired_records(
    topic: str, partition: int, data: bytes | None, ranges: Sequence[AcquiredRange], lock: Lock
) -> tuple[list[AcquiredRecord], list[int]]:
    """The records of the ranges that were acquired, and the offsets in these that have no record.

    ``data`` has whole batches, of which only a part may be acquired. Compaction and control records leave
    offsets without a record: they are to be acknowledged as gaps.
    """
    found: list[AcquiredRecord] = []
    gaps: list[int] = []
    if not ranges:
        return found, gaps
    number = 0
    first, last, count, _ = ranges[0]
    expected = first
    batches = MemoryRecords(data or b"")
    while batches.has_next():
        batch = batches.next_batch()
        if batch.is_control_batch or batch.next_offset <= expected:
            continue
        for read in batch:
            offset: int = read.offset
            while offset > last:
                gaps.extend(range(expected, last + 1))
                number += 1
                if number == len(ranges):
                    return found, gaps
                first, last, count, _ = ranges[number]
                expected = first
            if offset < expected:
                continue
            if offset > expected:
                gaps.extend(range(expected, offset))
            found.append(AcquiredRecord(topic, partition, read, count, lock))
            expected = offset + 1
    while number < len(ranges):
        first, last, count, _ = ranges[number]
        gaps.extend(range(max(first, expected), last + 1))
        number += 1
    return found, gaps


def acknowledgement_batches(due: dict[int, int]) -> list[tuple[int, int, list[int], dict[int, bytes]]]:
    """Offsets with the type of their acknowledgement, as ranges of one type each."""
    batches: list[tuple[int, int, list[int], dict[int, bytes]]] = []
    offsets = sorted(due)
    first = last = offsets[0]
    kind = due[first]
    for offset in offsets[1:]:
        if offset == last + 1 and due[offset] == kind:
            last = offset
            continue
        batches.append((first, last, [kind], {}))
        first = last = offset
        kind = due[offset]
    batches.append((first, last, [kind], {}))
    return batches

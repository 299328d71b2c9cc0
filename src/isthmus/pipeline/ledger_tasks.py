"""What the ledger's query runs in Python, on the executors: pack, decide, write.

- `Packer`: journal rows in Arrow batches become events, and events become chunks for a shard.
- `LedgerProcessor`: a shard's chunks of events become chunks of updates, with Spark's state behind it.
- `UpdateWriter`: chunks of updates become records in the journal.

Between them Spark moves chunks, not records: a row of Spark's costs more in Python than a decision does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
from msgspec.structs import astuple
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from isthmus.errors import HardFailure
from isthmus.journal import layout
from isthmus.journal.layout import Op, Record
from isthmus.journal.partitions import JournalPartitions
from isthmus.kafka.options import Kafka
from isthmus.ledger.events import (
    CHUNK_BYTES,
    EVERYWHERE,
    PER_UPDATE_BYTES,
    PLAIN_FORM,
    Event,
    Update,
    in_chunks,
    message_key,
    pack,
    plain_key,
    plain_op,
    unpack_events,
    unpack_record,
    unpack_updates,
)
from isthmus.ledger.machine import Shard, shard_of
from isthmus.ledger.transactions import Holding
from isthmus.pipeline.exactly_once import Placed, Task, write_once, write_repeatable

COLUMNS = (
    "op",
    "partition",
    "offset",
    "time_ms",
    "key",
    "session",
    "transaction",
    "place",
    "expires_ms",
    "due_ms",
)
"""What `Packer` reads beside ``value`` and ``headers``: an `Event`, but for its record. None is ever null."""
DUE = -2
"""The partition of an update that is none: its key says when the shard has something to do next."""
HOLDING = -3
"""Likewise: its key is a packed `Report`."""
_ADD = (layout.OP, Op.ADD.encode())
CHUNK = "chunk binary"
SHARD_CHUNK = "shard int, chunk binary"


class Report(msgspec.Struct, array_like=True, frozen=True):
    """What a shard tells of itself."""

    shard: int
    holding: Holding


@dataclass(frozen=True, slots=True)
class Packer:
    """Packs rows of the journal into chunks of events, in order, for the shards they belong to."""

    places: JournalPartitions
    keys: tuple[int, ...]
    """The grouping key of each shard."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For ``mapInArrow``."""
        pending: dict[int, list[Event]] = {}
        sizes: dict[int, int] = {}
        for batch in batches:
            for event in events(batch):
                shard = shard_of(event, self.places)
                if shard is None:
                    continue
                pending.setdefault(shard, []).append(event)
                size = sizes.get(shard, 0) + len(event.record) + len(event.key) + PER_UPDATE_BYTES
                sizes[shard] = size
                if size >= CHUNK_BYTES:
                    yield self._chunk(shard, pending.pop(shard))
                    sizes[shard] = 0
        for shard, rest in pending.items():
            yield self._chunk(shard, rest)

    def _chunk(self, shard: int, packed: list[Event]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [
                pa.array([self.keys[shard]], pa.int32()),
                pa.array([pack(packed)], pa.binary()),
            ],
            names=["shard", "chunk"],
        )


def events(batch: pa.RecordBatch) -> Iterator[Event]:
    """The rows of an Arrow batch as events."""
    rows = zip(*(_values(batch.column(name)) for name in COLUMNS), strict=True)
    headers = batch.column("headers")
    offsets = headers.offsets.to_pylist()
    pairs = list(zip(*(_values(headers.values.field(part)) for part in ("key", "value")), strict=True))
    spans = pairwise(offsets)
    for row, value, (start, end) in zip(rows, _values(batch.column("value")), spans, strict=True):
        op, partition, offset, time_ms, key, session, transaction, place, expires_ms, due_ms = row
        record = b""
        if op in PLAIN_FORM:
            whole = pairs[start:end]
            plain = plain_op(Op(op), whole)
            own_key = plain_key(plain if plain is Op.DELAY else Op(op), key, transaction, place)
            # The index without the operation, then what follows the transaction and the place in it.
            record = pack((own_key, value, [(layout.OP, plain.encode()), *whole[1:5], *whole[7:]]))
        elif op == Op.DELAY:
            record = pack((message_key(key), value, [_ADD, *pairs[start + 1 : end]]))
        where = partition, offset, time_ms
        yield Event(op, *where, key, session, transaction, place, record, expires_ms, due_ms)


def _values(array: pa.Array) -> list[Any]:
    """An Arrow column in Python: several times faster than its own ``to_pylist``."""
    return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


read_report = msgspec.msgpack.Decoder(Report).decode


class SparkChunks:
    """Chunks in Spark's state store."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def put(self, name: str, number: int, data: bytes) -> None:
        """See `isthmus.ledger.state.Chunks`."""
        self._state.updateValue((name, number), (data,))

    def get(self, name: str, number: int) -> bytes | None:
        """See `isthmus.ledger.state.Chunks`."""
        found = self._state.getValue((name, number))
        return None if found is None else bytes(found[0])

    def remove(self, name: str, number: int) -> None:
        """See `isthmus.ledger.state.Chunks`."""
        self._state.removeKey((name, number))


class LedgerProcessor(StatefulProcessor):
    """Runs the shards of `isthmus.ledger.machine`; the grouping key is one of ``keys``."""

    def __init__(self, places: JournalPartitions, keys: Sequence[int], timeout_ms: int) -> None:
        self._places = places
        self._numbers = {key: number for number, key in enumerate(keys)}
        self._timeout_ms = timeout_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark."""
        self._handle = handle
        self._summary = handle.getValueState("summary", "data binary")
        self._chunks = handle.getMapState("chunks", "name string, number int", "data binary")

    def handleInputRows(  # noqa: N802, D102
        self,
        key: tuple[Any, ...],
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        packed = (chunk for frame in rows for chunk in frame["chunk"])
        return self._run(key, (event for chunk in packed for event in unpack_events(chunk)), timerValues)

    def handleExpiredTimer(  # noqa: N802, D102
        self,
        key: tuple[Any, ...],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        return self._run(key, (), timerValues)

    def close(self) -> None:
        """Called by Spark."""

    def _run(
        self, key: tuple[Any, ...], taken: Iterable[Event], timers: TimerValues
    ) -> Iterator[pd.DataFrame]:
        saved, number = self._summary.get(), self._numbers[int(key[0])]
        shard = Shard(
            number,
            None if saved is None else bytes(saved[0]),
            SparkChunks(self._chunks),
            self._places,
            now_ms=timers.getCurrentProcessingTimeInMs(),
            timeout_ms=self._timeout_ms,
        )
        for chunk in in_chunks(shard.run(taken)):
            yield pd.DataFrame({"chunk": [chunk]})
        summary, wake_ms = shard.save()
        self._summary.update((summary,))
        if shard.next_due_ms is not None:
            yield pd.DataFrame({"chunk": [pack([Update(DUE, str(shard.next_due_ms).encode())])]})
        if (holding := shard.holding) is not None:
            yield pd.DataFrame({"chunk": [pack([Update(HOLDING, pack(Report(number, holding)))])]})
        if wake_ms is not None:
            self._handle.registerTimer(wake_ms)


@dataclass(frozen=True, slots=True)
class UpdateWriter:
    """Writes a batch's updates: what is committed exactly once, then the tombstones, which may be repeated.

    Tombstones go last: until the committed records are there, those that they were made from must stay. What
    is not due yet is waited for, which is a moment: see `isthmus.ledger.delays`.
    """

    kafka: Kafka
    journal: str
    places: JournalPartitions
    name: str
    markers: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For ``mapInArrow``; says what was committed and removed, and what shards tell: `HOLDING`, `DUE`."""
        number, query_id, batch = _running()
        task = Task(self.name, query_id, number, self.markers)
        due: list[int] = []
        held: dict[int, Holding] = {}
        with tempfile.SpooledTemporaryFile(max_size=32 * CHUNK_BYTES) as tombstones:
            committed = _Counted(self._committed(_updates(batches), tombstones, due, held))
            write_once(self.kafka, task, batch, committed)
            any_removed = tombstones.tell() > 0
            tombstones.seek(0)
            removed = write_repeatable(self.kafka, self._tombstones(tombstones)) if any_removed else 0
        due_ms = min(due, default=None)
        reports = [[shard, *astuple(holding)] for shard, holding in held.items()]
        counts = {
            "committed": [committed.count],
            "removed": [removed],
            "due_ms": pa.array([due_ms], pa.int64()),
            "held": pa.array([reports], pa.list_(pa.list_(pa.int64()))),
        }
        yield pa.RecordBatch.from_pydict(counts)

    def _committed(
        self, updates: Iterable[Update], tombstones: Any, due: list[int], held: dict[int, Holding]
    ) -> Iterator[Placed]:
        aside: list[Update] = []
        for update in updates:
            if update.partition == DUE:
                due.append(int(update.key))
            elif update.partition == HOLDING:
                report = read_report(update.key)
                held[report.shard] = report.holding  # the last one holds
            elif update.record is None:
                aside.append(update)
                if len(aside) == 1_000:
                    _spool(aside, tombstones)
            else:
                time.sleep(max(0.0, update.due_ms / 1000 - time.time()))
                yield Placed(self.journal, update.partition, unpack_record(update.record))
        _spool(aside, tombstones)

    def _tombstones(self, spooled: Any) -> Iterator[Placed]:
        while length := spooled.read(4):
            for update in unpack_updates(spooled.read(int.from_bytes(length))):
                everywhere = update.partition == EVERYWHERE
                for partition in range(self.places.partitions) if everywhere else (update.partition,):
                    yield Placed(self.journal, partition, Record(update.key, None, []))


def _running() -> tuple[int, str, int]:
    """The number of the task that runs, the id of its query, and the batch."""
    if (context := TaskContext.get()) is not None:
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query_id is not None and batch is not None:
            return context.partitionId(), query_id, int(batch)
    # Without them the markers of one checkpoint would be taken for another's.
    raise HardFailure("Spark does not say which query runs", remedy="use the Spark that Isthmus names")


def _updates(batches: Iterable[pa.RecordBatch]) -> Iterator[Update]:
    for batch in batches:
        for chunk in _values(batch.column("chunk")):
            yield from unpack_updates(chunk)


def _spool(aside: list[Update], spool: Any) -> None:
    if aside:
        packed = pack(aside)
        spool.write(len(packed).to_bytes(4) + packed)
        aside.clear()


class _Counted:
    """An iterable that knows how many there were."""

    def __init__(self, placed: Iterable[Placed]) -> None:
        self._placed = placed
        self.count = 0

    def __iter__(self) -> Iterator[Placed]:
        for each in self._placed:
            self.count += 1
            yield each

"""Reads a topic on the event loop: as a member of a consumer group, or from given positions.

Out come records as aiokafka decodes them, only committed ones, each partition in its order. It reads ahead by
one answer of each broker, `FETCH_BYTES` at most, and asks for the next once all of that was taken: so memory
is bounded. Records are decoded as they are taken, so that no turn of the loop is long.

A Kafka that restarts, or was moved, is waited for and read on where it was left, and a partition without a
leader keeps nobody from the others. `Consumer.poll` raises only what no waiting helps: missing rights, or a
topic that is gone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord, TopicPartition

from isthmus.kafka.client import ResilientClient
from isthmus.kafka.faults import OFFSET_OUT_OF_RANGE, Fault, kind, raise_for, reason
from isthmus.kafka.member import FIRST_PAUSE_S, LONGEST_PAUSE_S, GroupMember, Timings
from isthmus.kafka.options import Kafka

EARLIEST: Final = -2
LATEST: Final = -1
COMMITTED: Final = -3
"""Positions that are not offsets: the beginning, the end, and where the group is."""

FETCH_BYTES: Final = 4 * 2**20
"""How much one answer has of all partitions together. A record that is larger comes alone."""
PARTITION_BYTES: Final = 2**20
WAIT_MS: Final = 5_000
"""How long a broker that has nothing waits for something. It answers as soon as it has."""
REQUEST_TIMEOUT_S: Final = 15.0
"""Longer than a rebalance, whose answer waits for other members."""
COMMIT_S: Final = 5.0
_CONSUMER: Final = -1
_FETCHES: Final = "fetches"
"""The name of the connections on which fetches wait."""
_NOBODY: Final = -1
"""Who leads a partition without a leader."""


class Listener(Protocol):
    """Told which partitions are read."""

    def on_assigned(self, partitions: Collection[int]) -> None:
        """Records of these may come from now on."""
        ...

    async def on_revoked(self, partitions: Collection[int]) -> None:
        """These are about to be somebody else's: what is to be committed must be now."""
        ...

    def on_lost(self, partitions: Collection[int]) -> None:
        """Nothing more comes of these, and nothing of them can be committed."""
        ...


class Consumer:
    """Reads one topic, from `start` to `close`, for one task. To be used on one event loop."""

    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        *,
        group: str = "",
        positions: Mapping[int, int] | None = None,
        reset: int = EARLIEST,
        listener: Listener | None = None,
        timings: Timings | None = None,
        wait_ms: int = WAIT_MS,
    ) -> None:
        """``positions`` are offsets by partition, or `EARLIEST`, `LATEST`, `COMMITTED`.

        Without them the group shares the partitions out. ``reset`` is where to begin if the group has
        committed nothing, or what it has is no longer there.
        """
        self._client = ResilientClient(kafka, request_timeout_s=REQUEST_TIMEOUT_S)
        self._topic = topic
        self._positions = positions
        self._reset = reset
        self._listener = listener
        self._timings = timings or Timings()
        self._wait_ms = wait_ms
        self._member = GroupMember(self._client, group, topic, timings=self._timings) if group else None
        self._partitions: dict[int, _Partition] | None = None
        """Those that are assigned; None while they are not known."""
        self._paused = True
        self._changed = asyncio.Event()
        """Something is to be fetched, or may be."""
        self._arrived = asyncio.Event()
        """Something can be polled, or is known to be at its end."""
        self._restarts = False
        """Whether what is asked of brokers is of no use any more."""
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: Exception | None = None
        self._troubles: dict[int, str] = {}
        """What is wrong, by the broker that it is wrong with."""
        self._pauses_s: dict[int, float] = {}
        self._missing_since: float | None = None

    @property
    def trouble(self) -> str:
        """What keeps it from reading at the moment; empty while all is well."""
        own = "" if self._member is None else self._member.trouble
        return own or next(iter(self._troubles.values()), "")

    @property
    def assigned(self) -> Collection[int] | None:
        """What it reads; None while that is not known."""
        return None if self._partitions is None else self._partitions.keys()

    @property
    def at_end(self) -> bool:
        """Whether all that its partitions have was taken: nothing is left, as far as Kafka has said."""
        return self._partitions is not None and all(each.at_end for each in self._partitions.values())

    @property
    def lag(self) -> int:
        """How many records of its partitions are yet to be taken, as far as Kafka has said."""
        return sum(each.lag for each in (self._partitions or {}).values())

    def start(self) -> None:
        """Begin: join the group, but read nothing before `resume`."""
        if self._positions is None:
            self._spawn(self._be_member())
        else:
            self._assign(self._positions)
        self._spawn(self._fetch_on())

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        self._changed.set()

    def pause(self) -> None:
        """Read nothing more, and forget what was read ahead. It stays in its group."""
        self._paused = True
        for each in (self._partitions or {}).values():
            each.forget()

    def seek(self, partition: int, offset: int) -> None:
        """Read a partition on from an offset, if it is assigned."""
        if self._partitions is not None and partition in self._partitions:
            self._partitions[partition].go_to(offset)
            self._restart()

    async def poll(self, max_records: int, timeout_s: float) -> list[ConsumerRecord]:
        """Records, as soon as there are some.

        None if there are none in that time, or if something else has changed: Kafka has said that all is at
        its end, partitions were assigned, or somebody called `wake`. Raises `KafkaError` if there never will
        be any.
        """
        self._arrived.clear()
        records = self._take(max_records)
        if not records and self._failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._arrived.wait()
            records = self._take(max_records)
        if self._failure is not None and not records:
            raise self._failure
        return records

    def wake(self) -> None:
        """Have `poll` return."""
        self._arrived.set()

    async def look_at_ends(self) -> None:
        """Have `lag` be true while nothing is taken. As it was, if Kafka does not answer."""
        partitions = {number: each for number, each in (self._partitions or {}).items() if each.position >= 0}
        with suppress(KafkaError, OSError):
            leaders = await self._client.leaders(self._topic)
            for node_id in {leaders[number] for number in partitions.keys() & leaders.keys()}:
                asked = {number: LATEST for number in partitions if leaders.get(number) == node_id}
                for number, end in (await self._list_offsets(node_id, asked)).items():
                    partitions[number].end = max(end, partitions[number].end or 0)

    async def commit(self, offsets: Mapping[int, int], timeout_s: float = COMMIT_S, note: str = "") -> None:
        """Commit offsets of partitions in the group's name, with a note. Raises what `kind` judges.

        A Kafka that cannot take it now is asked again in that time.
        """
        assert self._member is not None
        member = self._member
        await self._client.patiently(lambda: member.commit(offsets, note), timeout_s)

    async def close(self) -> None:
        """Leave the group and let go of Kafka, within seconds. Nothing is committed."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._member is not None:
            await self._member.leave()
        await self._client.close()

    # What is read

    async def on_assigned(self, partitions: Collection[int]) -> None:
        """See `isthmus.kafka.member.Assignments`."""
        self._assign(dict.fromkeys(partitions, COMMITTED))

    async def on_revoked(self, partitions: Collection[int]) -> None:
        """See `isthmus.kafka.member.Assignments`."""
        self._partitions = None
        if self._listener is not None:
            await self._listener.on_revoked(partitions)

    async def on_lost(self, partitions: Collection[int]) -> None:
        """See `isthmus.kafka.member.Assignments`."""
        self._partitions = None
        if self._listener is not None:
            self._listener.on_lost(partitions)

    def _assign(self, positions: Mapping[int, int]) -> None:
        self._partitions = {
            number: _Partition(self._topic, number, position) for number, position in positions.items()
        }
        if self._listener is not None:
            self._listener.on_assigned(positions.keys())
        self._restart()
        self._arrived.set()

    async def _be_member(self) -> None:
        assert self._member is not None
        try:
            await self._member.run(self)
        except Exception as error:  # whatever it is, those who poll must hear of it
            self._fail(error)

    def _take(self, max_records: int) -> list[ConsumerRecord]:
        taken: list[ConsumerRecord] = []
        partitions = list((self._partitions or {}).values())
        for each in partitions:
            if len(taken) >= max_records:
                break
            try:
                taken += each.take(max_records - len(taken))
            except KafkaError as error:  # it was damaged on its way: it is fetched again
                self._troubles[_NOBODY] = reason(error)
                each.forget()
        if partitions and not any(each.has_records for each in partitions):
            self._changed.set()
        return taken

    # How it is read

    def _restart(self) -> None:
        self._restarts = True
        self._changed.set()

    async def _fetch_on(self) -> None:
        """Have one fetch wait at every broker that leads partitions, once all that it gave was taken."""
        in_flight: dict[int, asyncio.Task[None]] = {}
        try:
            while True:
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait({changed, *in_flight.values()}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                self._changed.clear()
                if self._restarts:
                    self._restarts = False
                    await self._abort(in_flight)
                for node_id in [each for each, task in in_flight.items() if task.done()]:
                    in_flight.pop(node_id).result()
                if not self._paused and self._partitions:
                    await self._start_fetches(self._partitions, in_flight)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # whatever it is, those who poll must hear of it
            self._fail(error)
        finally:
            await self._abort(in_flight)

    async def _abort(self, in_flight: dict[int, asyncio.Task[None]]) -> None:
        tasks = list(in_flight.values())
        in_flight.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._client.drop(_FETCHES)  # a broker answers what comes next behind what waits there

    async def _start_fetches(
        self, partitions: dict[int, _Partition], in_flight: dict[int, asyncio.Task[None]]
    ) -> None:
        problem: Exception = LeaderNotAvailableError(self._topic)
        leaders: dict[int, int] = {}
        try:
            leaders = await self._client.leaders(self._topic)
        except (KafkaError, OSError) as error:
            problem = error
        by_leader: dict[int, list[_Partition]] = {}
        for each in partitions.values():
            by_leader.setdefault(leaders.get(each.number, _NOBODY), []).append(each)
        for node_id in self._troubles.keys() - by_leader.keys():
            del self._troubles[node_id]
        for node_id, led in by_leader.items():
            if node_id not in in_flight and not any(each.has_records for each in led):
                work = self._serve(node_id, led) if node_id != _NOBODY else self._rest(_NOBODY, problem)
                in_flight[node_id] = asyncio.ensure_future(work)

    async def _serve(self, node_id: int, partitions: list[_Partition]) -> None:
        """Fetch once from a broker. Raises only what no waiting helps."""
        try:
            await self._find_positions(node_id, partitions)
            await self._fetch(node_id, partitions)
        except (KafkaError, OSError) as error:
            await self._rest(node_id, error)
        else:
            self._troubles.pop(node_id, None)
            self._pauses_s.pop(node_id, None)
            self._missing_since = None

    async def _rest(self, node_id: int, error: Exception) -> None:
        """Leave a broker alone for a while. Raises the error if that is in vain."""
        if kind(error) is not Fault.RETRIABLE:
            raise error
        if isinstance(error, UnknownTopicOrPartitionError):
            now = asyncio.get_running_loop().time()
            self._missing_since = self._missing_since or now
            if now - self._missing_since > self._timings.missing_s:
                raise error
        self._troubles[node_id] = reason(error)
        self._client.forget_topic(self._topic)
        pause_s = self._pauses_s.get(node_id, FIRST_PAUSE_S)
        self._pauses_s[node_id] = min(2 * pause_s, LONGEST_PAUSE_S)
        await asyncio.sleep(pause_s)

    async def _find_positions(self, node_id: int, partitions: list[_Partition]) -> None:
        """Turn beginnings, ends and what is committed into offsets."""
        committed = [each for each in partitions if each.position == COMMITTED]
        if committed:
            assert self._member is not None
            found = await self._member.committed([each.number for each in committed])
            for each in committed:
                each.go_to(found.get(each.number, self._reset))
        unknown = {each.number: each for each in partitions if each.position < 0}
        if unknown:
            asked = {number: each.position for number, each in unknown.items()}
            for number, offset in (await self._list_offsets(node_id, asked)).items():
                unknown[number].go_to(offset)

    async def _list_offsets(self, node_id: int, asked: Mapping[int, int]) -> dict[int, int]:
        """What `EARLIEST` and `LATEST` are, by partition."""
        request = OffsetRequest(_CONSUMER, READ_COMMITTED, [(self._topic, list(asked.items()))])
        answer = await self._client.send(node_id, request)
        found = {}
        for number, code, _, offset in (each for _, offsets in answer.topics for each in offsets):
            raise_for(code)
            found[number] = offset
        return found

    async def _fetch(self, node_id: int, partitions: list[_Partition]) -> None:
        """Ask a broker for what its partitions have. It waits only if they are known to have nothing."""
        wait_ms = self._wait_ms if all(each.at_end for each in partitions) else 0
        begun = {each.number: (each, each.position) for each in partitions}
        asked = [(number, position, PARTITION_BYTES) for number, (_, position) in begun.items()]
        random.shuffle(asked)  # those at the end may get nothing of an answer that is full
        request = FetchRequest(wait_ms, 1, FETCH_BYTES, READ_COMMITTED, [(self._topic, asked)])
        answer = await self._client.send(node_id, request, connection=_FETCHES)
        problem: int = getattr(answer, "error_code", 0)
        for number, code, *rest in (each for _, answers in answer.topics for each in answers):
            partition, position = begun[number]
            if self._paused or partition.position != position:
                continue  # it is read elsewhere by now
            if code == OFFSET_OUT_OF_RANGE:
                partition.go_to(self._reset)
            elif code:
                problem = code
            else:
                partition.keep(*_content(answer.API_VERSION, rest))
        self._arrived.set()
        raise_for(problem)

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._arrived.set()

    def _spawn(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))


class _Partition:
    """Where a partition is read, and what was read ahead of it."""

    def __init__(self, topic: str, number: int, position: int) -> None:
        self.number = number
        self.position = position
        """The offset of what is taken next."""
        self._topic_partition = TopicPartition(topic, number)
        self._records: PartitionRecords | None = None
        self.end: int | None = None
        """Behind what readers of committed records may see, as far as Kafka has said."""

    @property
    def has_records(self) -> bool:
        """Whether something was read ahead."""
        return self._records is not None

    @property
    def lag(self) -> int:
        """How many offsets lie before the end."""
        return 0 if self.end is None or self.position < 0 else max(0, self.end - self.position)

    @property
    def at_end(self) -> bool:
        """Whether all that there was has been taken."""
        return self.end is not None and self._records is None and self.position >= self.end

    def go_to(self, position: int) -> None:
        """Read on from there."""
        self.position = position
        self._records = self.end = None

    def forget(self) -> None:
        """Read again what was read ahead."""
        if self._records is not None:
            self.go_to(self.position)

    def keep(self, data: bytes, aborted: list[tuple[int, int]] | None, end: int) -> None:
        """Have what a broker answered ready to be taken."""
        batches = MemoryRecords(data)
        self.end = end if batches.has_next() else self.position
        if batches.has_next():
            self._records = PartitionRecords(
                self._topic_partition, batches, aborted, self.position, None, None, True, READ_COMMITTED
            )

    def take(self, count: int) -> list[ConsumerRecord]:
        """The next records. Raises `KafkaError` if they are damaged."""
        taken: list[ConsumerRecord] = []
        records = self._records
        if records is None:
            return taken
        while len(taken) < count:
            record = next(records, None)
            if record is None:
                self._records = None
                break
            taken.append(record)
        self.position = records.next_fetch_offset  # also behind what is not for readers
        return taken


def _content(version: int, answer: list[Any]) -> tuple[bytes, list[tuple[int, int]] | None, int]:
    """The records of a partition, which of them were rolled back, and where committed ones end."""
    _, stable_end, *more = answer
    return more[-1], more[1] if version >= 5 else more[0], stable_end

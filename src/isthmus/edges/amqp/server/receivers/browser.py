"""What is in a queue, for those who look and take nothing.

It is what the queue's share group is not done with, up to where the topic ended when the browser came. What
others have received and not yet acknowledged is among it. What was sent before the browser came may be on its
way to the topic still: the browser waits for it, for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from isthmus.edges.amqp.server.receivers.group import SentFrom
from isthmus.edges.amqp.server.receivers.record_source import (
    KAFKA_SUBSCRIBE,
    Acknowledgement,
    RecordSink,
)
from isthmus.kafka.consumer import EARLIEST, Consumer
from isthmus.kafka.faults import reason
from isthmus.kafka.options import Kafka
from isthmus.kafka.records import PolledRecord
from isthmus.kafka.share_state import PartitionState

BATCH: Final = 200
"""How many records are handed over in one turn of the loop."""
LATE_S: Final = 0.2
"""How long a browser waits, from when it came, for what was sent before: it takes the router some
milliseconds to publish that."""
_FOREVER_S: Final = 3600.0


class BrowserSource:
    """The records of a queue, once each."""

    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        states: Mapping[int, PartitionState],
        ends: Mapping[int, int],
        since: SentFrom | None = None,
        *,
        late_s: float = LATE_S,
    ) -> None:
        """``since`` is when the browser came; without it nothing is waited for."""
        self._states = states
        self._ends = {number: end for number, end in ends.items() if end > states[number].start}
        """Where the partitions end that are not read to their end yet."""
        self._since = since
        self._clock = asyncio.get_running_loop().time
        self._late_until = 0.0 if since is None else self._clock() + late_s
        positions = {
            number: (states[number].start or EARLIEST) if number in self._ends else end
            for number, end in ends.items()
        }
        self._consumer = Consumer(kafka, topic, positions=positions)
        self._requested = 0
        self._demand = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._sink: RecordSink

    def start(self, sink: RecordSink) -> None:
        """Begin to read."""
        self._sink = sink
        self._reading = asyncio.create_task(self._run())

    def request(self, count: int, *, drain: bool = False) -> None:  # noqa: ARG002
        """Have that many records handed over; whoever asks after the last one is told that there is none."""
        self._requested = count
        if count:
            self._demand.set()

    def holds(self, record: PolledRecord) -> bool:  # noqa: ARG002
        """Nobody takes it away."""
        return True

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Whatever becomes of a copy, the record stays."""

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:  # noqa: ARG002
        """Each comes once in any case."""
        return True

    async def close(self) -> None:
        """Let go of Kafka."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._consumer.close()

    async def _run(self) -> None:
        try:
            await self._read()
        except (KafkaError, OSError) as error:
            self._sink.on_failed(KAFKA_SUBSCRIBE, reason(error))
            return
        while True:
            self._demand.clear()
            if self._requested:
                self._sink.on_idle()
            await self._demand.wait()

    async def _read(self) -> None:
        consumer = self._consumer
        if self._ends or self._late_until:
            consumer.start()
            consumer.resume()
        while True:
            await self._wait()
            wait_s = _FOREVER_S if self._ends else self._late_until - self._clock()
            if wait_s <= 0:
                return
            read = await consumer.poll(min(self._requested, BATCH), wait_s)
            found = [PolledRecord(each.topic, each.partition, each) for each in read if self._is_there(each)]
            if not read and consumer.at_end:
                self._ends.clear()
            self._requested = max(0, self._requested - len(found))
            if found:
                self._sink.on_records(found)
            await asyncio.sleep(0)  # others want their turn

    def _is_there(self, record: ConsumerRecord) -> bool:
        partition, offset = record.partition, record.offset
        end = self._ends.get(partition)
        if end is not None and offset + 1 >= end:
            del self._ends[partition]
        if end is None or offset >= end:
            return self._since is not None and not self._since.is_after(record.headers)
        return self._states[partition].has(offset)

    async def _wait(self) -> None:
        """Return when records are wanted."""
        while not self._requested:
            self._demand.clear()
            await self._demand.wait()

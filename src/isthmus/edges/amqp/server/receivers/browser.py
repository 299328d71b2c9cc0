"""What is in a queue, for those who look and take nothing.

It is what the queue's share group is not done with, up to where the topic ended when the browser came, and
what had been accepted by then was published. What others have received and not yet acknowledged is among it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

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
_FOREVER_S: Final = 3600.0


class BrowserSource:
    """The records of a queue, once each."""

    def __init__(
        self, kafka: Kafka, topic: str, states: Mapping[int, PartitionState], ends: Mapping[int, int]
    ) -> None:
        self._states = states
        self._ends = {number: end for number, end in ends.items() if end > states[number].start}
        """Where the partitions end that are not read to their end yet."""
        positions = {number: states[number].start or EARLIEST for number in self._ends}
        self._consumer = Consumer(kafka, topic, positions=positions) if positions else None
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
        if self._consumer is not None:
            await self._consumer.close()

    async def _run(self) -> None:
        try:
            if self._consumer is not None:
                await self._read(self._consumer)
        except (KafkaError, OSError) as error:
            self._sink.on_failed(KAFKA_SUBSCRIBE, reason(error))
            return
        while True:
            self._demand.clear()
            if self._requested:
                self._sink.on_idle()
            await self._demand.wait()

    async def _read(self, consumer: Consumer) -> None:
        consumer.start()
        consumer.resume()
        while self._ends:
            await self._wait()
            read = await consumer.poll(min(self._requested, BATCH), _FOREVER_S)
            found = [PolledRecord(each.topic, each.partition, each) for each in read if self._is_there(each)]
            if not read and consumer.at_end:
                return
            self._requested = max(0, self._requested - len(found))
            if found:
                self._sink.on_records(found)
            await asyncio.sleep(0)  # others want their turn

    def _is_there(self, record: ConsumerRecord) -> bool:
        partition, offset = record.partition, record.offset
        end = self._ends.get(partition)
        if end is not None and offset + 1 >= end:
            del self._ends[partition]
        return end is not None and offset < end and self._states[partition].has(offset)

    async def _wait(self) -> None:
        """Return when records are wanted."""
        while not self._requested:
            self._demand.clear()
            await self._demand.wait()

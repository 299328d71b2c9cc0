"""What becomes of a message that an edge can never handle: what the error policy says.

``dead-letter`` writes it to ``routing.dead-letter.topic``, with all that is known of it; ``skip`` leaves a
line in the log; ``stop`` ends the bridge, and the message stays where it is. It counts as kept when Kafka has
it on all in-sync replicas.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from aiokafka.errors import KafkaError

from isthmus.config import Settings
from isthmus.converters import ReceivedRecord
from isthmus.edges.contract import OutboundMessage
from isthmus.errors import EncodeError, HardFailure, IsthmusError, SoftFailure
from isthmus.events.edges import MessageDeadLettered, MessageSkipped
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.kafka.faults import reason
from isthmus.kafka.options import Kafka
from isthmus.kafka.producer import ResilientProducer
from isthmus.message import Message
from isthmus.routing.route import OnError, Route

WRITE_TIMEOUT_S: Final = 30.0
"""After which a Kafka that does not take a dead letter is a failure of whoever has it."""


class EdgeDeadLetters:
    """Keeps what edges cannot handle. To be used and closed on one event loop."""

    def __init__(self, settings: Settings, kafka: Kafka) -> None:
        self._bridge_id = settings.bridge_id
        self._topic = settings.routing.dead_letter_topic
        self._policy: OnError
        self._routes: Mapping[tuple[str, str | None], Route]
        self.change(settings)
        self._kafka = kafka
        self._producer: ResilientProducer | None = None
        self._opening = asyncio.Lock()

    def change(self, settings: Settings) -> None:
        """Go by other routes and their error policies. The topic stays."""
        self._policy = settings.routing.on_error
        self._routes = {(route.topic, route.destination): route for route in settings.routes}

    async def close(self) -> None:
        """Let go of Kafka."""
        if self._producer is not None:
            await self._producer.close()

    async def message(self, message: Message, failure: SoftFailure) -> None:
        """Keep a message that an intake cannot take."""
        await self._keep(_record(message), failure, self._policy, message.address)

    async def outbound(self, outbox: str, message: OutboundMessage, failure: SoftFailure) -> None:
        """Keep a message of an outbox that cannot be delivered."""
        route = self._routes.get((outbox, message.destination))
        headers = [
            *message.record.headers,
            # In front of whose it is: by that a dead letter of an outbox is known.
            (layout.STABLE_ID, message.id.encode()),
            (layout.DESTINATION, message.destination.encode()),
        ]
        policy = route.on_error if route is not None and route.on_error is not None else self._policy
        name = route.name if route is not None else ""
        where = f"{message.destination}, {message.id}"
        await self._keep(message.record._replace(headers=headers), failure, policy, where, name)

    async def received(self, record: ReceivedRecord, failure: SoftFailure) -> None:
        """Keep a record that no receiver takes. What a client rejects never ends the bridge."""
        policy = OnError.SKIP if self._policy is OnError.STOP else self._policy
        place = layout.stable_id(record.topic, record.partition, record.offset)
        headers = [*record.headers, (layout.STABLE_ID, place.encode())]
        await self._keep(Record(record.key, record.value, headers), failure, policy, place)

    async def _keep(
        self, record: Record, failure: SoftFailure, policy: OnError, where: str, route: str = ""
    ) -> None:
        if policy is OnError.SKIP:
            MessageSkipped(where, failure.code, str(failure)).emit()
            return
        if policy is OnError.STOP or self._topic is None:
            raise HardFailure(
                f"{where}: a message cannot be handled: {failure}",
                remedy="see to the message, or set routing.on-error to skip or dead-letter",
            )
        marked = [
            *record.headers,
            (layout.ORIGIN, self._bridge_id.encode()),
            (layout.ERROR_CODE, failure.code.encode()),
            (layout.ERROR_MESSAGE, str(failure).encode(errors="replace")),
            (layout.ERROR_ROUTE, route.encode()),
        ]
        await self._write(self._topic, record._replace(headers=marked))
        MessageDeadLettered(where, failure.code, str(failure)).emit()

    async def _write(self, topic: str, record: Record) -> None:
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                refusal = await self._produce(topic, record)
        except TimeoutError:
            refusal = f"not within {WRITE_TIMEOUT_S:g} s"
        except (KafkaError, OSError, HardFailure) as error:
            refusal = reason(error)
        if refusal is not None:
            raise HardFailure(
                f"a dead letter cannot be written to {topic}: {refusal}",
                remedy="check that the topic exists, may be written, and takes records of this size",
            )

    async def _produce(self, topic: str, record: Record) -> IsthmusError | str | None:
        producer = await self._open()
        # The topic has the say on what is too large, not the client.
        batch = producer.new_batch()
        batch.append(record, int(time.time() * 1000))
        partition = zlib.crc32(record.key or b"") % await producer.partitions(topic)
        return await producer.write(batch, topic, partition)

    async def _open(self) -> ResilientProducer:
        """The producer, which is made for the first dead letter: most bridges have none."""
        async with self._opening:
            if self._producer is None:
                producer = ResilientProducer(self._kafka)
                await producer.open()
                self._producer = producer
            return self._producer


def _record(message: Message) -> Record:
    try:
        return layout.encode(Entry(Op.ADD, message))
    except EncodeError:  # what cannot be encoded is in the headers: the message itself is not lost
        return layout.encode(Entry(Op.ADD, replace(message, id="", address="", session="", headers={})))

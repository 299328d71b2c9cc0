"""What becomes of a message that an edge can never handle: what the error policy says.

``dead-letter`` writes it to ``routing.dead-letter.topic``, with all that is known of it; ``skip`` leaves a
line in the log; ``stop`` ends the bridge, and the message stays where it is. It counts as kept when Kafka has
it on all in-sync replicas.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from isthmus.config import Settings
from isthmus.converters import ReceivedRecord
from isthmus.edges.contract import OutboundMessage
from isthmus.errors import EncodeError, HardFailure, SoftFailure
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.kafka.blocking import QUIET
from isthmus.kafka.options import Kafka
from isthmus.message import Message
from isthmus.routing.route import OnError, Route

log = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 30.0


class EdgeDeadLetters:
    """Keeps what edges cannot handle. To be used on an event loop."""

    def __init__(self, settings: Settings, kafka: Kafka) -> None:
        self._bridge_id = settings.bridge_id
        self._topic = settings.routing.dead_letter_topic
        self._policy = settings.routing.on_error
        self._routes: Mapping[tuple[str, str | None], Route] = {
            (route.topic, route.destination): route for route in settings.routes
        }
        self._kafka = kafka
        self._producer: Producer | None = None

    async def message(self, message: Message, failure: SoftFailure) -> None:
        """Keep a message that an intake cannot take."""
        await self._keep(_record(message), failure, self._policy, message.address)

    async def letter(self, outbox: str, letter: OutboundMessage, failure: SoftFailure) -> None:
        """Keep a letter that cannot be delivered."""
        route = self._routes.get((outbox, letter.destination))
        headers = [
            *letter.record.headers,
            (layout.STABLE_ID, letter.id.encode()),
            (layout.DESTINATION, letter.destination.encode()),
        ]
        policy = route.on_error if route is not None and route.on_error is not None else self._policy
        name = route.name if route is not None else ""
        where = f"{letter.destination}, {letter.id}"
        await self._keep(letter.record._replace(headers=headers), failure, policy, where, name)

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
            log.warning("%s: a message was skipped: %s", where, failure)
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
        write = partial(self._write, self._topic, record._replace(headers=marked))
        await asyncio.get_running_loop().run_in_executor(None, write)

    def _write(self, topic: str, record: Record) -> None:
        outcomes: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _: Delivered) -> None:
            outcomes.append(error)

        # The topic has the say on what is too large, not the client.
        options = {
            **self._kafka.python_options(),
            "enable.idempotence": True,
            "message.max.bytes": 1_000_000_000,
        }
        producer = self._producer = self._producer or Producer(options, logger=QUIET)
        problem = "Kafka does not answer"
        try:
            producer.produce(
                topic, key=record.key, value=record.value, headers=list(record.headers), on_delivery=delivered
            )
            producer.flush(WRITE_TIMEOUT_S)
            if outcomes == [None]:
                return
            if outcomes and outcomes[0] is not None:
                problem = outcomes[0].str()
        except KafkaException as error:
            problem = error.args[0].str()
        self._producer = None  # it may be one that has lost its brokers for ever
        raise HardFailure(
            f"a dead letter cannot be written to {topic}: {problem}",
            remedy="check that the topic exists, may be written, and takes records of this size",
        )


def _record(message: Message) -> Record:
    try:
        return layout.encode(Entry(Op.ADD, message))
    except EncodeError:  # what cannot be encoded is in the headers: the message itself is not lost
        return layout.encode(Entry(Op.ADD, replace(message, id="", address="", session="", headers={})))

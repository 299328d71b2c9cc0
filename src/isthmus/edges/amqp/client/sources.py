"""A link to one address of a broker that messages are taken from, over one connection.

Messages of one address keep their order in the journal. An address that the broker does not let us have is
asked for again, with longer and longer waits in between.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from isthmus.codecs.jms import to_message
from isthmus.config.model.brokers import Node
from isthmus.edges.amqp.client.connection import BrokerConnection, said
from isthmus.edges.amqp.entry import entry_of
from isthmus.edges.amqp.protocol import Attach, Delivery, Receiver
from isthmus.edges.amqp.protocol.conditions import MESSAGE_SIZE_EXCEEDED
from isthmus.edges.amqp.protocol.performatives import UNSETTLED
from isthmus.edges.amqp.protocol.terms import ACCEPTED, OUTCOMES, RELEASED, Error, Rejected, Source, Target
from isthmus.errors import IsthmusError, OversizeFailure, SoftFailure
from isthmus.journal.layout import Entry
from isthmus.message import Body, BodyKind, Message

if TYPE_CHECKING:
    from isthmus.edges.amqp.client.intake import AmqpIntake

log = logging.getLogger(__name__)

_OUTCOMES: Final = tuple(each.SYMBOL for each in OUTCOMES)
_UNSETTLED_STATE: Final = 2
"""What the source of a durable subscription keeps: its messages, and what became of them."""
_INDEX_BYTES: Final = 1024
"""More than the journal's index takes in a record."""
_HEADER_BYTES: Final = 16
"""More than Kafka and the types take for a header, beside its name and text."""


class BrokerSource:
    """The messages of one address, over one connection."""

    def __init__(self, intake: AmqpIntake, connection: BrokerConnection, node: Node) -> None:
        self._intake = intake
        self._connection = connection
        self._node = node
        self._window = intake.client.broker.credit
        self._attempts = 0
        self._count = 0
        self._run = uuid.uuid4().hex
        self._session = f"amqp:{intake.client.name}:{node.address}"
        self._link: Receiver | None = None

    def attach(self) -> None:
        """Ask the broker for the address."""
        if self._connection.ended.done() or self._intake.ending:
            return
        durable = self._intake.client.broker.durable if self._node.is_topic else None
        name = f"{durable or self._intake.client.container_id}:{self._node.address}"
        self._link = link = self._connection.session.receiver(name)
        link.handler = self
        link.snd_settle_mode = UNSETTLED
        source = Source(
            self._node.address,
            durable=_UNSETTLED_STATE if durable else 0,
            expiry_policy="never" if durable else "session-end",
            outcomes=_OUTCOMES,
            capabilities=(self._node.capability,),
        )
        link.attach(source=source, target=Target(self._node.address))
        self._connection.wake()

    def top_up(self) -> None:
        """Give credit for what was decided, in one go for many messages."""
        link = self._link
        if link is None or not link.attached or self._intake.ending:
            return
        room = self._window - link.credit - self._intake.under_way[self._node]
        if room > 0 and link.credit <= self._window >> 1:
            link.grant(room)
            self._connection.wake()

    # What the connection calls

    def on_attach(self, attach: Attach) -> None:
        """Grant the first credit, unless a refusal follows."""
        source = attach.source
        if not isinstance(source, Source):
            return
        if source.address is None:  # proton's way to begin a refusal; it may also just not say it again
            self._intake.answered(self._node)
        else:
            self._attempts = 0
            self._intake.attached(self._node)
        self.top_up()

    def on_detach(self, *, closed: bool, error: Error | None) -> None:  # noqa: ARG002
        """Ask again later. With the connection gone, another takes this one's place."""
        if self._link is not None:
            self._link.detach()
        if self._connection.ended.done() or self._intake.ending:
            return
        self._intake.refused(self._node, said(error, "the link was detached"))
        self._attempts += 1
        wait_s = self._intake.client.wait_s(self._attempts)
        asyncio.get_running_loop().call_later(wait_s, self.attach)

    def on_delivery(self, delivery: Delivery) -> None:
        """Take a message."""
        if self._intake.ending:
            delivery.settle(RELEASED)
            return
        self._intake.entered(self._node, len(delivery.data))
        self._count += 1
        try:
            entry = self._entry(delivery.data)
        except OversizeFailure as failure:
            self._reject(delivery, failure)
        except SoftFailure as failure:
            self._intake.spawn(self._bury(delivery, failure))
        else:
            self._intake.journal.put(entry, partial(self._decided, delivery))

    def on_flow(self) -> None:
        """Only senders have this."""

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """Nothing to do: what the broker says of messages that it sent is that it has heard us."""

    # Inside

    def _entry(self, data: bytes) -> Entry:
        message = to_message(
            data,
            target=self._node.address,
            fallback_id=self._own_id,
            session=self._session,
            received_ms=int(time.time() * 1000),
        )
        # What routes ask for is where it was taken from. Where it was sent is the header Destination.
        message = replace(message, address=self._node.address)
        self._check_size(message)
        return entry_of(message, data, as_json=self._intake.as_json)

    @property
    def _own_id(self) -> str:
        return f"ID:{self._run}:{self._count}"

    def _check_size(self, message: Message) -> None:
        limit = self._intake.max_message_size
        size = len(message.value or b"")
        if size > limit >> 1:  # headers are in the record twice, but hardly ever of that size
            texts = sum(len(name) + len(each.text) for name, each in message.headers.items())
            size += _INDEX_BYTES + _HEADER_BYTES * len(message.headers) + 4 * texts
            if size > limit:
                raise OversizeFailure(f"a record of up to {size} bytes; the journal takes {limit}")

    def _decided(self, delivery: Delivery, failure: IsthmusError | None) -> None:
        if isinstance(failure, SoftFailure):
            self._intake.spawn(self._bury(delivery, failure))
        elif failure is not None:
            self._intake.left(self._node, len(delivery.data))
            self._intake.fail(failure)
        else:
            self._intake.traffic.messages += 1
            self._intake.traffic.bytes += len(delivery.data)
            self._settle(delivery, ACCEPTED)

    def _reject(self, delivery: Delivery, failure: OversizeFailure) -> None:
        log.warning("%s: a message is rejected: %s", self._session, failure)
        self._intake.traffic.dead_letters += 1
        self._settle(delivery, Rejected(Error(MESSAGE_SIZE_EXCEEDED, str(failure))))

    async def _bury(self, delivery: Delivery, failure: SoftFailure) -> None:
        message = Message(
            id=self._own_id,
            address=self._node.address,
            protocol="amqp",
            value=delivery.data,
            body=Body(BodyKind.BYTES),
            session=self._session,
        )
        try:
            await self._intake.dead_letters(message, failure)
        except IsthmusError as problem:
            self._intake.left(self._node, len(delivery.data))
            self._intake.fail(problem)
        else:
            self._intake.traffic.dead_letters += 1
            self._settle(delivery, ACCEPTED)

    def _settle(self, delivery: Delivery, state: object) -> None:
        delivery.settle(state)
        self._connection.wake()
        self._intake.left(self._node, len(delivery.data))

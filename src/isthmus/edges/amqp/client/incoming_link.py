"""The link to one address of a broker that messages are taken from, over one connection after another.

Messages of one address keep their order in the journal. Credit is given back with every message that is
settled, so that no more are in flight than the broker's ``intake.credit``, whichever connection they came
over. An address that the broker refuses is asked for again, with longer and longer waits in between.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Final

from isthmus.config.model.brokers import Node
from isthmus.edges.amqp.client.client import AmqpClient
from isthmus.edges.amqp.client.connection import BrokerConnection, said
from isthmus.edges.amqp.client.translate import from_amqp, unread
from isthmus.edges.amqp.protocol import Attach, Delivery, Receiver
from isthmus.edges.amqp.protocol.conditions import MESSAGE_SIZE_EXCEEDED
from isthmus.edges.amqp.protocol.performatives import UNSETTLED
from isthmus.edges.amqp.protocol.terms import ACCEPTED, OUTCOMES, RELEASED, Error, Rejected, Source, Target
from isthmus.edges.contract import Traffic
from isthmus.edges.in_flight import InFlight
from isthmus.edges.reconnect import Backoff
from isthmus.errors import OversizeFailure, SoftFailure
from isthmus.events.amqp import OversizeRejected

_OUTCOMES: Final = tuple(each.SYMBOL for each in OUTCOMES)
_UNSETTLED_STATE: Final = 2
"""What the source of a durable subscription keeps: its messages, and what became of them."""


class IncomingLink:
    """The messages of one address. ``on_answer`` is called once the broker has accepted or refused it."""

    def __init__(
        self,
        client: AmqpClient,
        node: Node,
        in_flight: InFlight,
        *,
        max_message_size: int,
        as_json: bool,
        on_answer: Callable[[], None],
    ) -> None:
        self.node = node
        self.answered = False
        self.refusal: str | None = None
        """Why the broker does not let us have the address, if it does not."""
        self._client = client
        self._in_flight = in_flight
        self._max_message_size = max_message_size
        self._as_json = as_json
        self._on_answer = on_answer
        self._credit = client.broker.credit
        self._unsettled = 0
        """How many messages of the address are in flight."""
        self._count = 0
        self._run = uuid.uuid4().hex
        self._session = f"amqp:{client.name}:{node.address}"
        self._connection: BrokerConnection | None = None
        self._link: Receiver | None = None
        self._stopped = False
        self._backoff = Backoff(f"{client.name}: {node.address}", longest_wait_s=client.broker.max_backoff_s)

    def attach(self, connection: BrokerConnection) -> None:
        """Ask the broker for the address."""
        if connection.ended.done() or self._stopped:
            return
        durable = self._client.broker.durable if self.node.is_topic else None
        name = f"{durable or self._client.container_id}:{self.node.address}"
        self._connection = connection
        self._link = link = connection.session.receiver(name)
        link.handler = self
        link.snd_settle_mode = UNSETTLED
        source = Source(
            self.node.address,
            durable=_UNSETTLED_STATE if durable else 0,
            expiry_policy="never" if durable else "session-end",
            outcomes=_OUTCOMES,
            capabilities=(self.node.capability,),
        )
        link.attach(source=source, target=Target(self.node.address))
        connection.wake()

    def stop(self) -> None:
        """Take nothing more. What is in flight is still settled."""
        self._stopped = True

    # What the connection calls

    def on_attach(self, attach: Attach) -> None:
        """Grant the first credit, unless a refusal follows."""
        source = attach.source
        if not isinstance(source, Source):
            return
        if source.address is not None:  # else proton begins a refusal, or does not repeat what it agrees to
            self.refusal = None
            self._backoff.succeeded()
        self._answer()
        self._top_up()

    def on_detach(self, *, closed: bool, error: Error | None, lost: bool) -> None:  # noqa: ARG002
        """Ask again later. With the connection gone, `attach` is called with another."""
        connection = self._connection
        if self._link is not None:
            self._link.detach()
        if connection is None or connection.ended.done() or self._stopped:
            return
        self.refusal = said(error, "the link was detached")
        self._backoff.failed(self.refusal)
        self._answer()
        asyncio.get_running_loop().call_later(self._backoff.next_wait_s(), self.attach, connection)

    def on_delivery(self, delivery: Delivery) -> None:
        """Take a message."""
        if self._stopped:
            delivery.settle(RELEASED)
            return
        self._count += 1
        self._unsettled += 1
        own_id = f"ID:{self._run}:{self._count}"
        connection = self._connection

        def settle(state: object = ACCEPTED) -> None:
            self._unsettled -= 1
            delivery.settle(state)
            if connection is not None:
                connection.wake()
            self._top_up()

        try:
            entry = from_amqp(
                delivery.data,
                self.node.address,
                session=self._session,
                own_id=own_id,
                max_message_size=self._max_message_size,
                as_json=self._as_json,
            )
        except OversizeFailure as failure:
            OversizeRejected(self._session, failure).emit()
            self._in_flight.traffic.add(Traffic(1, len(delivery.data), 1))
            settle(Rejected(Error(MESSAGE_SIZE_EXCEEDED, str(failure))))
        except SoftFailure as failure:
            message = unread(delivery.data, self.node.address, session=self._session, own_id=own_id)
            self._in_flight.dead_letter(message, failure, settle)
        else:
            self._in_flight.put(entry, settle)

    def on_flow(self) -> None:
        """Only senders have this."""

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """Nothing to do: what the broker says of messages that it sent is that it has heard us."""

    # Inside

    def _answer(self) -> None:
        self.answered = True
        self._on_answer()

    def _top_up(self) -> None:
        """Give credit for what was settled, in one go for many messages."""
        link, connection = self._link, self._connection
        if link is None or connection is None or not link.attached or self._stopped:
            return
        room = self._credit - link.credit - self._unsettled
        if room > 0 and link.credit <= self._credit >> 1:
            link.grant(room)
            connection.wake()

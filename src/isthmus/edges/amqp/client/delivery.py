"""Sends messages to a broker's queues and topics.

A message's destination is ``orders``, ``queue://orders`` or ``topic://news``; ``*`` is the address in its
header ``Destination``. It is delivered when the broker has accepted it. What other outcomes mean:

=============================  ==========================================================================
rejected                       it never will take it: dead-lettered, unless it is short of room
modified, undeliverable here   the same
modified, released             not now: the message is sent again; one that was released for half a minute
                               is dead-lettered, since brokers say so when nobody would get it
an address that is not there   is asked for again, for half a minute; then its messages are dead-lettered
=============================  ==========================================================================

Many messages are in flight at a time; those of one address are on the wire in their order. What has an
outcome is not sent again when the rest of a batch is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from isthmus.config.model.brokers import Node
from isthmus.converters import MessageConverter
from isthmus.edges.amqp.client.client import AmqpClient
from isthmus.edges.amqp.client.connection import BrokerConnection
from isthmus.edges.amqp.client.outgoing_link import OutgoingLink
from isthmus.edges.amqp.client.translate import ANYWHERE, to_amqp
from isthmus.edges.amqp.protocol.conditions import MESSAGE_SIZE_EXCEEDED, RESOURCE_LIMIT_EXCEEDED
from isthmus.edges.amqp.protocol.terms import Accepted, Modified, Rejected, Released
from isthmus.edges.contract import OutboundMessage
from isthmus.errors import OversizeFailure, Refused, RefusedFailure, SoftFailure, Unreachable

ANSWER_S: Final = 30.0
"""How long a broker may take to attach, to give credit or to settle."""
PATIENCE_S: Final = 30.0
"""For how long an address may be missing, or a message be released, until it is given up: brokers restart."""

ConverterOf = Callable[[str], MessageConverter]
Sent = tuple[OutboundMessage, asyncio.Future[object]]


class AmqpDelivery:
    """Delivery to a broker, as `isthmus.edges.contract` describes it. The client is to be run beside it."""

    def __init__(
        self,
        client: AmqpClient,
        converter_of: ConverterOf,
        *,
        answer_s: float = ANSWER_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """``converter_of`` has, for a destination, the converter that the route to it writes with."""
        self.client = client
        self._converter_of = converter_of
        self._answer_s = answer_s
        self._patience_s = patience_s
        self._duplicate_id = client.broker.delivery == "duplicate-id"
        self._connection: BrokerConnection | None = None
        self._links: dict[str, OutgoingLink] = {}
        self._outcomes: dict[str, SoftFailure | None] = {}
        """By the id of its message: what is known already when a batch is delivered again."""
        self._since: dict[str, float] = {}
        """Since when an address is missing, or a message is released."""

    async def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        """Send the messages, in order; return when each has an outcome."""
        connection = self.client.live
        if connection is not self._connection:
            self._connection, self._links = connection, {}
        due = self._encoded([message for message in messages if message.id not in self._outcomes])
        links = {
            destination: link
            for destination in dict.fromkeys(message.destination for message, _ in due)
            if (link := await self._link(connection, destination)) is not None
        }
        sent: list[Sent] = []
        trouble: Unreachable | None = None
        try:
            for message, data in due:
                link = links.get(message.destination)
                if link is None:
                    self._outcomes[message.id] = RefusedFailure(f"{message.destination} cannot be sent to")
                elif 0 < link.max_message_size < len(data):
                    self._outcomes[message.id] = OversizeFailure(
                        f"the message has {len(data)} bytes; the broker takes {link.max_message_size}",
                        size=len(data),
                        limit=link.max_message_size,
                    )
                else:
                    await link.credit_within(self._answer_s)
                    sent.append((message, link.send(data)))
        except (Unreachable, Refused) as error:
            trouble = Unreachable(str(error))
        trouble = await self._await_outcomes(connection, sent) or trouble
        if trouble is not None:
            raise trouble
        answers = [self._outcomes[message.id] for message in messages]
        self._outcomes.clear()
        return answers

    def _encoded(self, messages: Sequence[OutboundMessage]) -> list[tuple[OutboundMessage, bytes]]:
        encoded = []
        for message in messages:
            try:
                node, converter = _node(message.destination), self._converter_of(message.destination)
                encoded.append((message, to_amqp(message, node, converter, duplicate_id=self._duplicate_id)))
            except SoftFailure as failure:
                self._outcomes[message.id] = failure
        return encoded

    async def _link(self, connection: BrokerConnection, destination: str) -> OutgoingLink | None:
        """The link to a destination; None for one that was missing for too long. Raises `Unreachable`."""
        known = self._links.get(destination)
        if known is not None and known.ended is None:
            return known
        link = OutgoingLink(connection, _node(destination), f"{self.client.container_id}:{destination}")
        try:
            await link.attached_within(self._answer_s)
        except Refused as refusal:
            if self._is_over(destination):
                return None
            raise Unreachable(f"{destination} cannot be sent to: {refusal.description}") from refusal
        self._since.pop(destination, None)
        self._links[destination] = link
        return link

    async def _await_outcomes(self, connection: BrokerConnection, sent: Sequence[Sent]) -> Unreachable | None:
        """Note the outcomes. A message without one is the reason why the batch has to be sent again."""
        if sent:
            _, unsettled = await asyncio.wait([outcome for _, outcome in sent], timeout=self._answer_s)
            if unsettled:
                connection.abort()  # what it has is not known: with another connection we start anew
                await asyncio.wait([outcome for _, outcome in sent])
        trouble: Unreachable | None = None
        for message, outcome in sent:
            problem = outcome.exception()
            if (
                isinstance(problem, Refused)
                and problem.condition == MESSAGE_SIZE_EXCEEDED
                and trouble is None
            ):
                self._outcomes[message.id] = OversizeFailure(str(problem))
                trouble = Unreachable(str(problem))  # it took the link with it, and all behind it
            elif problem is not None:
                trouble = trouble or Unreachable(str(problem))
            elif (later := self._later(message, outcome.result())) is not None:
                trouble = trouble or Unreachable(later)
        return trouble

    def _later(self, message: OutboundMessage, outcome: object) -> str | None:
        """Note an outcome, or say why the message has to be sent again."""
        failure: SoftFailure | None = None
        match outcome:
            case Accepted():
                pass
            case Rejected(error):
                condition = "" if error is None else error.condition
                said = "no reason given" if error is None else f"{condition}: {error.description or ''}"
                if condition == RESOURCE_LIMIT_EXCEEDED:
                    return f"the broker has no room: {said}"
                make = OversizeFailure if condition == MESSAGE_SIZE_EXCEEDED else RefusedFailure
                failure = make(f"rejected by the broker: {said.rstrip(': ')}")
            case Modified(undeliverable_here=True):
                failure = RefusedFailure("the broker cannot deliver it")
            case Modified():
                return "the broker has not accepted a message, and may later"
            case Released():
                if not self._is_over(message.id):
                    return f"the broker has released a message for {message.destination}"
                failure = RefusedFailure("released by the broker again and again: nobody there takes it")
            case _:
                return "the broker has settled a message without an outcome"
        self._since.pop(message.id, None)
        self._outcomes[message.id] = failure
        return None

    def _is_over(self, what: str) -> bool:
        return time.monotonic() - self._since.setdefault(what, time.monotonic()) > self._patience_s


def _node(destination: str) -> Node:
    return ANYWHERE if destination == "*" else Node.of(destination)

"""Sends letters to a broker's queues and topics.

A letter's destination is ``orders``, ``queue://orders`` or ``topic://news``; ``*`` is the address in its
header ``Destination``. It is handed over when the broker has accepted it. What else a broker may say:

=============================  ==========================================================================
rejected                       it never will take it: a dead letter, unless it is short of room
modified, undeliverable here   the same
modified, released             not now: the letter is sent again; one that was released for half a minute
                               is a dead letter, since brokers say so when nobody would get it
an address that is not there   is asked for again, for half a minute; then its letters are dead letters
=============================  ==========================================================================

Many letters are under way at a time; those of one address are on the wire in their order. What the broker has
decided on is not sent again when the rest of a batch is.
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
from isthmus.edges.amqp.client.outgoing import ANYWHERE, encode
from isthmus.edges.amqp.client.targets import BrokerTarget, Refused
from isthmus.edges.amqp.protocol.conditions import MESSAGE_SIZE_EXCEEDED, RESOURCE_LIMIT_EXCEEDED
from isthmus.edges.amqp.protocol.terms import Accepted, Modified, Rejected, Released
from isthmus.edges.contract import OutboundMessage
from isthmus.errors import OversizeFailure, RefusedFailure, SoftFailure, Unreachable

ANSWER_S: Final = 30.0
"""How long a broker may take to attach, to give credit or to decide."""
PATIENCE_S: Final = 30.0
"""For how long an address may be missing, or a letter be released, before it is given up: brokers restart."""

ConverterOf = Callable[[str], MessageConverter]


class AmqpDelivery:
    """Delivery to a broker, as `isthmus.edges.contract` describes it. The client is to be run beside it."""

    def __init__(self, client: AmqpClient, converter_of: ConverterOf) -> None:
        """``converter_of`` has, for a destination, the converter that the route to it writes with."""
        self.client = client
        self._converter_of = converter_of
        self._duplicate_id = client.broker.delivery == "duplicate-id"
        self._connection: BrokerConnection | None = None
        self._targets: dict[str, BrokerTarget] = {}
        self._decided: dict[str, SoftFailure | None] = {}
        """By the id of its letter: what is known already, when a batch comes again."""
        self._since: dict[str, float] = {}
        """Since when an address is missing, or a letter is released."""

    async def deliver(self, letters: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        """Send the letters, in order; return when the broker has decided on each."""
        connection = self.client.live
        if connection is not self._connection:
            self._connection, self._targets = connection, {}
        due = self._encoded([letter for letter in letters if letter.id not in self._decided])
        targets = {
            destination: target
            for destination in dict.fromkeys(letter.destination for letter, _ in due)
            if (target := await self._target(connection, destination)) is not None
        }
        sent: list[tuple[OutboundMessage, asyncio.Future[object]]] = []
        trouble: Unreachable | None = None
        try:
            for letter, data in due:
                target = targets.get(letter.destination)
                if target is None:
                    self._decided[letter.id] = RefusedFailure(f"{letter.destination} cannot be sent to")
                elif 0 < target.max_message_size < len(data):
                    self._decided[letter.id] = _oversize(len(data), target.max_message_size)
                else:
                    await target.credit_within(ANSWER_S)
                    sent.append((letter, target.send(data)))
        except (Unreachable, Refused) as error:
            trouble = Unreachable(str(error))
        trouble = await self._judge(connection, sent) or trouble
        if trouble is not None:
            raise trouble
        answers = [self._decided[letter.id] for letter in letters]
        self._decided.clear()
        return answers

    def _encoded(self, letters: Sequence[OutboundMessage]) -> list[tuple[OutboundMessage, bytes]]:
        found = []
        for letter in letters:
            try:
                node, converter = _node(letter.destination), self._converter_of(letter.destination)
                found.append((letter, encode(letter, node, converter, duplicate_id=self._duplicate_id)))
            except SoftFailure as failure:
                self._decided[letter.id] = failure
        return found

    async def _target(self, connection: BrokerConnection, destination: str) -> BrokerTarget | None:
        """The link to a destination; None for one that was missing for too long. Raises `Unreachable`."""
        known = self._targets.get(destination)
        if known is not None and known.ended is None:
            return known
        target = BrokerTarget(connection, _node(destination), f"{self.client.container_id}:{destination}")
        try:
            await target.attached_within(ANSWER_S)
        except Refused as refusal:
            if self._is_over(destination):
                return None
            raise Unreachable(f"{destination} cannot be sent to: {refusal.description}") from refusal
        self._since.pop(destination, None)
        self._targets[destination] = target
        return target

    async def _judge(
        self, connection: BrokerConnection, sent: Sequence[tuple[OutboundMessage, asyncio.Future[object]]]
    ) -> Unreachable | None:
        """Note what was decided. What was not is the reason why the batch has to come again."""
        if sent:
            _, undecided = await asyncio.wait([outcome for _, outcome in sent], timeout=ANSWER_S)
            if undecided:
                connection.abort()  # what it has is not known: with another connection we start anew
                await asyncio.wait([outcome for _, outcome in sent])
        trouble: Unreachable | None = None
        for letter, outcome in sent:
            problem = outcome.exception()
            if (
                isinstance(problem, Refused)
                and problem.condition == MESSAGE_SIZE_EXCEEDED
                and trouble is None
            ):
                self._decided[letter.id] = OversizeFailure(str(problem))
                trouble = Unreachable(str(problem))  # it took the link with it, and all behind it
            elif problem is not None:
                trouble = trouble or Unreachable(str(problem))
            elif (later := self._later(letter, outcome.result())) is not None:
                trouble = trouble or Unreachable(later)
        return trouble

    def _later(self, letter: OutboundMessage, outcome: object) -> str | None:
        """Note an outcome, or say why the letter has to be sent again."""
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
                return "the broker has not taken a letter, and may later"
            case Released():
                if not self._is_over(letter.id):
                    return f"the broker has released a letter for {letter.destination}"
                failure = RefusedFailure("released by the broker again and again: nobody there takes it")
            case _:
                return "the broker has settled a letter without an outcome"
        self._since.pop(letter.id, None)
        self._decided[letter.id] = failure
        return None

    def _is_over(self, what: str) -> bool:
        return time.monotonic() - self._since.setdefault(what, time.monotonic()) > PATIENCE_S


def _node(destination: str) -> Node:
    return ANYWHERE if destination == "*" else Node.of(destination)


def _oversize(size: int, limit: int) -> OversizeFailure:
    return OversizeFailure(f"the message has {size} bytes; the broker takes {limit}")

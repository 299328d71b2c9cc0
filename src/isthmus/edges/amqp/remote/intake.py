"""Takes messages from a broker's queues and topics into the journal.

A message is accepted when the journal has it on all in-sync replicas, not before: after a crash of the
bridge, of Kafka or of the broker it comes again. As many messages are under way as there is credit for, which
goes back with every message that is decided. A message that cannot be understood is a dead letter, and
accepted once it is kept. Messages of one address keep their order.

An address that the broker does not let us have is asked for again, with longer and longer waits in between.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from isthmus.codecs.jms import to_message
from isthmus.config.brokers import Node
from isthmus.edges.amqp.arriving import conversion_of, reserved_name
from isthmus.edges.amqp.ports import BatchJournal
from isthmus.edges.amqp.protocol import Attach, Delivery, Receiver
from isthmus.edges.amqp.protocol.performatives import UNSETTLED
from isthmus.edges.amqp.protocol.terms import ACCEPTED, OUTCOMES, RELEASED, Source, Target
from isthmus.edges.amqp.remote.client import AmqpClient
from isthmus.edges.amqp.remote.connection import BrokerConnection
from isthmus.errors import ConversionFailure, IsthmusError, SoftFailure
from isthmus.journal.layout import Entry, Op
from isthmus.message import Body, BodyKind, Message

log = logging.getLogger(__name__)

FINISH_S: Final = 10.0
"""How long an intake that ends waits for the journal."""
_OUTCOMES: Final = tuple(each.SYMBOL for each in OUTCOMES)
_UNSETTLED_STATE: Final = 2
"""What the source of a durable subscription keeps: its messages, and what became of them."""


class DeadLetters(Protocol):
    """Where a message goes that can never be handled. It is settled once this returns."""

    async def __call__(self, message: Message, failure: SoftFailure) -> None:
        """Keep the message, with what is wrong with it."""
        ...


@dataclass(slots=True)
class Traffic:
    """What was taken since the start."""

    messages: int = 0
    bytes: int = 0
    dead_letters: int = 0


class AmqpIntake:
    """The messages of a broker's addresses, from `run` until that is cancelled."""

    def __init__(
        self, client: AmqpClient, journal: BatchJournal, *, dead_letters: DeadLetters, as_json: bool = False
    ) -> None:
        self.client = client
        self.traffic = Traffic()
        self.ready = asyncio.Event()
        """Set once the broker has answered for every address, even if it refuses one."""
        self.journal = journal
        self.dead_letters = dead_letters
        self.as_json = as_json
        self.ending = False
        self.under_way = dict.fromkeys(client.broker.nodes, 0)
        """How many messages of each address are not decided, over whichever connection they came."""
        self._links: dict[Node, _Taking] = {}
        self._idle = asyncio.Event()
        self._failure: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals: dict[Node, str] = {}
        self._to_come = set(client.broker.nodes)

    @property
    def refusals(self) -> dict[str, str]:
        """The addresses that the broker does not let us have, and why."""
        return {node.address: why for node, why in self._refusals.items()}

    async def run(self) -> None:
        """Take messages until cancelled. Raises what the journal or the broker refuses with."""
        self._failure = failure = asyncio.get_running_loop().create_future()
        try:
            while True:
                connection = await self.client.available()
                for node in self.client.broker.nodes:
                    self._links[node] = _Taking(self, connection, node)
                    self._links[node].attach()
                await asyncio.wait((connection.ended, failure), return_when=asyncio.FIRST_COMPLETED)
                if failure.done():
                    failure.result()
        finally:
            await self._finish()
            failure.cancel()

    async def _finish(self) -> None:
        """Wait for what is on its way to the journal, so that it need not come again."""
        self.ending = True
        failed = self._failure is not None and self._failure.done()
        if any(self.under_way.values()) and not failed:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), FINISH_S)
            except TimeoutError:
                log.info("%d messages of %s come again", sum(self.under_way.values()), self.client.name)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    # What the links call

    def attached(self, node: Node) -> None:
        """An address is there."""
        if self._refusals.pop(node, None):
            log.info("%s: %s is there", self.client.name, node.address)
        self.answered(node)

    def refused(self, node: Node, why: str) -> None:
        """An address is not to be had."""
        if node not in self._refusals:
            log.warning("%s: %s cannot be taken from: %s", self.client.name, node.address, why)
        self._refusals[node] = why
        self.answered(node)

    def answered(self, node: Node) -> None:
        """The broker has said something of an address."""
        self._to_come.discard(node)
        if not self._to_come:
            self.ready.set()

    def decided(self, size: int, *, dead_letter: bool = False) -> None:
        """A message is in the journal, or is a dead letter."""
        self.traffic.messages += 1
        self.traffic.bytes += size
        self.traffic.dead_letters += dead_letter

    def left(self, node: Node) -> None:
        """A message is no longer under way."""
        self.under_way[node] -= 1
        self._links[node].top_up()
        if not any(self.under_way.values()):
            self._idle.set()

    def fail(self, failure: BaseException) -> None:
        """End the intake: what is under way was not settled."""
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(failure)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes a while. It ends with the intake."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Taking:
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
        self._link: Receiver

    def attach(self) -> None:
        """Ask the broker for the address."""
        if self._connection.ended.done() or self._intake.ending:
            return
        durable = self._intake.client.broker.durable if self._node.is_topic else None
        name = f"{durable or self._intake.client.container_id}:{self._node.address}"
        self._link = self._connection.session.receiver(name)
        self._link.context = self
        self._link.snd_settle_mode = UNSETTLED
        source = Source(
            self._node.address,
            durable=_UNSETTLED_STATE if durable else 0,
            expiry_policy="never" if durable else "session-end",
            outcomes=_OUTCOMES,
            capabilities=(self._node.capability,),
        )
        self._link.attach(source=source, target=Target(self._node.address))
        self._connection.wake()

    def top_up(self) -> None:
        """Give credit for what was decided, in one go for many messages."""
        link = self._link
        room = self._window - link.credit - self._intake.under_way[self._node]
        if room > 0 and link.credit <= self._window >> 1 and link.attached and not self._intake.ending:
            link.grant(room)
            self._connection.wake()

    # What the connection calls

    def attached(self, attach: Attach) -> None:
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

    def detached(self, why: str, condition: str | None) -> None:  # noqa: ARG002
        """Ask again later. With the connection gone, another takes this one's place."""
        if self._connection.ended.done() or self._intake.ending:
            return
        self._intake.refused(self._node, why)
        self._attempts += 1
        wait_s = self._intake.client.wait_s(self._attempts)
        asyncio.get_running_loop().call_later(wait_s, self.attach)

    def delivered(self, delivery: Delivery) -> None:
        """Take a message."""
        if self._intake.ending:
            delivery.settle(RELEASED)
            return
        self._intake.under_way[self._node] += 1
        self._count += 1
        try:
            entry = self._entry(delivery.data)
        except SoftFailure as failure:
            self._intake.spawn(self._bury(delivery, failure))
        else:
            self._intake.journal.put(entry, partial(self._decided, delivery))

    def flowed(self) -> None:
        """Only senders have this."""

    def disposed(self, deliveries: Sequence[Delivery], state: object) -> None:
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
        if (name := reserved_name(message)) is not None:
            raise ConversionFailure(f"{name[:100]!r} is a name of the bridge's own")
        # What routes ask for is where it was taken from. Where it was sent is the header Destination.
        message = replace(message, address=self._node.address)
        return Entry(Op.ADD, message, conversion=conversion_of(message, data, as_json=self._intake.as_json))

    @property
    def _own_id(self) -> str:
        return f"ID:{self._run}:{self._count}"

    def _decided(self, delivery: Delivery, failure: IsthmusError | None) -> None:
        if isinstance(failure, SoftFailure):
            self._intake.spawn(self._bury(delivery, failure))
        elif failure is not None:
            self._intake.left(self._node)
            self._intake.fail(failure)
        else:
            self._intake.decided(len(delivery.data))
            self._settle(delivery)

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
            self._intake.left(self._node)
            self._intake.fail(problem)
        else:
            self._intake.decided(len(delivery.data), dead_letter=True)
            self._settle(delivery)

    def _settle(self, delivery: Delivery) -> None:
        delivery.settle(ACCEPTED)
        self._connection.wake()
        self._intake.left(self._node)

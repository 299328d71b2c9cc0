"""Sends or receives a few messages, then disconnects: for the command line, which has no event loop.

It speaks to the port of a bridge as a JMS client does, or to any other AMQP 1.0 broker.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from isthmus.config.model.brokers import BrokerSettings, Node
from isthmus.edges.amqp.client.connecting import connect
from isthmus.edges.amqp.client.connection import BrokerConnection
from isthmus.edges.amqp.client.outgoing_link import OUTCOME_SYMBOLS, OutgoingLink
from isthmus.edges.amqp.protocol import Attach, Delivery
from isthmus.edges.amqp.protocol.performatives import UNSETTLED
from isthmus.edges.amqp.protocol.terms import ACCEPTED, Accepted, Error, Source, Target
from isthmus.errors import HardFailure, LoginRefused, Refused, Unreachable

ANSWER_S: Final = 30.0
"""How long the other side may take for an answer."""
_CREDIT: Final = 100
"""How many messages may be on their way here: what is not taken in the end stays in the queue."""


def send_all(
    broker: BrokerSettings, node: Node, messages: Iterable[bytes], on_accepted: Callable[[int], None]
) -> None:
    """Send encoded messages, in order. ``on_accepted`` is told the number of each, from 0.

    Raises `HardFailure` at the first one that is not accepted.
    """
    asyncio.run(_send_all(broker, node, messages, on_accepted))


async def _send_all(
    broker: BrokerSettings, node: Node, messages: Iterable[bytes], on_accepted: Callable[[int], None]
) -> None:
    async with _connected(broker, node) as connection:
        link = OutgoingLink(connection, node, f"send:{uuid.uuid4()}")
        await link.attached_within(ANSWER_S)
        outcomes = []
        for message in messages:
            await link.credit_within(ANSWER_S)
            outcomes.append(link.send(message))
        for number, outcome in enumerate(outcomes):
            state = await outcome
            if not isinstance(state, Accepted):
                raise HardFailure(
                    f"{node.address} did not accept message {number + 1}: {_said(state)}",
                    remedy="mend the message or the bridge's routes; the messages before it were accepted",
                )
            on_accepted(number)


def _said(state: object) -> str:
    error = getattr(state, "error", None)
    return type(state).__name__.lower() if error is None else f"{error.condition}: {error.description}"


def receive_all(
    broker: BrokerSettings,
    node: Node,
    on_message: Callable[[bytes], None],
    *,
    count: int | None,
    timeout_s: float | None,
) -> None:
    """Give the encoded messages of a queue or topic to ``on_message``; each is consumed when that returns.

    Ends after ``count`` of them, or when none came for ``timeout_s``. Raises `HardFailure`.
    """
    asyncio.run(_receive_all(broker, node, on_message, count, timeout_s))


async def _receive_all(
    broker: BrokerSettings,
    node: Node,
    on_message: Callable[[bytes], None],
    count: int | None,
    timeout_s: float | None,
) -> None:
    async with _connected(broker, node) as connection:
        link = _IncomingLink(connection, node)
        await link.attached_within(ANSWER_S)
        while count is None or count > 0:
            delivery = await link.next(timeout_s, at_most=count)
            if delivery is None:
                break
            on_message(delivery.data)
            delivery.settle(ACCEPTED)
            connection.wake()
            count = None if count is None else count - 1


class _IncomingLink:
    """A link that takes messages one by one, and leaves the rest where they were."""

    def __init__(self, connection: BrokerConnection, node: Node) -> None:
        loop = asyncio.get_running_loop()
        self._attached: asyncio.Future[None] = loop.create_future()
        self._arrived: asyncio.Queue[Delivery | Exception] = asyncio.Queue()
        self._connection = connection
        self._link = link = connection.session.receiver(f"receive:{uuid.uuid4()}")
        link.handler = self
        link.snd_settle_mode = UNSETTLED
        source = Source(node.address, outcomes=OUTCOME_SYMBOLS, capabilities=(node.capability,))
        link.attach(source=source, target=Target(node.address))
        connection.wake()

    async def attached_within(self, timeout_s: float) -> None:
        """Return once the broker has attached it. Raises `Refused` or `Unreachable`."""
        await asyncio.wait((self._attached,), timeout=timeout_s)
        if not self._attached.done():
            raise Unreachable("the broker does not answer attach")
        self._attached.result()

    async def next(self, timeout_s: float | None, *, at_most: int | None) -> Delivery | None:
        """The next message, or None if none came in time; no more than ``at_most`` are asked for."""
        if self._link.credit == 0 and self._arrived.empty():
            self._link.grant(_CREDIT if at_most is None else min(_CREDIT, at_most))
            self._connection.wake()
        try:
            arrived = await asyncio.wait_for(self._arrived.get(), timeout_s)
        except TimeoutError:
            return None
        if isinstance(arrived, Exception):
            raise arrived
        return arrived

    # What the connection calls

    def on_attach(self, attach: Attach) -> None:
        if attach.source is not None and not self._attached.done():  # else a refusal follows
            self._attached.set_result(None)

    def on_detach(self, *, closed: bool, error: Error | None, lost: bool) -> None:  # noqa: ARG002
        self._link.detach()
        why: Exception
        if error is not None:
            why = Refused(error.condition, error.description or "without a reason")
        else:
            ended = self._connection.ended
            why = Unreachable(ended.result() if ended.done() else "the link was detached")
        if self._attached.done():
            self._arrived.put_nowait(why)
        else:
            self._attached.set_exception(why)

    def on_delivery(self, delivery: Delivery) -> None:
        self._arrived.put_nowait(delivery)

    def on_flow(self) -> None:
        """Only senders have this."""

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """Nothing to do: what was accepted here is settled here."""


@asynccontextmanager
async def _connected(broker: BrokerSettings, node: Node) -> AsyncIterator[BrokerConnection]:
    """A connection. What goes wrong with it, or on it, is a `HardFailure` that says what to do."""
    (server, *_) = broker.servers
    try:
        connection = await connect(broker, server, f"isthmus-{uuid.uuid4()}")
        try:
            yield connection
        finally:
            if connection.is_open:
                await connection.close()
    except LoginRefused as error:
        raise HardFailure(
            f"{server.shown} refuses the login: {error}", remedy="see to --user, the password and --tls-ca"
        ) from error
    except Unreachable as error:
        raise HardFailure(
            f"{server.shown} cannot be used: {error}",
            remedy="see that a bridge listens there: `isthmus run` says where, as `amqp` in its panel",
        ) from error
    except Refused as error:
        raise HardFailure(
            f"{server.shown} refuses {node.address}: {error}",
            remedy="see to the address, to the bridge's routes, and to what the user may do",
        ) from error

"""A client on our own engine that does what it is told, and may stop where no client would."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable

from isthmus.edges.amqp.protocol import (
    Connection,
    Delivery,
    Disposed,
    Limits,
    Open,
    SaslClient,
    Sender,
    Session,
)
from isthmus.edges.amqp.protocol.terms import Source, Target

ANSWER_S = 30.0


class Peer(asyncio.Protocol):
    """One connection. `on_settled` is told of every delivery that is decided."""

    def __init__(self, sasl: SaslClient, on_settled: Callable[[Delivery], None] | None = None) -> None:
        self.engine = Connection.client(Limits(idle_timeout_s=None), sasl)
        self.transport: asyncio.Transport
        self.lost = False
        self._on_settled = on_settled
        self._changed = asyncio.Event()

    @classmethod
    async def connect(
        cls, port: int, user: str, password: str, on_settled: Callable[[Delivery], None] | None = None
    ) -> Peer:
        """A client that has logged in. Raises `ConnectionError`."""
        loop = asyncio.get_running_loop()
        sasl = SaslClient(user, password, mechanisms=["SCRAM-SHA-256"])
        _, peer = await loop.create_connection(lambda: cls(sasl, on_settled), "127.0.0.1", port)
        await peer.until(lambda: peer.engine.remote_open is not None)
        return peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.engine.open(Open(f"bench-{uuid.uuid4().hex}"))
        self.flush()

    def data_received(self, data: bytes) -> None:
        for event in self.engine.receive_data(data, time.monotonic()):
            if isinstance(event, Disposed) and self._on_settled is not None:
                for delivery in event.deliveries:
                    self._on_settled(delivery)
        self.flush()
        self._changed.set()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.lost = True
        self._changed.set()

    def flush(self) -> None:
        """Send what there is to send."""
        data = self.engine.data_to_send(time.monotonic())
        if data:
            self.transport.write(data)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for an answer. Raises `ConnectionError` if the server ends the connection, or says nothing."""
        deadline = time.monotonic() + ANSWER_S
        while not condition():
            if self.lost or time.monotonic() > deadline:
                raise ConnectionError("the server does not answer")
            self._changed.clear()
            self.flush()
            try:
                await asyncio.wait_for(self._changed.wait(), 0.5)
            except TimeoutError:
                continue

    async def sender(self, address: str, session: Session | None = None) -> Sender:
        """A link with credit."""
        link = (session or self.engine.begin()).sender(uuid.uuid4().hex)
        link.attach(source=Source(), target=Target(address))
        await self.until(lambda: link.credit)
        return link

    def close(self) -> None:
        self.transport.abort()

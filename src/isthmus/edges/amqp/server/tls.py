"""TLS before anything else is said, as a part of the login: asyncio's own servers accept without asking.

A connection has its place, and its time for the login runs, from when it is accepted. So handshakes that are
begun and left count as any silent client does.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.connection import ServerConnection


class TlsHandshake(asyncio.Protocol):
    """Takes an accepted connection through the handshake, and hands it to what is ``spoken`` inside.

    That is the connection itself, or what is around it.
    """

    def __init__(
        self, connection: ServerConnection, context: ssl.SSLContext, spoken: asyncio.Protocol
    ) -> None:
        self._connection = connection
        self._context = context
        self._spoken = spoken
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, if there is a place."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        if self._connection.arrive(transport):
            self._handshake = asyncio.get_running_loop().create_task(self._run(transport))

    async def _run(self, transport: asyncio.Transport) -> None:
        early = _Early()
        try:
            # The time for it is that of the login, which the connection keeps.
            encrypted = await asyncio.get_running_loop().start_tls(
                transport, early, self._context, server_side=True
            )
        except (OSError, asyncio.IncompleteReadError):
            self._connection.depart()
            return
        except BaseException:
            self._connection.cut_off()
            raise
        if encrypted is None or encrypted.is_closing():
            self._connection.depart()
            return
        encrypted.set_protocol(self._spoken)
        self._spoken.connection_made(encrypted)
        if early.data:
            self._spoken.data_received(bytes(early.data))


class _Early(asyncio.Protocol):
    """Keeps what a client sends together with the end of its handshake."""

    def __init__(self) -> None:
        self.data = bytearray()

    def data_received(self, data: bytes) -> None:
        self.data += data

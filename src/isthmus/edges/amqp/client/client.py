"""One connection to a broker that reconnects by itself.

Attempts back off (see `isthmus.edges.reconnect`) and go round the broker's servers. A broker that refuses the
bridge the first time ends it; one that has taken it before may have its reasons, and is tried again.
"""

from __future__ import annotations

import asyncio
from typing import Final

from isthmus.config.model.brokers import BrokerSettings, Server
from isthmus.edges.amqp.client.connecting import connect
from isthmus.edges.amqp.client.connection import BrokerConnection
from isthmus.edges.reconnect import Backoff, ConnectionCounts
from isthmus.errors import ConfigError, HardFailure, LoginRefused, Unreachable

STEADY_S: Final = 5.0
"""How long a connection must have held for the waits to begin anew."""


class AmqpClient:
    """One connection, for one user of it. `close` it in the end."""

    def __init__(self, broker: BrokerSettings, *, name: str, container_id: str) -> None:
        self.counts = ConnectionCounts()
        self.broker = broker
        self.name = name
        """What the configuration calls the broker."""
        self.container_id = container_id
        self._connection: BrokerConnection | None = None
        self._backoff = Backoff(f"the broker {name}", longest_wait_s=broker.max_backoff_s, steady_s=STEADY_S)
        self._closing = False

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None and self._connection.is_open

    @property
    def unavailable(self) -> bool:
        """Whether the last attempt to reach the broker failed."""
        return self._backoff.unavailable

    @property
    def live(self) -> BrokerConnection:
        """The connection. Raises `Unreachable` while there is none."""
        if self._connection is None or not self._connection.is_open:
            raise Unreachable(f"the broker {self.name} is not connected")
        return self._connection

    async def run(self) -> None:
        """Stay connected until cancelled. Raises `HardFailure` when the broker refuses the bridge."""
        try:
            while True:
                connection = await self.available()
                await asyncio.shield(connection.ended)
        finally:
            await self.close()

    async def available(self) -> BrokerConnection:
        """A new connection, however long that takes. Raises `HardFailure`."""
        while True:
            await self._backoff.wait()
            try:
                return await self._connect()
            except Unreachable as error:
                self._backoff.failed(error)

    async def close(self) -> None:
        """Disconnect."""
        self._closing = True
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            await connection.close()

    async def _connect(self) -> BrokerConnection:
        servers = self.broker.servers
        server = servers[self._backoff.failures % len(servers)]
        try:
            connection = await connect(self.broker, server, self.container_id)
        except LoginRefused as error:
            if self.counts.connects:
                raise
            raise _refused(self.name, server, error) from error
        except Unreachable as error:
            raise Unreachable(f"{server.shown}: {error}") from error
        except ConfigError as error:
            raise ConfigError(f"amqp.connect.{self.name}.{error}") from None
        self._backoff.succeeded()
        self.counts.connects += 1
        self.counts.reconnects += self.counts.connects > 1
        self._connection = connection
        connection.ended.add_done_callback(self._on_end)
        return connection

    def _on_end(self, ended: asyncio.Future[str]) -> None:
        if not self._closing:
            self.counts.disconnects += 1
            self._backoff.failed(ended.result())


def reach(broker: BrokerSettings, name: str, bridge_id: str) -> str:
    """Connect, log in and disconnect; returns who answered.

    Raises `Unreachable` with all the reasons, or `HardFailure` when the broker refuses the bridge.
    """
    return asyncio.run(_reach(broker, name, f"isthmus.{bridge_id}.doctor"))


async def _reach(broker: BrokerSettings, name: str, container_id: str) -> str:
    problems = []
    for server in broker.servers:
        try:
            connection = await connect(broker, server, container_id)
        except LoginRefused as error:
            raise _refused(name, server, error) from error
        except Unreachable as error:
            problems.append(f"{server.shown} cannot be reached: {error}")
            continue
        await connection.close()
        return f"{server.shown} answers, as {connection.opened.result()}"
    raise Unreachable("; ".join(problems))


def _refused(name: str, server: Server, error: LoginRefused) -> HardFailure:
    return HardFailure(
        f"the broker {name} at {server.shown} refuses the bridge: {error}",
        remedy=f"check the user, password and tls.* of amqp.connect.{name}",
    )

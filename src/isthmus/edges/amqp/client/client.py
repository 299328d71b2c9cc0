"""A broker's connection that is made when it is needed, and made again when it breaks.

Attempts back off with jitter, and go round the broker's servers. What is logged is that the broker is away
and that it is back, once each. A broker that refuses the bridge the first time ends it; one that has taken it
before may have its reasons, and is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import Final

from isthmus.config.model.brokers import BrokerSettings
from isthmus.edges.amqp.client.connecting import connect
from isthmus.edges.amqp.client.connection import BrokerConnection, Refusal
from isthmus.errors import ConfigError, HardFailure, Unreachable

log = logging.getLogger(__name__)

FIRST_WAIT_S: Final = 0.05
STEADY_S: Final = 5.0
"""How long a connection must have held for the next attempt not to wait."""


@dataclass(slots=True)
class ConnectionCounts:
    """What happened to the connection since the start."""

    connects: int = 0
    disconnects: int = 0
    reconnects: int = 0


class AmqpClient:
    """One connection, for one user of it. `close` it in the end."""

    def __init__(self, broker: BrokerSettings, *, name: str, container_id: str) -> None:
        self.counts = ConnectionCounts()
        self.broker = broker
        self.name = name
        """What the configuration calls the broker."""
        self.container_id = container_id
        self._connection: BrokerConnection | None = None
        self._connected_at = 0.0
        self._attempts = 0
        self._missed = False
        self._closing = False

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None and self._connection.is_open

    @property
    def unavailable(self) -> bool:
        """Whether the broker is not there, and was looked for."""
        return self._missed

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
            if self._attempts:
                await asyncio.sleep(self.wait_s(self._attempts))
            self._attempts += 1
            try:
                return await self._connect()
            except Unreachable as error:
                self._note(str(error))

    def wait_s(self, attempts: int) -> float:
        """How long to wait after so many attempts that failed."""
        longest = min(self.broker.max_backoff_s, FIRST_WAIT_S * 2 ** min(attempts, 16))
        return random.uniform(longest / 2, longest)

    async def close(self) -> None:
        """Let go of the connection."""
        self._closing = True
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            await connection.close()

    async def _connect(self) -> BrokerConnection:
        servers = self.broker.servers
        server = servers[(self._attempts - 1) % len(servers)]
        try:
            connection = await connect(self.broker, server, self.container_id)
        except Refusal as error:
            if self.counts.connects:
                raise
            raise HardFailure(
                f"the broker {self.name} at {server.shown} refuses the bridge: {error}",
                remedy=f"check the user, password and tls.* of amqp.connect.{self.name}",
            ) from error
        except Unreachable as error:
            raise Unreachable(f"{server.shown}: {error}") from error
        except ConfigError as error:
            raise ConfigError(f"amqp.connect.{self.name}.{error}") from None
        if self._missed:
            log.info("the broker %s is back, at %s", self.name, server.shown)
        self._missed = False
        self._connected_at = asyncio.get_running_loop().time()
        self.counts.connects += 1
        self.counts.reconnects += self.counts.connects > 1
        self._connection = connection
        connection.ended.add_done_callback(self._on_end)
        return connection

    def _on_end(self, ended: asyncio.Future[str]) -> None:
        if self._closing:
            return
        self.counts.disconnects += 1
        if ended.get_loop().time() - self._connected_at > STEADY_S:
            self._attempts = 0
        self._note(ended.result())

    def _note(self, why: str) -> None:
        if not self._missed:
            log.warning("the broker %s is away: %s", self.name, why)
        self._missed = True

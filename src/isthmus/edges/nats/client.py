"""One connection to NATS that reconnects by itself.

In: the settings. Out: nats-py's client, one for intake and delivery. What it guarantees:

- attempts to connect back off, up to ``nats.reconnect.max-wait``: see `isthmus.edges.reconnect`;
- headers that are given several times keep all of their values (nats-py alone keeps the last);
- after a flush the server has all that was sent before it (with nats-py alone it may have none of that);
- nothing is buffered while the server is unavailable, to go out later without the sender's knowledge: those
  who publish ask for `live`, which raises `Unreachable` instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nats.errors
from nats.aio.client import Client, Server
from nats.js import JetStreamContext

from isthmus.config.model.nats import NatsSettings
from isthmus.edges.reconnect import FIRST_WAIT_S, Backoff, ConnectionCounts
from isthmus.errors import HardFailure, Unreachable
from isthmus.events.nats import Connected, MessagesDropped, Refused

CONNECT_TIMEOUT_S = 5
_HEADER_LINE = b"NATS/1.0\r\n"


@dataclass(slots=True)
class NatsCounts(ConnectionCounts):
    """What happened to the connection, and to messages of plain subjects, since the start."""

    dropped: int = 0
    """Messages of core subjects that arrived faster than they could be taken: NATS does not keep them."""


class NatsClient:
    """A connection, from `connect` to `close`. ``on_return`` hooks run after every reconnection."""

    def __init__(self, settings: NatsSettings, *, name: str = "isthmus") -> None:
        self.counts = NatsCounts()
        self.on_return: list[Callable[[], None]] = []
        self._settings = settings
        self._name = name
        self._client: Client | None = None
        self._backoff = Backoff(f"NATS at {self._servers}", longest_wait_s=settings.max_backoff_s)
        self._last_error = ""
        self._closing = False
        self._failure: HardFailure | None = None

    @property
    def connected(self) -> bool:
        """Whether the server is there now."""
        return self._client is not None and self._client.is_connected

    @property
    def unavailable(self) -> bool:
        """Whether the server was asked for, and is not there."""
        return self._backoff.unavailable

    @property
    def live(self) -> Client:
        """nats-py's client. `Unreachable` while there is no connection, `HardFailure` if none will come."""
        if self._failure is not None:
            raise self._failure
        if self._client is None or not self._client.is_connected:
            why = self._last_error or "not connected"
            raise Unreachable(f"NATS at {self._servers} is unavailable: {why}")
        return self._client

    async def available(self) -> Client:
        """What `live` is, as soon as there is a connection."""
        while True:
            try:
                return self.live
            except Unreachable:
                await asyncio.sleep(FIRST_WAIT_S)

    @property
    def jetstream(self) -> JetStreamContext:
        """JetStream over `live`."""
        return self.live.jetstream(domain=self._settings.domain)

    @property
    def api_prefix(self) -> str:
        """What the subjects of JetStream's API begin with."""
        return f"$JS.{self._settings.domain}.API" if self._settings.domain else "$JS.API"

    async def connect(self) -> None:
        """Return once connected, however long that takes. `HardFailure` when NATS refuses the bridge."""
        self._closing = False
        self._failure = None
        while True:
            try:
                client = await self._open()
            except Unreachable as error:
                self._backoff.failed(self._last_error or error.__cause__)
                await self._backoff.wait()
            else:
                client.options["max_reconnect_attempts"] = -1  # from now on nats-py tries, for ever
                self._client = client
                self.counts.connects += 1
                Connected(self._servers).emit()
                self._available()
                return

    async def reach(self) -> str:
        """Connect, log in and disconnect; returns who answered.

        Raises `Unreachable`, or `HardFailure` when NATS refuses the bridge.
        """
        client = await self._open()
        answer = f"{self._servers} answers, nats-server {_version(client)}"
        await self.close()
        await client.close()
        return answer

    async def _open(self) -> Client:
        """A connection, by one attempt. Raises as `reach` does."""
        self._last_error = ""
        client = OrderlyClient()
        try:
            await self._connect(client)
        except (OSError, nats.errors.Error, TimeoutError) as error:
            await client.close()
            if _is_refusal(self._last_error):
                raise self._refused() from error
            why = self._last_error or error
            raise Unreachable(f"NATS at {self._servers} is unavailable: {why}") from error
        return client

    async def close(self) -> None:
        """Disconnect. What was published is flushed if the server is there."""
        self._closing = True
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            if client.is_connected:
                with contextlib.suppress(nats.errors.Error, asyncio.TimeoutError):
                    await client.flush(2)
            await client.close()

    async def _connect(self, client: Client) -> None:
        await client.connect(
            servers=[str(url) for url in self._settings.servers],
            name=self._name,
            tls=self._settings.tls_context(),
            **self._settings.credentials(),
            connect_timeout=CONNECT_TIMEOUT_S,
            ping_interval=10,
            max_reconnect_attempts=1,  # then it is our turn to wait, with jitter
            reconnect_time_wait=0,
            reconnect_to_server_handler=self._choose,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnect,
            reconnected_cb=self._on_reconnect,
            closed_cb=self._on_close,
            pending_size=32 * 2**20,
        )

    @property
    def _servers(self) -> str:
        return ",".join(url.rpartition("@")[2].removeprefix("nats://") for url in self._settings.servers)

    def _choose(self, servers: list[Server], info: dict[str, Any]) -> tuple[Server, float]:  # noqa: ARG002
        wait_s = self._backoff.next_wait_s()
        if self._backoff.unavailable:  # nats-py asks before each attempt, and tells of none that fails
            self._backoff.failed(self._last_error)
        return random.choice(servers), wait_s

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            self.counts.dropped += 1
            if self.counts.dropped == 1:
                MessagesDropped(error.subject).emit()
        elif not _is_refusal(self._last_error):  # a broken connection often follows, and says less
            self._last_error = str(error) or type(error).__name__

    async def _on_disconnect(self) -> None:
        if self._in_use:
            self.counts.disconnects += 1
            self._backoff.failed("the connection broke")

    async def _on_reconnect(self) -> None:
        self.counts.reconnects += 1
        self._available()
        for hook in self.on_return:
            hook()

    async def _on_close(self) -> None:
        if self._in_use:  # nats-py gives up for good when a server refuses it twice
            self._failure = self._refused()
            Refused(self._failure).emit()

    @property
    def _in_use(self) -> bool:
        """Whether there was a connection that nobody has closed: nats-py tells of failed attempts, too."""
        return self._client is not None and not self._closing

    def _available(self) -> None:
        self._backoff.succeeded()
        self._last_error = ""

    def _refused(self) -> HardFailure:
        return HardFailure(
            f"NATS at {self._servers} refuses the bridge: {self._last_error}",
            remedy="check nats.user and nats.password, nats.token, nats.creds or nats.nkey, and nats.tls.*",
        )


def _version(client: Client) -> str:
    found = client.connected_server_version
    return f"{found.major}.{found.minor}.{found.patch}"


def _is_refusal(error: str) -> bool:
    return any(word in error.lower() for word in ("authorization", "certificate"))


class OrderlyClient(Client):
    """nats-py's client, with a flush that means what it says, and headers that keep all of their values."""

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        # nats-py puts its PING before what waits to be sent, so that the answer says nothing of that.
        if self.is_connected and self._pending:
            waiting, self._pending, self._pending_data_size = self._pending, [], 0
            assert self._transport is not None
            self._transport.writelines(waiting)
        await super()._send_ping(future)

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        if headers and headers.startswith(_HEADER_LINE):
            return parse_headers(headers)
        return await super()._process_headers(headers)


def parse_headers(block: bytes) -> dict[str, str]:
    """The headers of a block on the wire; several values of one name stand in lines of their own."""
    headers: dict[str, str] = {}
    for line in block[len(_HEADER_LINE) :].decode(errors="replace").split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            value = value.strip()
            headers[name] = f"{headers[name]}\n{value}" if name in headers else value
    return headers

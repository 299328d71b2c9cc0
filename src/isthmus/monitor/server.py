"""The monitor's HTTP server, on an event loop in a thread of its own.

A client has some seconds for its request, and some for each part of the answer; where too many are connected,
the one that has taken longest is cut off. While the bridge itself works on an answer, nobody's time runs.
Normal operation logs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self

import uvicorn
from h11 import LocalProtocolError
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from isthmus.errors import HardFailure
from isthmus.events.monitor import AnswerFailed
from isthmus.monitor.app import MonitorApp, Watched
from isthmus.monitor.guard import Access

PATIENCE_S: Final = 10.0
"""How long a client may take to ask, and to read what it is sent."""
MAX_CONNECTIONS: Final = 32
CLOSE_S: Final = 1.0
"""How long answers that are being made have when the monitor closes."""
logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what matters of it is an event


class Monitor:
    """Serves what there is to see of a bridge until it is closed."""

    def __init__(
        self,
        host: str,
        port: int,
        watched: Watched,
        *,
        token: str | None = None,
        patience_s: float = PATIENCE_S,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """Raises `HardFailure` when it cannot listen there."""
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise HardFailure(
                f"the monitor cannot listen on {host}:{port}: {error.strerror}",
                remedy="set monitor.host and monitor.port; port 0 takes any that is free",
            ) from None
        self._address = self._socket.getsockname()[:2]
        app = MonitorApp(watched, Access(host, token))
        self._server = _Server(app, http_config(app, patience_s=patience_s, max_connections=max_connections))
        self._thread = Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="monitor", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self._address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def close(self) -> None:
        """Stop serving. Whoever still waits for an answer gets none."""
        self._server.stop()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def http_config(
    app: MonitorApp, *, patience_s: float = PATIENCE_S, max_connections: int = MAX_CONNECTIONS
) -> uvicorn.Config:
    """How an application is served."""
    limits = {"patience_s": patience_s, "max_connections": max_connections}
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=type("Connection", (_Connection,), limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )


class _Server(uvicorn.Server):
    def __init__(self, app: MonitorApp, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._monitor_app = app
        self._running = Event()
        """Set once it serves, or never will."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `stop`."""
        try:
            super().run(sockets)
        finally:
            self._running.set()

    def stop(self) -> None:
        """Have it end; called from another thread."""
        self._running.wait()
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)

    async def main_loop(self) -> None:
        """Serve until it is stopped: there is nothing to do in between."""
        self._loop = asyncio.get_running_loop()
        self._running.set()
        async with self._monitor_app.running():
            await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all connections. What is being made for them ends with the application."""
        for server in self.servers:
            server.close()
        for each in sockets or ():
            each.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=CLOSE_S)


class _Connection(H11Protocol):
    """A client's connection, which is cut off when the client takes too long."""

    patience_s: float
    max_connections: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._application = self.app
        self.app = self._answer
        self.since = 0.0
        """When it was last the client's turn."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; the one that has taken longest makes room."""
        others: set[Any] = self.connections.copy()
        if len(others) >= self.max_connections:
            min(others, key=lambda each: each.since).transport.abort()
        super().connection_made(transport)
        self._clients_turn()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """The client may read the answer, and ask for something else."""
        self._clients_turn()
        super().on_response_complete()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_part(message: Message) -> None:
            await send(message)  # waits until the client has read most of what it was sent before
            self._clients_turn()

        try:
            await self._application(scope, receive, send_part)
        except (LocalProtocolError, ClientDisconnect):  # the client goes on with what is no HTTP, or leaves
            raise
        except Exception as error:
            AnswerFailed(scope["path"]).emit(trace=error)
            raise

    def _clients_turn(self) -> None:
        self.since = self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.patience_s, self._overdue)

    def _overdue(self) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.more_body and not cycle.response_started:
            self._clients_turn()  # not yet: the answer is being made
        else:
            self.transport.abort()

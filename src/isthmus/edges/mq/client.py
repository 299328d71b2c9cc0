"""One connection to a queue manager that reconnects by itself, on a thread of its own.

MQ's calls block, so none of them runs on the event loop. While the queue manager is unavailable every call
backs off (see `isthmus.edges.reconnect`), tries once, and raises `Unreachable`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import TypeVar

from isthmus.config.model.mq import MqSettings
from isthmus.edges.mq.ibm import ClientOptions, IbmQueueManager
from isthmus.edges.mq.port import Connection, QueueManager
from isthmus.edges.mq.reasons import Outcome, outcome_of
from isthmus.edges.reconnect import LONGEST_WAIT_S, Backoff, ConnectionCounts
from isthmus.errors import HardFailure, MqError, Unreachable

Result = TypeVar("Result")


def queue_manager(settings: MqSettings) -> QueueManager:
    """The queue manager that the settings name. Nothing is connected, or even loaded, yet."""
    if settings.client == "memory":
        from isthmus.testing.queue_manager import shared_queue_manager

        return shared_queue_manager(settings.queue_manager or "MEMORY")
    return IbmQueueManager(client_options(settings))


def client_options(settings: MqSettings) -> ClientOptions:
    """What IBM's client is told."""
    return ClientOptions(
        **{field.name: getattr(settings, field.name) or "" for field in fields(ClientOptions)}
    )


class MqClient:
    """One connection, for one user of it. Made when it is first needed; `close` it in the end."""

    def __init__(self, manager: QueueManager, *, name: str, max_backoff_s: float = LONGEST_WAIT_S) -> None:
        self.counts = ConnectionCounts()
        self._manager = manager
        self._backoff = Backoff(f"{manager.description} ({name})", longest_wait_s=max_backoff_s)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"mq-{name}")
        self._connection: Connection | None = None
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether the last call reached the queue manager."""
        return self._connection is not None and not self._backoff.unavailable

    @property
    def unavailable(self) -> bool:
        """Whether the last call did not reach it."""
        return self._backoff.unavailable

    async def call(self, work: Callable[[Connection], Result]) -> Result:
        """Do the work on the connection's thread.

        Raises `Unreachable` when the queue manager is unavailable, or cannot do it now: then the unit of work
        is backed out. Raises `MqError` for a refusal, which leaves the unit of work as it is.
        """
        await self._backoff.wait()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    async def close(self) -> None:
        """Back out, disconnect, and end the thread."""
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
            self._thread.shutdown(wait=False)

    def _do(self, work: Callable[[Connection], Result]) -> Result:
        try:
            if self._connection is None:
                self._connection = self._connect()
            result = work(self._connection)
        except MqError as error:
            if outcome_of(error) is Outcome.GONE:
                if self._connection is not None:
                    self.counts.disconnects += 1
                self._disconnect()
            elif outcome_of(error) is Outcome.LATER:
                self._back_out()
            else:
                raise
            self._backoff.failed(error)
            raise Unreachable(f"{self._manager.description}: {error}") from error
        self._backoff.succeeded()
        return result

    def _connect(self) -> Connection:
        try:
            connection = self._manager.connect()
        except MqError as error:
            if outcome_of(error) in (Outcome.GONE, Outcome.LATER):
                raise
            raise refused(self._manager, error) from error
        self.counts.connects += 1
        self.counts.reconnects += self.counts.connects > 1
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def _back_out(self) -> None:
        if self._connection is not None:
            try:
                self._connection.backout()
            except MqError:
                self._disconnect()  # which backs out too


def refused(manager: QueueManager, error: MqError) -> HardFailure:
    """The failure that ends an edge because MQ will have nothing to do with it."""
    return HardFailure(
        f"{manager.description} refuses the bridge: {error}",
        remedy="check the names of queue manager, channel and queues, and what mq.user may do with them",
    )

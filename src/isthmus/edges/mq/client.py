"""A connection to a queue manager that is kept: on a thread of its own, made again when it breaks.

MQ's calls block, so that none of them runs on the event loop. While the queue manager is away every call
waits a little longer than the last one did, with jitter, tries once, and raises `Unreachable`. What is
logged is that it is away and that it is back, once each.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Final, TypeVar

from isthmus.config.model.mq import MqSettings
from isthmus.edges.contract import Unreachable
from isthmus.edges.mq.ibm import ClientOptions, IbmQueueManager
from isthmus.edges.mq.port import Connection, MqError, Outcome, QueueManager
from isthmus.errors import HardFailure

log = logging.getLogger(__name__)

FIRST_WAIT_S: Final = 0.05

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


@dataclass(slots=True)
class ConnectionCounts:
    """What happened to the connection since the start."""

    connects: int = 0
    disconnects: int = 0
    reconnects: int = 0


class MqClient:
    """One connection, for one user of it. Made when it is first needed; `close` it in the end."""

    def __init__(self, manager: QueueManager, *, name: str, max_backoff_s: float = 10.0) -> None:
        self.counts = ConnectionCounts()
        self._manager = manager
        self._name = name
        self._max_backoff_s = max_backoff_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"mq-{name}")
        self._connection: Connection | None = None
        self._failed = 0
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether the last call found the queue manager."""
        return self._connection is not None and self._failed == 0

    @property
    def away(self) -> bool:
        """Whether the last call did not find it."""
        return self._failed > 0

    async def call(self, work: Callable[[Connection], Result]) -> Result:
        """Do the work on the connection's thread.

        Raises `Unreachable` when the queue manager is away, or cannot do it now: then the unit of work is
        backed out. Raises `MqError` for a refusal, which leaves the unit of work as it is.
        """
        if self._failed:
            await asyncio.sleep(self._wait_s())
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
            if error.outcome is Outcome.GONE:
                if self._connection is not None:
                    self.counts.disconnects += 1
                self._disconnect()
            elif error.outcome is Outcome.LATER:
                self._back_out()
            else:
                raise
            self._away(error)
            raise Unreachable(f"{self._manager.description}: {error}") from error
        self._back()
        return result

    def _connect(self) -> Connection:
        try:
            connection = self._manager.connect()
        except MqError as error:
            if error.outcome in (Outcome.GONE, Outcome.LATER):
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

    def _away(self, error: MqError) -> None:
        if not self._failed:
            log.warning("%s (%s) is away: %s", self._manager.description, self._name, error)
        self._failed += 1

    def _back(self) -> None:
        if self._failed:
            log.info("%s (%s) is back", self._manager.description, self._name)
            self._failed = 0

    def _wait_s(self) -> float:
        longest = min(self._max_backoff_s, FIRST_WAIT_S * 2 ** min(self._failed, 16))
        return random.uniform(longest / 2, longest)


def refused(manager: QueueManager, error: MqError) -> HardFailure:
    """The failure that ends an edge because MQ will have nothing to do with it."""
    return HardFailure(
        f"{manager.description} refuses the bridge: {error}",
        remedy="check the names of queue manager, channel and queues, and what mq.user may do with them",
    )

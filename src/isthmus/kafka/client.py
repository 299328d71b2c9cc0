"""Connections to Kafka's brokers for requests of one's own, kept up through whatever happens to them.

`ResilientClient.send` gets a request to a broker, `leader`, `coordinator` and `controller` say to which. What
is known of the cluster is asked for when it is needed, of any broker that answers: those that are known, and
if none of them does, the servers of the configuration. So a Kafka that was moved, or restarted with another
address, is found again without anybody's doing.

All waiting is bounded, and all works on the event loop that uses it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from aiokafka.conn import AIOKafkaConnection, CloseReason, collect_hosts
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    UnknownTopicOrPartitionError,
)
from aiokafka.protocol.admin import ApiVersionRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest

from isthmus.kafka import requests
from isthmus.kafka.faults import (
    UNKNOWN_TOPIC_OR_PARTITION,
    Fault,
    KafkaRefusal,
    kind,
    raise_for,
)
from isthmus.kafka.options import Kafka

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
# It logs each failed attempt to connect, among others. What matters comes as an exception.

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 10.0
"""How long an answer may take. Kafka's own default is a minute: too long for a client who waits."""
CONNECT_TIMEOUT_S: Final = 3.0
RETRY_S: Final = 0.1
KEPT: Final = 10_000
"""How many topics and coordinators are remembered; then they are asked for anew."""
_IDLE_MS: Final = 540_000
"""After which connections are closed: before the broker does it, ten minutes by default."""
_GROUP: Final = 0
"""The type of a group's coordinator."""
_NOT_SAID: Final = -(2**31)


class Topic(NamedTuple):
    """A topic as a broker describes it."""

    name: str
    id: bytes
    leaders: dict[int, int]
    """For each partition the broker that leads it; -1 if none does at the moment."""
    epochs: dict[int, int]
    """For each partition how often its leader has changed."""
    operations: frozenset[int] | None = None
    """What the user may do with it, by the codes of ``AclOperation``; None if that was not said."""

    @property
    def partitions(self) -> list[int]:
        """Its partitions, in order."""
        return sorted(self.leaders)


class ResilientClient:
    """Sends requests to brokers. To be used and closed on one event loop; it connects when it is used."""

    def __init__(
        self,
        kafka: Kafka,
        *,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        retry_s: float = RETRY_S,
    ) -> None:
        """Raises `ConfigError` for options that aiokafka does not take."""
        options = kafka.async_options()
        self._servers = options.pop("bootstrap_servers")
        self._options = {
            **options,
            "request_timeout_ms": int(request_timeout_s * 1000),
            "max_idle_ms": _IDLE_MS,
        }
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._retry_s = retry_s
        self._brokers: dict[int, tuple[str, int]] = {}
        self._unreachable: set[int] = set()
        """Brokers that may not be where they were."""
        self._controller = -1
        self._topics: dict[str, Topic] = {}
        self._coordinators: dict[str, int] = {}
        self._connections: dict[tuple[int, Hashable], asyncio.Future[AIOKafkaConnection]] = {}
        self._closing: set[asyncio.Future[None]] = set()
        """Connections whose sockets are still open: over TLS the broker is told first, and answers."""
        self._refreshing: asyncio.Task[None] | None = None
        self._closed = False

    async def close(self) -> None:
        """Close all connections, and wait until they are. What waits for an answer fails."""
        self._closed = True
        unfinished: list[asyncio.Future[Any]] = list(self._connections.values())
        self._connections = {}
        for each in unfinished:
            _close(each)
        if self._refreshing is not None:
            self._refreshing.cancel()
            unfinished.append(self._refreshing)
        for waited_for in (unfinished, self._closing):
            if waited_for:
                await asyncio.wait(waited_for, timeout=self._connect_timeout_s)

    async def send(self, node_id: int, request: Any, *, connection: Hashable = None) -> Any:
        """A broker's answer. Raises what `isthmus.kafka.faults.kind` judges.

        A broker answers the requests of one connection one after the other: those that wait long there, like
        fetches, need a ``connection`` of their own, by any name, which `drop` closes.
        """
        if node_id not in self._brokers or node_id in self._unreachable:
            await self.refresh()
        try:
            return await self._send(node_id, request, connection)
        except (KafkaConnectionError, OSError):
            self._unreachable.add(node_id)
            raise

    def drop(self, connection: Hashable) -> None:
        """Close the connections of that name, to whatever broker."""
        for key in [each for each in self._connections if each[1] == connection]:
            _close(self._connections.pop(key))

    async def ask_any(self, request: Any) -> Any:
        """The answer of any broker. Raises like `send`."""
        if not self._brokers:
            await self.refresh()
        return await self.send(random.choice(list(self._brokers)), request)

    async def versions(self) -> dict[int, int]:
        """The newest version of every request that brokers take, by the request's number."""
        answer = await self.ask_any(ApiVersionRequest())
        raise_for(answer.error_code)
        return {number: newest for number, _, newest, *_ in answer.api_versions}

    async def leaders(self, topic: str) -> dict[int, int]:
        """The brokers that lead the partitions of a topic, as far as known, or -1 where none does.

        `forget_topic` has them asked for anew. Raises `UnknownTopicOrPartitionError`.
        """
        known = self._topics.get(topic) or await self.topic(topic)
        if known is None:
            raise UnknownTopicOrPartitionError(topic)
        return known.leaders

    async def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition. Raises `LeaderNotAvailableError` if none does."""
        leaders = await self.leaders(topic)
        if leaders.get(partition, -1) < 0:
            self.forget_topic(topic)
            error = LeaderNotAvailableError if partition in leaders else UnknownTopicOrPartitionError
            raise error(f"{topic}[{partition}]")
        return leaders[partition]

    async def coordinator(self, group: str) -> int:
        """The broker that coordinates a group; `forget_coordinator` has it asked for anew."""
        if group not in self._coordinators:
            answer = await self.ask_any(FindCoordinatorRequest(group, _GROUP))
            raise_for(answer.error_code)
            if answer.coordinator_id not in self._brokers:
                await self.refresh()
            if len(self._coordinators) >= KEPT:
                self._coordinators.clear()
            self._coordinators[group] = answer.coordinator_id
        return self._coordinators[group]

    async def controller(self) -> int:
        """The broker that takes changes."""
        if self._controller not in self._brokers:
            await self.refresh()
        return self._controller

    def forget_topic(self, topic: str) -> None:
        """Ask for a topic's leaders the next time, since a broker does not lead what it should."""
        self._topics.pop(topic, None)

    def forget_coordinator(self, group: str) -> None:
        """Ask for a group's coordinator the next time, since a broker is not the one it should be."""
        self._coordinators.pop(group, None)

    async def topic(self, name: str, *, operations: bool = False) -> Topic | None:
        """A topic as it is now; None if there is none. Raises `KafkaRefusal` if it may not be described."""
        return (await self._describe([name], operations=operations)).get(name)

    async def topics(self) -> dict[str, Topic]:
        """All topics that the user may see."""
        return await self._describe(None)

    async def refresh(self) -> None:
        """Learn anew where the brokers are. Raises `KafkaConnectionError` if nobody answers.

        Those who ask at the same time share one answer.
        """
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh())
            self._refreshing.add_done_callback(_heard)
            self._refreshing.add_done_callback(self._refreshed)
        refreshing = self._refreshing
        try:
            await asyncio.shield(refreshing)
        except asyncio.CancelledError:
            if refreshing.cancelled():
                raise KafkaConnectionError("the client is closed") from None
            raise

    async def patiently(self, attempt: Callable[[], Awaitable[T]], timeout_s: float | None = None) -> T:
        """What an attempt comes to; it is made again until its time is over while errors are retriable.

        Whatever was known of brokers, leaders and coordinators is forgotten in between.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + (self._request_timeout_s if timeout_s is None else timeout_s)
        pause_s = self._retry_s
        told: Exception | None = None
        """Why an attempt failed: more than that the time was over in the midst of the next one."""
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt()
            except (KafkaError, OSError) as error:  # TimeoutError is one of those
                told = told if told is not None and isinstance(error, TimeoutError) else error
                if kind(error) is not Fault.RETRIABLE or clock() + pause_s > deadline:
                    raise told from None
            self._topics.clear()
            self._coordinators.clear()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)
            with suppress(KafkaError, OSError):
                await self.refresh()

    async def _describe(self, names: list[str] | None, *, operations: bool = False) -> dict[str, Topic]:
        answer = await self._ask_metadata(requests.metadata(names, operations=operations))
        found = {}
        if len(self._topics) >= KEPT:
            self._topics.clear()
        for error, name, topic_id, _, partitions, allowed, _ in answer.topics:
            if error and names is not None and error != UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaRefusal(error, name)
            if not error:
                leaders = {number: leader for _, number, leader, *_ in partitions}
                epochs = {number: epoch for _, number, _, epoch, *_ in partitions}
                described = Topic(name, topic_id, leaders, epochs, _operations(allowed))
                found[name] = self._topics[name] = described
        return found

    async def _refresh(self) -> None:
        await self._ask_metadata(requests.metadata([]))

    def _refreshed(self, _: asyncio.Task[None]) -> None:
        self._refreshing = None

    async def _ask_metadata(self, request: Any) -> Any:
        """The answer of the first broker that has one: a known one, or one of the configuration."""
        problem: Exception = KafkaConnectionError("no broker is known")
        known = list(self._brokers)
        # Those that are connected come first: the others may take their time to fail.
        known.sort(key=lambda node_id: ((node_id, None) not in self._connections, random.random()))
        for node_id in known:
            try:
                return self._learn(await self._send(node_id, request, None))
            except (KafkaError, OSError) as error:
                problem = error
        for host, port, _ in collect_hosts(self._servers):
            try:
                link = await self._open(host, port)
            except (KafkaError, OSError) as error:
                problem = error
                continue
            try:
                return self._learn(await link.send(request))
            except (KafkaError, OSError) as error:
                problem = error
            finally:
                link.close()
        raise problem

    def _learn(self, answer: Any) -> Any:
        """Take over what a broker knows of the others. One that is about to stop may name nobody."""
        if not answer.brokers:
            raise KafkaConnectionError("a broker names no brokers")
        brokers = {node_id: (host, port) for node_id, host, port, *_ in answer.brokers}
        for node_id, address in self._brokers.items():
            if brokers.get(node_id) != address:  # it was moved, or is gone
                for key in [each for each in self._connections if each[0] == node_id]:
                    _close(self._connections.pop(key))
        self._brokers = brokers
        self._unreachable.clear()
        self._controller = answer.controller_id if answer.controller_id in brokers else min(brokers)
        return answer

    async def _send(self, node_id: int, request: Any, connection: Hashable) -> Any:
        link = await self._connect(node_id, connection)
        try:
            return await link.send(request)
        except TimeoutError:
            link.close(reason=CloseReason.CONNECTION_TIMEOUT)  # so that no late answer is taken for another
            raise

    async def _connect(self, node_id: int, name: Hashable) -> AIOKafkaConnection:
        key = node_id, name
        connecting = self._connections.get(key)
        if connecting is not None and connecting.done() and not _is_connected(connecting):
            _close(self._connections.pop(key))
            connecting = None
        if connecting is None:
            if self._closed:
                raise KafkaConnectionError("the client is closed")
            if node_id not in self._brokers:
                raise NodeNotReadyError(f"no broker {node_id} is known")
            connecting = asyncio.ensure_future(self._open(*self._brokers[node_id]))
            connecting.add_done_callback(_heard)  # whoever waits may be gone by then
            self._connections[key] = connecting
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if connecting.cancelled():
                raise KafkaConnectionError("the connection was closed") from None
            raise
        except (KafkaError, OSError):
            if self._connections.get(key) is connecting:
                del self._connections[key]
            raise

    async def _open(self, host: str, port: int) -> AIOKafkaConnection:
        link = AIOKafkaConnection(host, port, on_close=self._on_close, **self._options)
        async with asyncio.timeout(self._connect_timeout_s):
            await link.connect()
        return link

    def _on_close(self, link: AIOKafkaConnection, _: object) -> None:
        closed = link.close()  # says when its socket is
        self._closing.add(closed)
        closed.add_done_callback(self._closing.discard)


def _heard(task: asyncio.Future[Any]) -> None:
    """Have asyncio not complain of an exception that nobody asked for."""
    if not task.cancelled():
        task.exception()


def _is_connected(connecting: asyncio.Future[AIOKafkaConnection]) -> bool:
    return not connecting.cancelled() and connecting.exception() is None and connecting.result().connected()


def _close(connecting: asyncio.Future[AIOKafkaConnection]) -> None:
    """Close a connection, or stop making it."""
    if not connecting.done():
        connecting.cancel()
    elif not connecting.cancelled() and connecting.exception() is None:  # also one whose broker is gone
        connecting.result().close(reason=CloseReason.SHUTDOWN)


def _operations(bits: int) -> frozenset[int] | None:
    return None if bits == _NOT_SAID else frozenset(code for code in range(32) if bits >> code & 1)

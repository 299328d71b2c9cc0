"""A bridge's lock in Kafka: one process at a time holds it, on whatever machine, and a crash gives it back.

The lock is a group of Kafka's classic protocol, as consumers have, without a topic; its leader is the holder.
Kafka keeps a leader for as long as it is a member, so that a process that comes later finds itself behind
one, is told who that is, and leaves. One that is gone without leaving is missed after `Timings.session_s`.

A holder that Kafka has missed joins again as soon as it can, and holds the lock as before unless another
process has it by then: `BridgeLock.poll` raises that. In between two processes may take themselves for the
holder, of which one has had no word with Kafka for the time of a session.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final

from aiokafka.errors import KafkaError
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from isthmus.errors import AlreadyRunning, HardFailure, IsthmusError, Outage
from isthmus.events.bridge import LockHeld, LockUncertain
from isthmus.kafka.client import ResilientClient
from isthmus.kafka.faults import (
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Fault,
    KafkaRefusal,
    kind,
    raise_for,
    reason,
)
from isthmus.kafka.options import Kafka

_PROTOCOL_TYPE: Final = "isthmus"
_NO_GENERATION: Final = -1
_LEAVE_S: Final = 2.0
_LONGEST_SESSION_S: Final = 300.0


@dataclass(frozen=True, kw_only=True)
class Timings:
    """How long the holder of a lock, and one who wants it, wait for what."""

    session_s: float = 6.0
    """After which a holder that is gone is missed: the least that brokers take by default."""
    heartbeat_s: float = 1.0
    rebalance_s: float = 30.0
    """How long one who wants the lock waits for a holder that is there to say so."""
    retry_s: float = 0.2
    patience_s: float = 60.0
    """How long `BridgeLock.acquire` waits for Kafka."""


class BridgeLock:
    """Held by the one process that runs a bridge's pipeline. Others are told its ``holder``."""

    def __init__(self, kafka: Kafka, bridge_id: str, *, holder: str, timings: Timings | None = None) -> None:
        self._kafka = kafka
        self._bridge_id = bridge_id
        self._name = f"isthmus.{bridge_id}.lock"
        self._holder = holder
        self._timings = timings or Timings()
        self._session_s = self._timings.session_s
        self._member_id = ""
        self._generation = _NO_GENERATION
        self._trouble = ""
        self._failure: BaseException | None = None
        self._decided = Event()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._holding: asyncio.Task[None] | None = None
        self._released = False

    def request(self) -> None:
        """Ask for the lock: it is had some seconds later, or never. `acquire` waits for that."""
        self._failure, self._released = None, False
        self._decided.clear()
        self._thread = Thread(target=self._main, name="bridge-lock", daemon=True)
        self._thread.start()

    def acquire(self) -> None:
        """Return when the lock is held. Raises `AlreadyRunning` if another process has it."""
        if not self._decided.wait(self._timings.patience_s) and self._failure is None:
            raise Outage(
                f"Kafka does not say whether another bridge runs: {self._trouble or 'it does not answer'}",
                remedy="check that the brokers are up, and that the group coordinator can be reached",
            )
        self.poll()

    def poll(self) -> None:
        """Raises `AlreadyRunning` once another process has the lock."""
        if isinstance(self._failure, IsthmusError):
            raise self._failure
        if self._failure is not None:
            raise HardFailure(
                f"the lock {self._name} in Kafka cannot be held: {reason(self._failure)}",
                remedy=f"let the bridge's Kafka user read the consumer group {self._name}",
            ) from self._failure

    def release(self) -> None:
        """Let others have the lock."""
        thread, self._thread = self._thread, None
        self._released = True
        if thread is not None:
            if self._loop is not None and self._holding is not None:
                with suppress(RuntimeError):  # it has ended by itself
                    self._loop.call_soon_threadsafe(self._holding.cancel)
            thread.join(2 * _LEAVE_S)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as failure:  # whoever polls must hear of it
            self._failure = failure
        finally:
            self._decided.set()

    async def _run(self) -> None:
        timings = self._timings
        # A broker answers one who joins when all members have joined, or their time is over.
        client = ResilientClient(self._kafka, request_timeout_s=timings.rebalance_s + timings.session_s)
        self._loop, self._holding = asyncio.get_running_loop(), asyncio.ensure_future(self._hold(client))
        if self._released:  # before there was a task to cancel
            self._holding.cancel()
        try:
            await self._holding
        except asyncio.CancelledError:  # released
            client.drop(None)  # what is asked behind a join would wait for its answer
        finally:
            await self._leave(client)
            await client.close()

    async def _hold(self, client: ResilientClient) -> None:
        held = False
        while True:
            try:
                await self._join(client)
                self._trouble = ""
                self._decided.set()
                if not held:
                    held = True
                    LockHeld(self._bridge_id).emit()
                await self._stay(client)
            except (KafkaError, OSError) as error:
                code = error.errno if isinstance(error, KafkaRefusal) else 0
                if code == REBALANCE_IN_PROGRESS:
                    continue
                if code == UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                elif code == INVALID_SESSION_TIMEOUT and self._session_s < _LONGEST_SESSION_S:
                    self._session_s *= 2  # these brokers want longer ones
                elif kind(error) is Fault.FINAL:
                    raise
                client.forget_coordinator(self._name)
                self._trouble = reason(error)
                if held:
                    held = False
                    LockUncertain(self._bridge_id, self._trouble).emit()
                await asyncio.sleep(self._timings.retry_s)

    async def _join(self, client: ResilientClient) -> None:
        """Become the leader. Raises `AlreadyRunning` if another member is."""
        answer = await self._ask_to_join(client)
        if answer.error_code == MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            answer = await self._ask_to_join(client)
        raise_for(answer.error_code)
        self._member_id, self._generation = answer.member_id, answer.generation_id
        leads = answer.leader_id == answer.member_id
        told = [(member[0], self._holder.encode()) for member in answer.members] if leads else []
        sync = SyncGroupRequest(self._name, self._generation, self._member_id, None, told)
        answer = await self._send(client, sync)
        raise_for(answer.error_code)
        if not leads:
            raise AlreadyRunning(
                f"another bridge with bridge.id={self._bridge_id} runs on this Kafka",
                holder=answer.member_assignment.decode(errors="replace"),
                setting="bridge.id",
            )

    async def _ask_to_join(self, client: ResilientClient) -> Any:
        timings = self._timings
        times_ms = (round(seconds * 1000) for seconds in (self._session_s, timings.rebalance_s))
        request = JoinGroupRequest(
            self._name, *times_ms, self._member_id, None, _PROTOCOL_TYPE, [("leader", self._holder.encode())]
        )
        return await self._send(client, request)

    async def _stay(self, client: ResilientClient) -> None:
        """Be there until Kafka wants the members to join again, which it says with an error."""
        while True:
            await asyncio.sleep(self._timings.heartbeat_s)
            beat = HeartbeatRequest(self._name, self._generation, self._member_id)
            raise_for((await self._send(client, beat)).error_code)

    async def _leave(self, client: ResilientClient) -> None:
        if self._member_id:
            with suppress(KafkaError, OSError, TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await self._send(client, LeaveGroupRequest(self._name, self._member_id))

    async def _send(self, client: ResilientClient, request: Any) -> Any:
        return await client.send(await client.coordinator(self._name), request)

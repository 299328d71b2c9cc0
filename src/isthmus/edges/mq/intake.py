"""Takes messages from a queue or a topic string into the journal.

A unit of work: get some messages, put them into the journal, commit. A message is gone from MQ only when the
journal has it. After a crash, or a failure anywhere in between, MQ has all of the unit's messages still, and
redelivers them: a message may be in the journal twice, with the same ``MessageId``.

A message that the journal fails on is backed out and redelivered, alone. After as many times as the threshold
says it is set aside: dead-lettered, or moved to the queue's own backout queue. What can never be written is
dead-lettered at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from isthmus.config.model.mq import MqIntakeSettings
from isthmus.edges.contract import DeadLetters, Journal, Traffic
from isthmus.edges.in_flight import InFlight
from isthmus.edges.mq.client import MqClient, refused
from isthmus.edges.mq.port import Connection, MqMessage, QueueManager, QueueTarget, Source
from isthmus.edges.mq.replies import ReplyMap
from isthmus.edges.mq.translate import to_message
from isthmus.edges.reconnect import LONGEST_WAIT_S, Backoff
from isthmus.errors import HardFailure, IsthmusError, MqError, RedeliveryFailure, Unreachable
from isthmus.events.mq import BackoutRefused
from isthmus.journal.layout import Entry, Op
from isthmus.message import Message

WAIT_S: Final = 0.5
"""How long a get waits: also the longest that ending the intake takes. A message ends the wait at once."""
UNIT_BYTES: Final = 8 * 1024 * 1024
"""No more messages are got once a unit of work has so many bytes."""
DEFAULT_THRESHOLD: Final = 5
FINISH_S: Final = 10.0
"""How long an intake that ends waits for the journal."""


class MqIntake:
    """Intake from one queue or topic string, over a connection of its own."""

    def __init__(
        self,
        manager: QueueManager,
        settings: MqIntakeSettings,
        journal: Journal,
        dead_letters: DeadLetters,
        *,
        name: str = "intake",
        replies: ReplyMap | None = None,
        max_backoff_s: float = LONGEST_WAIT_S,
        finish_s: float = FINISH_S,
    ) -> None:
        self.traffic = Traffic()
        self.client = MqClient(manager, name=name, max_backoff_s=max_backoff_s)
        self._manager = manager
        self._settings = settings
        self._journal = journal
        self._dead_letters = dead_letters
        self._replies = replies
        self._opened: tuple[Connection, Source] | None = None
        self._finish_s = finish_s
        self._one_by_one = 0
        """How many of the next messages are units of work of their own, since one of them has failed."""
        self._journal_backoff = Backoff(
            f"the journal for {settings.address}", longest_wait_s=min(5.0, max_backoff_s)
        )

    async def run(self) -> None:
        """Take messages until this is cancelled. Raises `HardFailure` when it cannot go on."""
        try:
            while True:
                try:
                    await self._unit_of_work()
                except Unreachable:
                    continue  # the client has said so, and waits before it tries again
                except MqError as error:
                    raise refused(self._manager, error) from error
        finally:
            await asyncio.shield(self.client.close())

    async def _unit_of_work(self) -> None:
        await self._journal_backoff.wait()
        got = await self.client.call(self._get)
        if not got:
            return
        taking = asyncio.ensure_future(self._take(got))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            # What is in flight is committed if that does not take long: then it need not be redelivered.
            await asyncio.wait((taking,), timeout=self._finish_s)
            raise
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def _take(self, got: Sequence[MqMessage]) -> None:
        now_ms = time.time_ns() // 1_000_000
        messages = [self._message(mq, now_ms) for mq in got]
        unit = InFlight(self._journal, self._dead_letters)
        try:
            for message in messages:
                unit.put(Entry(Op.ADD, message))
            await unit.settled()
        except HardFailure as failure:
            if unit.dead_letters_failed:
                await self.client.call(_back_out)
                raise
            if len(got) > 1 or got[0].descriptor.BackoutCount + 1 < self._threshold:
                await self._redeliver(got, failure)
                return
            unit.traffic = await self._set_aside(got[0], messages[0], failure)
        else:
            await self.client.call(_commit)
        finally:
            await unit.finish(0)
        self._journal_backoff.succeeded()
        self._one_by_one = max(0, self._one_by_one - len(got))
        self.traffic.add(unit.traffic)

    def _get(self, connection: Connection) -> list[MqMessage]:
        source = self._source(connection)
        got: list[MqMessage] = []
        size = 0
        while len(got) < (1 if self._one_by_one else self._settings.batch) and size < UNIT_BYTES:
            message = source.get(0 if got else WAIT_S)
            if message is None:
                break
            got.append(message)
            size += len(message.body)
        return got

    def _source(self, connection: Connection) -> Source:
        if self._opened is None or self._opened[0] is not connection:
            settings = self._settings
            if settings.queue is not None:
                source = connection.open_queue(settings.queue, whole_groups=settings.whole_groups)
            else:
                source = connection.subscribe(settings.topic or "", durable_name=settings.durable)
            self._opened = connection, source
        return self._opened[1]

    @property
    def _threshold(self) -> int:
        queue_s = self._opened[1].backout_threshold if self._opened else 0
        return self._settings.backout_threshold or queue_s or DEFAULT_THRESHOLD

    def _message(self, mq: MqMessage, now_ms: int) -> Message:
        address, requester = self._settings.address, None
        if self._replies is not None and mq.descriptor.CorrelId:
            requester = self._replies.requester(address, mq.descriptor.CorrelId)
        return to_message(
            mq, address=address, session=f"mq:{address}", received_ms=now_ms, requester=requester
        )

    async def _redeliver(self, got: Sequence[MqMessage], failure: IsthmusError) -> None:
        """Have MQ deliver the messages again, one by one."""
        self._journal_backoff.failed(failure)
        self._one_by_one = max(self._one_by_one, len(got))
        await self.client.call(_back_out)

    async def _set_aside(self, mq: MqMessage, message: Message, failure: IsthmusError) -> Traffic:
        """Settle a message that fails again and again."""
        settled = Traffic(1, len(mq.body))
        if self._settings.poison == "backout-queue" and await self._requeue(mq):
            return settled
        deliveries = mq.descriptor.BackoutCount + 1
        try:
            await self._dead_letters(
                message, RedeliveryFailure(f"tried {deliveries} times: {failure}", deliveries=deliveries)
            )
        except HardFailure:
            await self.client.call(_back_out)
            raise
        await self.client.call(_commit)
        settled.dead_letters = 1
        return settled

    async def _requeue(self, mq: MqMessage) -> bool:
        """Move the message to the queue's backout queue; False if there is none that takes it."""
        backout_queue = self._opened[1].backout_queue if self._opened else ""

        def move(connection: Connection) -> None:
            connection.put(QueueTarget(backout_queue), mq)
            connection.commit()

        try:
            if backout_queue:
                await self.client.call(move)
        except MqError as error:
            BackoutRefused(backout_queue, error).emit()
            return False
        return bool(backout_queue)


def _commit(connection: Connection) -> None:
    connection.commit()


def _back_out(connection: Connection) -> None:
    connection.backout()

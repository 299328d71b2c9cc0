"""Connections to the in-memory queue manager: units of work, open queues and subscriptions.

A connection does what `isthmus.edges.mq.port` promises, all of it under its queue manager's one lock. What
it has put can be seen, and what it has got is gone, once it commits; until then that can be undone.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from isthmus.edges.mq import reasons
from isthmus.edges.mq.descriptor import MQPER_PERSISTENT, MQPRI_PRIORITY_AS_Q_DEF, Mqmd, MqMessage
from isthmus.edges.mq.port import Target
from isthmus.testing.memory_queue import GroupCursor, MemoryQueue, Stored, expiry_time

if TYPE_CHECKING:
    from isthmus.testing.queue_manager import MemoryQueueManager

PRIORITY_ERROR = 2050

_PROPERTY_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")


@dataclass(slots=True)
class Subscription:
    """Who reads what is published to a topic string, and the queue that it is kept in."""

    topic: str
    durable_name: str | None
    queue: MemoryQueue
    reader: MemoryConnection | None


@dataclass(slots=True)
class UnitOfWork:
    """What a connection has put and got since its last commit."""

    puts: list[tuple[MemoryQueue, Stored]] = field(default_factory=list)
    gets: list[tuple[MemoryQueue, Stored]] = field(default_factory=list)
    cursors: list[tuple[GroupCursor, GroupCursor]] = field(default_factory=list)
    """How far readers are in their groups, and how far they were."""

    def do(self) -> None:
        """Make it real."""
        for queue, stored in self.puts:
            queue.uncommitted -= 1
            queue.add(stored)
        for queue, _ in self.gets:
            queue.uncommitted -= 1
        self._clear()

    def undo(self) -> None:
        """Put back what was got, and forget what was put."""
        for queue, _ in self.puts:
            queue.uncommitted -= 1
        for queue, stored in self.gets:
            queue.uncommitted -= 1
            stored.backed_out()
            queue.add(stored)
        for cursor, before in reversed(self.cursors):
            cursor.group, cursor.next_number = before.group, before.next_number
        self._clear()

    def _clear(self) -> None:
        self.puts.clear()
        self.gets.clear()
        self.cursors.clear()


class MemoryConnection:
    """A connection to the in-memory queue manager."""

    def __init__(self, manager: MemoryQueueManager) -> None:
        self._manager = manager
        self._unit = UnitOfWork()
        self._open = True
        self._temporary: list[str] = []

    @property
    def queue_manager(self) -> str:
        """The queue manager's name."""
        return self._manager.name

    def open_queue(self, queue: str, *, whole_groups: bool = False) -> MemorySource:
        """Open a queue for getting."""
        manager = self._manager
        with manager._lock:
            self._check("MQOPEN")
            opened = manager._queue(queue, "MQOPEN")
            if "get" in opened.denied:
                raise reasons.mq_error(reasons.NOT_AUTHORIZED, f"MQOPEN {queue}")
            if opened.model:
                opened = MemoryQueue(name=f"AMQ.{next(manager._numbers):016X}", temporary=True)
                manager._queues[opened.name] = opened
                self._temporary.append(opened.name)
            return MemorySource(self, opened, GroupCursor() if whole_groups else None)

    def subscribe(self, topic: str, *, durable_name: str | None = None) -> MemorySource:
        """Subscribe to a topic string."""
        manager = self._manager
        with manager._lock:
            self._check("MQSUB")
            if not topic:
                raise reasons.mq_error(reasons.TOPIC_STRING_ERROR, "MQSUB")
            for each in manager._subscriptions:
                if durable_name is not None and each.durable_name == durable_name:
                    if each.reader is not None:
                        raise reasons.mq_error(reasons.SUBSCRIPTION_IN_USE, f"MQSUB {durable_name}")
                    break
            else:
                queue = MemoryQueue(name=f"SYSTEM.MANAGED.{next(manager._numbers):016X}")
                each = Subscription(topic, durable_name, queue, self)
                manager._subscriptions.append(each)
            each.reader = self
            return MemorySource(self, each.queue, None, each)

    def put(self, target: Target, message: MqMessage) -> Mqmd:
        """Put a message within the unit of work."""
        manager = self._manager
        with manager._lock:
            self._check("MQPUT")
            queues = manager._targets(target)
            if not message.descriptor.Priority >= MQPRI_PRIORITY_AS_Q_DEF:
                raise reasons.mq_error(PRIORITY_ERROR, f"MQPUT {target}")
            for name in message.properties:
                if not _PROPERTY_NAME.fullmatch(name) or name.startswith(("JMS", "usr.JMS")):
                    raise reasons.mq_error(reasons.PROPERTY_NAME_ERROR, f"MQSETMP {name}")
            for queue in queues:
                _check_room(queue, message, target)
            descriptor = manager._complete(message.descriptor, queues[0] if queues else None)
            for queue in queues:
                stored = Stored(
                    replace(message, descriptor=descriptor, properties=dict(message.properties)),
                    next(manager._numbers),
                    expiry_time(descriptor, manager._clock()),
                )
                queue.uncommitted += 1
                self._unit.puts.append((queue, stored))
            return descriptor

    def commit(self) -> None:
        """Make the unit of work real."""
        manager = self._manager
        with manager._lock:
            self._check("MQCMIT")
            if manager._commit_failures:
                reason, when = manager._commit_failures.pop(0)
                if when == "after":
                    self._unit.do()
                self._unit.undo()
                if reason != reasons.BACKED_OUT:
                    manager._drop(self)
                manager._changed.notify_all()
                raise reasons.mq_error(reason, "MQCMIT")
            self._unit.do()
            manager._changed.notify_all()

    def backout(self) -> None:
        """Undo the unit of work."""
        with self._manager._lock:
            self._check("MQBACK")
            self._unit.undo()
            self._manager._changed.notify_all()

    def disconnect(self) -> None:
        """Back out, and let go."""
        with self._manager._lock:
            self._manager._drop(self)
            self._manager._changed.notify_all()

    def _check(self, call: str) -> None:
        if not self._open:
            raise reasons.mq_error(reasons.CONNECTION_BROKEN, call)


def _check_room(queue: MemoryQueue, message: MqMessage, target: Target) -> None:
    if "put" in queue.denied:
        raise reasons.mq_error(reasons.NOT_AUTHORIZED, f"MQOPEN {target}")
    if queue.put_inhibited:
        raise reasons.mq_error(reasons.PUT_INHIBITED, f"MQPUT {target}")
    if queue.temporary and message.descriptor.Persistence == MQPER_PERSISTENT:
        raise reasons.mq_error(reasons.PERSISTENT_NOT_ALLOWED, f"MQPUT {target}")
    if len(message.body) > queue.max_message_bytes:
        raise reasons.mq_error(reasons.MSG_TOO_BIG_FOR_Q, f"MQPUT {target}")
    if queue.depth >= queue.max_depth:
        raise reasons.mq_error(reasons.Q_FULL, f"MQPUT {target}")


class MemorySource:
    """A queue that is open for getting, or the queue behind a subscription."""

    def __init__(
        self,
        connection: MemoryConnection,
        queue: MemoryQueue,
        cursor: GroupCursor | None,
        subscription: Subscription | None = None,
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._cursor = cursor
        self._subscription = subscription
        self._closed = False

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue.name

    @property
    def backout_threshold(self) -> int:
        """The queue's backout threshold."""
        return self._queue.backout_threshold

    @property
    def backout_queue(self) -> str:
        """The queue's backout queue."""
        return self._queue.backout_queue

    def get(self, wait_s: float = 0) -> MqMessage | None:
        """The next message, within the unit of work."""
        manager = self._connection._manager
        deadline = time.monotonic() + wait_s
        with manager._lock:
            while True:
                self._connection._check("MQGET")
                if self._closed:
                    raise reasons.mq_error(reasons.HOBJ_ERROR, "MQGET")
                if self._queue.get_inhibited:
                    raise reasons.mq_error(reasons.GET_INHIBITED, f"MQGET {self.name}")
                before = None if self._cursor is None else replace(self._cursor)
                stored = self._queue.take(manager._clock(), self._cursor)
                if stored is not None:
                    if self._cursor is not None and before is not None:
                        self._connection._unit.cursors.append((self._cursor, before))
                    self._queue.uncommitted += 1
                    self._connection._unit.gets.append((self._queue, stored))
                    return stored.handed_out(manager._clock())
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                manager._changed.wait(left)

    def close(self) -> None:
        """Let go of the queue."""
        manager, subscription = self._connection._manager, self._subscription
        with manager._lock:
            self._closed = True
            if subscription is not None and subscription.reader is self._connection:
                subscription.reader = None
                if subscription.durable_name is None and subscription in manager._subscriptions:
                    manager._subscriptions.remove(subscription)

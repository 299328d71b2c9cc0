"""An in-memory queue manager. It stands in for IBM MQ; it is not IBM MQ, and nothing of it is IBM's.

It does what `isthmus.edges.mq.port` promises, as MQ does it: units of work per connection, backout counts,
priorities, persistence over a restart, expiry, message groups, typed properties, topic strings with durable
and other subscriptions, and MQ's reason codes. Everything is in one process and gone when that ends. Beyond
the port it has what an administrator does (`define_queue`, `restart`) and what goes wrong in the field
(`break_connections`, `fail_next_commit`, `stop`). All of it may be used from any thread.

It knows queues and topic strings only: no channels, no other queue managers, no clusters, no security exits.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Condition, Lock, RLock
from typing import Any, Literal

from isthmus.edges.mq import reasons
from isthmus.edges.mq.descriptor import (
    MQPER_PERSISTENCE_AS_Q_DEF,
    MQPER_PERSISTENT,
    MQPRI_PRIORITY_AS_Q_DEF,
    UTF8_CCSID,
    Mqmd,
    MqMessage,
)
from isthmus.edges.mq.port import MqError, Target, TopicTarget
from isthmus.testing.memory_queue import (
    MAX_PRIORITY,
    GroupCursor,
    MemoryQueue,
    Stored,
    expiry_time,
    topic_matches,
)

MQAT_UNIX = 6
UNKNOWN_REMOTE_Q_MGR = 2087
PRIORITY_ERROR = 2050

_PROPERTY_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")

When = Literal["before", "after"]


class MemoryQueueManager:
    """The queue manager, and what its administrator and its misfortunes do to it."""

    def __init__(
        self,
        name: str = "MEMORY",
        *,
        clock: Callable[[], float] = time.time,
        define_on_demand: bool = False,
    ) -> None:
        """With ``define_on_demand``, a queue that is not there is made when somebody opens it."""
        self.name = name
        self._define_on_demand = define_on_demand
        self._clock = clock
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._queues: dict[str, MemoryQueue] = {}
        self._subscriptions: list[_Subscription] = []
        self._connections: list[MemoryConnection] = []
        self._numbers = itertools.count(1)
        self._running = True
        self._commit_failures: list[tuple[int, When]] = []

    @property
    def description(self) -> str:
        """What this is."""
        return f"in-memory queue manager {self.name}: stands in for IBM MQ"

    def define_queue(self, name: str, **attributes: Any) -> MemoryQueue:
        """Make a queue, or change one: the attributes are those of `MemoryQueue`."""
        with self._lock:
            queue = self._queues.setdefault(name, MemoryQueue(name=name))
            for attribute, value in attributes.items():
                setattr(queue, attribute, value)
            self._changed.notify_all()
            return queue

    def depth(self, queue: str) -> int:
        """How many messages the queue has, those in units of work included."""
        with self._lock:
            return self._queue(queue, "depth").depth

    def connect(self) -> MemoryConnection:
        """A new connection."""
        with self._lock:
            if not self._running:
                raise MqError(reasons.Q_MGR_NOT_AVAILABLE, "MQCONNX")
            connection = MemoryConnection(self)
            self._connections.append(connection)
            return connection

    def break_connections(self) -> None:
        """Break every connection, as a network does: MQ backs out what they had not committed."""
        with self._lock:
            for connection in list(self._connections):
                self._drop(connection)
            self._changed.notify_all()

    def stop(self) -> None:
        """End: connections break, and no new ones are to be had. What is not persistent is lost."""
        with self._lock:
            self._running = False
            self.break_connections()
            self._subscriptions = [each for each in self._subscriptions if each.durable_name is not None]
            self._queues = {name: queue for name, queue in self._queues.items() if not queue.temporary}
            for queue in self._queues.values():
                queue.forget_what_is_not_persistent()

    def start(self) -> None:
        """Come back after `stop`."""
        with self._lock:
            self._running = True

    def restart(self) -> None:
        """Stop and start."""
        with self._lock:
            self.stop()
            self.start()

    def fail_next_commit(
        self, reason: int = reasons.CONNECTION_BROKEN, *, when: Literal["before", "after"] = "before"
    ) -> None:
        """Let the next commit fail with this reason, before it has taken effect or after.

        The connection breaks along with it unless the reason is 2003, BACKED_OUT.
        """
        with self._lock:
            self._commit_failures.append((reason, when))

    # What connections ask for, with the lock held.

    def _queue(self, name: str, call: str) -> MemoryQueue:
        queue = self._queues.get(name)
        if queue is None and self._define_on_demand:
            return self.define_queue(name)
        if queue is None:
            raise MqError(reasons.UNKNOWN_OBJECT_NAME, f"{call} {name}")
        return queue

    def _targets(self, target: Target) -> list[MemoryQueue]:
        if isinstance(target, TopicTarget):
            if not target.topic or "#" in target.topic.split("/") or "+" in target.topic.split("/"):
                raise MqError(reasons.TOPIC_STRING_ERROR, f"MQPUT {target}")
            return [each.queue for each in self._subscriptions if topic_matches(each.topic, target.topic)]
        if target.queue_manager not in ("", self.name):
            raise MqError(UNKNOWN_REMOTE_Q_MGR, f"MQPUT {target}")
        return [self._queue(target.queue, "MQPUT")]

    def _complete(self, descriptor: Mqmd, queue: MemoryQueue | None) -> Mqmd:
        """The descriptor that MQ makes of the one that was given."""
        now = datetime.fromtimestamp(self._clock(), UTC)
        priority, persistence = descriptor.Priority, descriptor.Persistence
        if priority == MQPRI_PRIORITY_AS_Q_DEF:
            priority = queue.default_priority if queue else 0
        if persistence == MQPER_PERSISTENCE_AS_Q_DEF:
            persistence = queue.default_persistence if queue else 0
        unique = next(self._numbers).to_bytes(8, "big")
        return replace(
            descriptor,
            Priority=min(priority, MAX_PRIORITY),
            Persistence=persistence,
            MsgId=descriptor.MsgId or b"AMQ " + self.name.encode()[:12].ljust(12) + unique,
            CodedCharSetId=descriptor.CodedCharSetId or UTF8_CCSID,
            BackoutCount=0,
            ReplyToQMgr=descriptor.ReplyToQMgr or (self.name if descriptor.ReplyToQ else ""),
            UserIdentifier="isthmus",
            AccountingToken=b"",
            ApplIdentityData="",
            PutApplType=MQAT_UNIX,
            PutApplName="isthmus.testing",
            PutDate=now.strftime("%Y%m%d"),
            PutTime=now.strftime("%H%M%S") + f"{now.microsecond // 10_000:02d}",
            ApplOriginData="",
        )

    def _drop(self, connection: MemoryConnection) -> None:
        """End a connection, and whatever hung on it."""
        connection._unit.undo()
        connection._open = False
        if connection in self._connections:
            self._connections.remove(connection)
        for each in self._subscriptions:
            if each.reader is connection:
                each.reader = None
        self._subscriptions = [
            each for each in self._subscriptions if each.durable_name is not None or each.reader is not None
        ]
        for name in connection._temporary:
            self._queues.pop(name, None)


_shared: dict[str, MemoryQueueManager] = {}
_sharing = Lock()


def shared_queue_manager(name: str) -> MemoryQueueManager:
    """The one queue manager of that name in this process. Its queues are made when they are first used."""
    with _sharing:
        return _shared.setdefault(name, MemoryQueueManager(name, define_on_demand=True))


@dataclass(slots=True)
class _Subscription:
    topic: str
    durable_name: str | None
    queue: MemoryQueue
    reader: MemoryConnection | None


@dataclass(slots=True)
class _UnitOfWork:
    puts: list[tuple[MemoryQueue, Stored]] = field(default_factory=list)
    gets: list[tuple[MemoryQueue, Stored]] = field(default_factory=list)
    cursors: list[tuple[GroupCursor, GroupCursor]] = field(default_factory=list)
    """How far readers are in their groups, and how far they were."""

    def do(self) -> None:
        for queue, stored in self.puts:
            queue.uncommitted -= 1
            queue.add(stored)
        for queue, _ in self.gets:
            queue.uncommitted -= 1
        self._clear()

    def undo(self) -> None:
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
        self._unit = _UnitOfWork()
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
                raise MqError(reasons.NOT_AUTHORIZED, f"MQOPEN {queue}")
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
                raise MqError(reasons.TOPIC_STRING_ERROR, "MQSUB")
            for each in manager._subscriptions:
                if durable_name is not None and each.durable_name == durable_name:
                    if each.reader is not None:
                        raise MqError(reasons.SUBSCRIPTION_IN_USE, f"MQSUB {durable_name}")
                    break
            else:
                queue = MemoryQueue(name=f"SYSTEM.MANAGED.{next(manager._numbers):016X}")
                each = _Subscription(topic, durable_name, queue, self)
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
                raise MqError(PRIORITY_ERROR, f"MQPUT {target}")
            for name in message.properties:
                if not _PROPERTY_NAME.fullmatch(name) or name.startswith(("JMS", "usr.JMS")):
                    raise MqError(reasons.PROPERTY_NAME_ERROR, f"MQSETMP {name}")
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
                raise MqError(reason, "MQCMIT")
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
            raise MqError(reasons.CONNECTION_BROKEN, call)


def _check_room(queue: MemoryQueue, message: MqMessage, target: Target) -> None:
    if "put" in queue.denied:
        raise MqError(reasons.NOT_AUTHORIZED, f"MQOPEN {target}")
    if queue.put_inhibited:
        raise MqError(reasons.PUT_INHIBITED, f"MQPUT {target}")
    if queue.temporary and message.descriptor.Persistence == MQPER_PERSISTENT:
        raise MqError(reasons.PERSISTENT_NOT_ALLOWED, f"MQPUT {target}")
    if len(message.body) > queue.max_message_bytes:
        raise MqError(reasons.MSG_TOO_BIG_FOR_Q, f"MQPUT {target}")
    if queue.depth >= queue.max_depth:
        raise MqError(reasons.Q_FULL, f"MQPUT {target}")


class MemorySource:
    """A queue that is open for getting, or the queue behind a subscription."""

    def __init__(
        self,
        connection: MemoryConnection,
        queue: MemoryQueue,
        cursor: GroupCursor | None,
        subscription: _Subscription | None = None,
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
                    raise MqError(reasons.HOBJ_ERROR, "MQGET")
                if self._queue.get_inhibited:
                    raise MqError(reasons.GET_INHIBITED, f"MQGET {self.name}")
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

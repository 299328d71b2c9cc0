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
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from threading import Condition, Lock, RLock
from typing import Any, Literal

from isthmus.edges.mq import reasons
from isthmus.edges.mq.descriptor import (
    MQPER_PERSISTENCE_AS_Q_DEF,
    MQPRI_PRIORITY_AS_Q_DEF,
    UTF8_CCSID,
    Mqmd,
)
from isthmus.edges.mq.port import Target, TopicTarget
from isthmus.testing.memory_connection import MemoryConnection, Subscription
from isthmus.testing.memory_queue import MAX_PRIORITY, MemoryQueue, topic_matches

MQAT_UNIX = 6
UNKNOWN_REMOTE_Q_MGR = 2087

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
        self._subscriptions: list[Subscription] = []
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
                raise reasons.mq_error(reasons.Q_MGR_NOT_AVAILABLE, "MQCONNX")
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
            raise reasons.mq_error(reasons.UNKNOWN_OBJECT_NAME, f"{call} {name}")
        return queue

    def _targets(self, target: Target) -> list[MemoryQueue]:
        if isinstance(target, TopicTarget):
            if not target.topic or "#" in target.topic.split("/") or "+" in target.topic.split("/"):
                raise reasons.mq_error(reasons.TOPIC_STRING_ERROR, f"MQPUT {target}")
            return [each.queue for each in self._subscriptions if topic_matches(each.topic, target.topic)]
        if target.queue_manager not in ("", self.name):
            raise reasons.mq_error(UNKNOWN_REMOTE_Q_MGR, f"MQPUT {target}")
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

"""The queues of the in-memory queue manager: what is in them, in what order, and what may be had of it.

Nothing here locks: `queue_manager` does. A message is in exactly one of three places: available in its
queue, in the unit of work that got it, or in the unit of work that put it.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, replace

from isthmus.edges.mq.descriptor import (
    MQEI_UNLIMITED,
    MQMF_LAST_MSG_IN_GROUP,
    MQMF_MSG_IN_GROUP,
    MQPER_PERSISTENT,
    Mqmd,
    MqMessage,
)

MAX_PRIORITY = 9


@dataclass(slots=True, eq=False)
class Stored:
    """A message in the queue manager's hands."""

    message: MqMessage
    place: int
    """Grows with every put: the order of arrival."""
    expires_at: float | None

    @property
    def order(self) -> tuple[int, int]:
        """What the queue is sorted by."""
        return -min(self.message.descriptor.Priority, MAX_PRIORITY), self.place

    @property
    def group(self) -> bytes | None:
        """The group that the message belongs to, if any."""
        descriptor = self.message.descriptor
        in_group = descriptor.MsgFlags & (MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP)
        return descriptor.GroupId if in_group else None

    def handed_out(self, now: float) -> MqMessage:
        """The message as a get returns it: its expiry is what is left of it."""
        if self.expires_at is None:
            return self.message
        left = max(1, round((self.expires_at - now) * 10))
        return replace(self.message, descriptor=replace(self.message.descriptor, Expiry=left))

    def backed_out(self) -> None:
        """Count one more backout."""
        descriptor = self.message.descriptor
        counted = replace(descriptor, BackoutCount=descriptor.BackoutCount + 1)
        self.message = replace(self.message, descriptor=counted)


@dataclass(slots=True)
class GroupCursor:
    """How far one reader is in a group of messages."""

    group: bytes | None = None
    next_number: int = 1


@dataclass(slots=True, kw_only=True)
class MemoryQueue:
    """A local queue with the attributes that matter here, under MQ's names for them in lower case."""

    name: str
    max_depth: int = 5000
    max_message_bytes: int = 4 * 1024 * 1024
    backout_threshold: int = 0
    backout_queue: str = ""
    default_priority: int = 0
    default_persistence: int = 0
    put_inhibited: bool = False
    get_inhibited: bool = False
    model: bool = False
    temporary: bool = False
    denied: set[str] = field(default_factory=set)
    """``get`` and ``put``, where the user may not."""
    available: list[Stored] = field(default_factory=list)
    uncommitted: int = 0
    """How many are in units of work: they count towards the depth."""

    @property
    def depth(self) -> int:
        """How many messages there are, those in units of work included."""
        return len(self.available) + self.uncommitted

    def add(self, stored: Stored) -> None:
        """Put a message in its place."""
        insort(self.available, stored, key=lambda each: each.order)

    def take(self, now: float, cursor: GroupCursor | None) -> Stored | None:
        """The next message that may be had; those that have expired are dropped on the way to it."""
        while (chosen := self._first(cursor)) is not None:
            self.available.remove(chosen)
            if chosen.expires_at is None or chosen.expires_at > now:
                return chosen
        return None

    def _first(self, cursor: GroupCursor | None) -> Stored | None:
        if cursor is None:
            return self.available[0] if self.available else None
        if cursor.group is not None:
            return self._continue(cursor)
        for each in self.available:
            if each.group is None:
                return each
            if self._is_whole(each.group):
                cursor.group, cursor.next_number = each.group, 1
                return self._continue(cursor)
        return None

    def _continue(self, cursor: GroupCursor) -> Stored | None:
        for each in self.available:
            descriptor = each.message.descriptor
            if each.group == cursor.group and descriptor.MsgSeqNumber == cursor.next_number:
                if descriptor.MsgFlags & MQMF_LAST_MSG_IN_GROUP:
                    cursor.group = None
                cursor.next_number += 1
                return each
        return None

    def _is_whole(self, group: bytes) -> bool:
        members = [each.message.descriptor for each in self.available if each.group == group]
        numbers = {each.MsgSeqNumber for each in members}
        last = next((each.MsgSeqNumber for each in members if each.MsgFlags & MQMF_LAST_MSG_IN_GROUP), None)
        return last is not None and numbers >= set(range(1, last + 1))

    def forget_what_is_not_persistent(self) -> None:
        """What a restart does."""
        self.available = [
            each for each in self.available if each.message.descriptor.Persistence == MQPER_PERSISTENT
        ]


def expiry_time(descriptor: Mqmd, now: float) -> float | None:
    """When a message that is put now expires."""
    return None if descriptor.Expiry == MQEI_UNLIMITED else now + descriptor.Expiry / 10


def topic_matches(pattern: str, topic: str) -> bool:
    """Whether a subscription takes what is published to the topic: ``+`` is one level, ``#`` any number."""
    return _levels_match(pattern.split("/"), topic.split("/"))


def _levels_match(pattern: list[str], topic: list[str]) -> bool:
    if not pattern:
        return not topic
    first, *rest = pattern
    if first == "#":
        return any(_levels_match(rest, topic[taken:]) for taken in range(len(topic) + 1))
    return bool(topic) and first in ("+", topic[0]) and _levels_match(rest, topic[1:])

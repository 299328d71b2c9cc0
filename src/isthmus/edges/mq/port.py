"""What the edge needs of a queue manager. The words are MQ's.

A connection has one unit of work at a time. It begins with the first get or put after a commit or backout.
What was got in it is invisible to everyone else and comes back on backout, with its ``BackoutCount`` one
higher; what was put in it is invisible to everyone until commit. All calls block. A connection and
everything opened over it is used by one thread at a time.

Every call raises `isthmus.errors.MqError` and nothing else for a failure of MQ's; what that means is in
`isthmus.edges.mq.reasons`. After one whose outcome is `Outcome.GONE` the connection is only good for
`disconnect`. A program error, such as a get from a source that was closed, is one too (2019, HOBJ_ERROR).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from isthmus.config.model.mq import TOPIC_SCHEME
from isthmus.edges.mq.descriptor import Mqmd, MqMessage

__all__ = [
    "Connection",
    "MqMessage",
    "Mqmd",
    "QueueManager",
    "QueueTarget",
    "Source",
    "Target",
    "TopicTarget",
    "parse_target",
]


class QueueTarget(NamedTuple):
    """A queue that messages are put to; no queue manager means the one that we are connected to."""

    queue: str
    queue_manager: str = ""

    def __str__(self) -> str:
        return f"{self.queue}@{self.queue_manager}" if self.queue_manager else self.queue


class TopicTarget(NamedTuple):
    """A topic string that messages are published to."""

    topic: str

    def __str__(self) -> str:
        return TOPIC_SCHEME + self.topic


Target = QueueTarget | TopicTarget


def parse_target(text: str) -> Target:
    """The destination that ``QUEUE``, ``QUEUE@QMGR`` or ``topic://a/b`` names."""
    if text.startswith(TOPIC_SCHEME):
        return TopicTarget(text.removeprefix(TOPIC_SCHEME))
    queue, _, queue_manager = text.partition("@")
    return QueueTarget(queue, queue_manager)


class Source(Protocol):
    """A queue that is open for getting, or the queue behind a subscription."""

    @property
    def name(self) -> str:
        """The queue's name: of a queue that was made from a model queue, the one that it was given."""
        ...

    @property
    def backout_threshold(self) -> int:
        """The queue's attribute ``BOTHRESH``; 0 if it has none or may not be asked."""
        ...

    @property
    def backout_queue(self) -> str:
        """The queue's attribute ``BOQNAME``: where what was backed out too often is to go; empty if none."""
        ...

    def get(self, wait_s: float = 0) -> MqMessage | None:
        """The next message, within the unit of work: highest priority first, then in order of arrival.

        Waits for one for so long, then None. A message that has expired is never returned.
        """
        ...

    def close(self) -> None:
        """Let go of the queue. A subscription that is not durable ends, and loses what it still has."""
        ...


class Connection(Protocol):
    """A connection to a queue manager, and its unit of work."""

    @property
    def queue_manager(self) -> str:
        """The queue manager's name."""
        ...

    def open_queue(self, queue: str, *, whole_groups: bool = False) -> Source:
        """Open a queue for getting, shared with others. Of a model queue a new temporary queue is made.

        With ``whole_groups`` the messages of a group are handed out once all of it is there, in its order.
        """
        ...

    def subscribe(self, topic: str, *, durable_name: str | None = None) -> Source:
        """Subscribe to a topic string; ``#`` and ``+`` are wildcards, each for whole levels.

        With a name the subscription is durable: it is made, or taken up again with all that was published
        since, and goes on when it is closed. One that somebody else has open is 2429, SUBSCRIPTION_IN_USE.
        """
        ...

    def put(self, target: Target, message: MqMessage) -> Mqmd:
        """Put a message within the unit of work; returns the descriptor that MQ gave it.

        MQ sets all that tells who put it, and when: those fields of the descriptor are ignored. Topic strings
        without subscribers take messages too.
        """
        ...

    def commit(self) -> None:
        """Make the unit of work real. When it raises `Outcome.GONE`, nobody knows whether it is."""
        ...

    def backout(self) -> None:
        """Undo the unit of work."""
        ...

    def disconnect(self) -> None:
        """Back out what is not committed, and close everything. Never raises; twice is harmless."""
        ...


class QueueManager(Protocol):
    """Where connections come from."""

    @property
    def description(self) -> str:
        """What is behind this, in one line: a reader must be able to tell a stand-in from IBM MQ."""
        ...

    def connect(self) -> Connection:
        """A new connection. Raises `HardFailure` when what is needed for one is not installed."""
        ...

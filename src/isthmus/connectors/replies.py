"""Where answers go between MQ and NATS: what a pair of connectors knows, one for each way.

A request that comes out of MQ names the queue for its answer. A connector that brings a subject or a channel
*to* that queue tells where a NATS application answers; a subject comes before a channel. A request that comes
out of NATS names a subject, or a channel. A connector that brings a queue's messages *to* it tells the queue
that an MQ application answers to.

An inbox (``_INBOX.…``) has no connector. Its requests ask for an answer to the one queue that the bridge
keeps for all of them, and the answer's ``CorrelId``, which is the request's ``MsgId``, tells whose it is.
That is known to one process and for `PATIENCE_S`: an inbox does not outlive its requester either.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from isthmus.config.model.connectors import ConnectorSettings, ConnectorType
from isthmus.config.model.plan import Form
from isthmus.edges.mq.port import QueueTarget
from isthmus.edges.mq.replies import Requester

INBOX = "_INBOX."
PATIENCE_S = 600.0
MOST_REQUESTS = 100_000
"""How many requesters are remembered at a time: the oldest are forgotten first."""


class Inboxes:
    """Who waits for which answer."""

    def __init__(self, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._waiting: OrderedDict[bytes, tuple[Requester, float]] = OrderedDict()
        self.times_s: deque[float] = deque(maxlen=1000)
        """How long the last answers took."""

    def remember(self, msg_id: bytes, requester: Requester) -> None:
        """A request was made; the same one may be made again."""
        self._waiting[_significant(msg_id)] = requester, self._now_s()
        self._waiting.move_to_end(_significant(msg_id))
        self._forget()

    def requester(self, correl_id: bytes) -> Requester | None:
        """Who waits for an answer, any number of times; None if that is not known any more."""
        self._forget()
        requester, since = self._waiting.get(_significant(correl_id), (None, 0.0))
        if requester is not None:
            self.times_s.append(self._now_s() - since)
        return requester

    def _forget(self) -> None:
        long_ago = self._now_s() - PATIENCE_S
        while self._waiting:
            _, since = next(iter(self._waiting.values()))
            if len(self._waiting) <= MOST_REQUESTS and since > long_ago:
                return
            self._waiting.popitem(last=False)


def _significant(octets: bytes) -> bytes:
    return octets.rstrip(b"\0")  # what MQ fills its fields up with


@dataclass(frozen=True, slots=True)
class Replies:
    """The map of replies, in both directions. It is the ``ReplyMap`` that the MQ edge asks."""

    queues: Mapping[str, QueueTarget] = field(default_factory=dict)
    """By subject or channel: the queue whose messages reach it."""
    subjects: Mapping[QueueTarget, str] = field(default_factory=dict)
    """By queue: the subject whose messages reach it."""
    channels: Mapping[QueueTarget, str] = field(default_factory=dict)
    """By queue: the channel whose messages reach it."""
    kept: QueueTarget | None = None
    """The queue for answers to inboxes, if the bridge keeps one."""
    inboxes: Inboxes = field(default_factory=Inboxes, compare=False)

    def reply_queue(self, reply_to: str, *, msg_id: bytes, form: Form) -> QueueTarget | None:
        """The queue that an answer to this subject or channel is put to; None if there is none."""
        if target := self.queues.get(reply_to):
            return target
        if reply_to.startswith(INBOX) and self.kept is not None:
            self.inboxes.remember(msg_id, Requester(reply_to, form))
            return self.kept
        return None

    def requester(self, queue: str, correl_id: bytes) -> Requester | None:
        """Who waits for this answer; None if this is not the queue for them, or it is too late."""
        if self.kept is None or queue != self.kept.queue:
            return None
        return self.inboxes.requester(correl_id)

    def subject(self, reply_to: str, queue_manager: str = "") -> str | None:
        """The subject for answers to ``QUEUE@QMGR``; None if there is none. A subject is its own.

        ``queue_manager`` is where a request came from that names no other.
        """
        if "@" not in reply_to and not queue_manager:
            return reply_to
        return _lookup(self.subjects, _target(reply_to, queue_manager))

    def channel(self, reply_to: str, queue_manager: str = "") -> str | None:
        """The channel for answers to ``QUEUE@QMGR``, where no subject is; None if there is none."""
        target = _target(reply_to, queue_manager)
        return None if _lookup(self.subjects, target) else _lookup(self.channels, target)


def _lookup(names: Mapping[QueueTarget, str], target: QueueTarget) -> str | None:
    # MQ fills in its own name where a request names no queue manager, and a connector need not name one.
    return names.get(target) or names.get(QueueTarget(target.queue))


def _target(text: str, queue_manager: str) -> QueueTarget:
    queue, _, manager = text.partition("@")
    return QueueTarget(queue, manager or queue_manager)


def replies_of(connectors: Iterable[ConnectorSettings], kept: str | None = None) -> Replies:
    """What connectors know of replies. ``kept`` is the queue that the bridge keeps for answers to inboxes."""
    queues: dict[str, QueueTarget] = {}
    subjects: dict[QueueTarget, str] = {}
    channels: dict[QueueTarget, str] = {}
    connectors = list(connectors)
    for each in connectors:
        target = QueueTarget(each.queue or "", each.queuemanager or "")
        answers_to = each.subject or each.channel or ""
        match each.type:
            case ConnectorType.QUEUE_TO_NATS:
                queues[answers_to] = queues.get(answers_to, target)
            case ConnectorType.NATS_TO_QUEUE if not re.search(
                "[*>]", answers_to
            ):  # nobody answers to a pattern
                subjects.setdefault(target, answers_to)
            case ConnectorType.STAN_TO_QUEUE if not re.search("[*>]", each.channel or ""):
                channels.setdefault(target, each.channel or "")
    for each in connectors:  # a subject comes before a channel of the same name
        if each.type is ConnectorType.QUEUE_TO_STAN:
            queues.setdefault(each.channel or "", QueueTarget(each.queue or "", each.queuemanager or ""))
    askers = [each for each in connectors if each.type.ends[0] == "nats"]
    manager = (askers[0].queuemanager if askers else None) or ""
    return Replies(queues, subjects, channels, QueueTarget(kept, manager) if kept else None)

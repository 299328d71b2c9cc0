"""How the edge learns where answers go: what it asks of whoever knows both sides.

An MQ application answers to the queue that a request's MQMD names, with the request's ``MsgId`` as
``CorrelId``. A NATS application answers to a subject, a streaming one to a channel. The map between the two
comes from a pair of connectors.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from isthmus.config.model.plan import Form
from isthmus.edges.mq.port import QueueTarget


class Requester(NamedTuple):
    """Who waits for an answer, and in which form the request was: the answer has the same."""

    inbox: str
    form: Form


class ReplyMap(Protocol):
    """What a pair of connectors knows. Called on the event loop: it must not block."""

    def reply_queue(self, reply_to: str, *, msg_id: bytes, form: Form) -> QueueTarget | None:
        """The queue whose messages reach this subject or channel; None if there is none.

        ``msg_id`` is the ``MsgId`` of the request, without trailing zeros, which is the ``CorrelId`` of its
        answer: a map that keeps one queue for many requesters remembers by it whose request this is, and in
        which form. It is the same one if the same request is put again.
        """
        ...

    def requester(self, queue: str, correl_id: bytes) -> Requester | None:
        """The one who waits for this answer; None if the map keeps no such queue."""
        ...

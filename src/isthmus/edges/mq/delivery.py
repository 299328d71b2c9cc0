"""Puts letters on queues and publishes them to topic strings.

A letter's destination is ``QUEUE``, ``QUEUE@QMGR`` or ``topic://a/b``. Letters are put in units of work, in
their order; they count as delivered when MQ has committed. When that fails half-way, letters that MQ has may
be put again: they have the same ``MsgId`` then, which is made of the letter's id unless the message had one
of its own, so that a receiver can drop what it has seen.

A destination has a form: how a letter becomes an MQ message. `headers_form` is what a destination has unless
it is given another.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from isthmus.codecs.bridge_message import BridgeMessage, Property, PropertyType
from isthmus.edges.contract import OutboundMessage, Traffic
from isthmus.edges.mq.bridge import from_bridge
from isthmus.edges.mq.client import MqClient
from isthmus.edges.mq.descriptor import MQMT_REQUEST, MQPER_NOT_PERSISTENT
from isthmus.edges.mq.names import STABLE_ID
from isthmus.edges.mq.port import (
    Connection,
    MqError,
    MqMessage,
    Outcome,
    PutRefused,
    QueueManager,
    Target,
    parse_target,
)
from isthmus.edges.mq.reasons import OVERSIZE, PERSISTENT_NOT_ALLOWED
from isthmus.edges.mq.replies import ReplyMap
from isthmus.edges.mq.translate import from_headers
from isthmus.errors import OversizeFailure, SoftFailure
from isthmus.journal import layout

UNIT_LETTERS: Final = 500
"""How many letters are put in one unit of work. A queue manager has a limit (MAXUMSGS), often of 10 000."""


class Outgoing(NamedTuple):
    """What a form makes of a letter: a message, and the places that want an answer, the best first."""

    message: MqMessage
    reply_to: tuple[str, ...] = ()


Form = Callable[[OutboundMessage], Outgoing]


def headers_form(letter: OutboundMessage) -> Outgoing:
    """The letter's headers as MQMD and properties, and its value as the body."""
    headers = layout.decode_headers(letter.record.headers)
    message = from_headers(headers, letter.record.value, now_ms=time.time_ns() // 1_000_000)
    marked = {**message.properties, STABLE_ID: Property(PropertyType.STRING, letter.id)}
    return Outgoing(replace(message, properties=marked), _reply_to(letter))


def bridge_form(letter: OutboundMessage) -> Outgoing:
    """The bridge message that the letter's value is, as NATS clients send it; `DecodeError` if it is none."""
    bridge = BridgeMessage.decode(letter.record.value or b"")
    channel = bridge.header.reply_to_channel
    return Outgoing(from_bridge(bridge), _reply_to(letter) + ((channel,) if channel else ()))


def body_form(letter: OutboundMessage) -> Outgoing:
    """The letter's value as the body, and nothing else: what ``excludeheaders`` asks for."""
    return Outgoing(MqMessage(body=letter.record.value or b""), _reply_to(letter))


def msg_id(letter_id: str) -> bytes:
    """The ``MsgId`` of a letter that has none: always the same one."""
    return hashlib.sha256(letter_id.encode()).digest()[:24]


class MqDelivery:
    """Delivery to MQ, as `isthmus.edges.contract` describes it, over a connection of its own."""

    def __init__(
        self,
        manager: QueueManager,
        *,
        name: str = "delivery",
        forms: Mapping[str, Form] | None = None,
        replies: ReplyMap | None = None,
        max_backoff_s: float = 10.0,
    ) -> None:
        """``forms`` says what letters for a destination become, where that is not `headers_form`."""
        self.traffic = Traffic()
        self.client = MqClient(manager, name=name, max_backoff_s=max_backoff_s)
        self._forms = forms or {}
        self._replies = replies

    async def deliver(self, letters: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        """Put the letters, in order; return when MQ has committed. Raises `Unreachable` while it is away."""
        answers: list[SoftFailure | None] = []
        for start in range(0, len(letters), UNIT_LETTERS):
            prepared = [self._prepare(letter) for letter in letters[start : start + UNIT_LETTERS]]
            answers += await self.client.call(partial(_put, prepared))
        for letter, answer in zip(letters, answers, strict=True):
            if answer is None:
                self.traffic.messages += 1
                self.traffic.bytes += len(letter.record.value or b"")
            else:
                self.traffic.dead_letters += 1
        return answers

    async def close(self) -> None:
        """Let go of MQ."""
        await self.client.close()

    def _prepare(self, letter: OutboundMessage) -> tuple[Target, MqMessage] | SoftFailure:
        try:
            message, reply_to = self._forms.get(letter.destination, headers_form)(letter)
        except SoftFailure as failure:
            return failure
        descriptor = message.descriptor
        descriptor = replace(descriptor, MsgId=descriptor.MsgId or msg_id(letter.id))
        for wanted in reply_to:
            target = self._replies and self._replies.reply_queue(wanted, msg_id=descriptor.MsgId)
            if target:
                descriptor = replace(
                    descriptor,
                    ReplyToQ=target.queue,
                    ReplyToQMgr=target.queue_manager,
                    MsgType=MQMT_REQUEST,  # what responders look for
                )
                break
        return parse_target(letter.destination), replace(message, descriptor=descriptor)


def _put(
    unit: Sequence[tuple[Target, MqMessage] | SoftFailure], connection: Connection
) -> list[SoftFailure | None]:
    answers: list[SoftFailure | None] = []
    for each in unit:
        if isinstance(each, SoftFailure):
            answers.append(each)
            continue
        try:
            _put_one(connection, *each)
        except MqError as error:
            if error.outcome in (Outcome.GONE, Outcome.LATER):
                raise
            answers.append(
                OversizeFailure(str(error)) if error.reason in OVERSIZE else PutRefused(str(error))
            )
        else:
            answers.append(None)
    connection.commit()
    return answers


def _put_one(connection: Connection, target: Target, message: MqMessage) -> None:
    try:
        connection.put(target, message)
    except MqError as error:
        if error.reason != PERSISTENT_NOT_ALLOWED:
            raise
        # A temporary queue, such as a requester's, outlives nothing and takes nothing that would.
        fleeting = replace(message.descriptor, Persistence=MQPER_NOT_PERSISTENT)
        connection.put(target, replace(message, descriptor=fleeting))


def _reply_to(letter: OutboundMessage) -> tuple[str, ...]:
    header = layout.decode_headers(letter.record.headers).get("ReplyTo")
    return (header.text,) if header is not None and header.text else ()

"""Puts messages on queues and publishes them to topic strings.

A message's destination is ``QUEUE``, ``QUEUE@QMGR`` or ``topic://a/b``. Messages are put in units of work, in
their order; they count as delivered when MQ has committed. When that fails half-way, messages that MQ has may
be put again: they have the same ``MsgId`` then, which is made of the stable id unless the message had one of
its own, so that a receiver can drop what it has seen.

A destination has a form: how a record becomes an MQ message. `headers_form` is what a destination has unless
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
from isthmus.config.model.plan import Form as FormName
from isthmus.edges.contract import OutboundMessage
from isthmus.edges.mq.bridge import from_bridge
from isthmus.edges.mq.client import MqClient
from isthmus.edges.mq.descriptor import MQMT_REQUEST, MQPER_NOT_PERSISTENT
from isthmus.edges.mq.names import STABLE_ID
from isthmus.edges.mq.port import (
    Connection,
    MqMessage,
    QueueManager,
    Target,
    parse_target,
)
from isthmus.edges.mq.reasons import OVERSIZE, PERSISTENT_NOT_ALLOWED, Outcome, outcome_of
from isthmus.edges.mq.replies import ReplyMap
from isthmus.edges.mq.translate import from_headers
from isthmus.edges.reconnect import LONGEST_WAIT_S
from isthmus.errors import DecodeError, MqError, OversizeFailure, RefusedFailure, SoftFailure
from isthmus.journal import layout

UNIT_MESSAGES: Final = 500
"""How many messages are put in one unit of work. A queue manager has a limit (MAXUMSGS), often of 10 000."""


class Outgoing(NamedTuple):
    """What a form makes of a record: a message, and where its answers may go, the best first."""

    form: FormName
    message: MqMessage
    reply_to: tuple[str, ...] = ()


Form = Callable[[OutboundMessage], Outgoing]


def headers_form(outbound: OutboundMessage) -> Outgoing:
    """The record's headers as MQMD and properties, and its value as the body."""
    headers = layout.decode_headers(outbound.record.headers)
    message = from_headers(headers, outbound.record.value, now_ms=time.time_ns() // 1_000_000)
    marked = {**message.properties, STABLE_ID: Property(PropertyType.STRING, outbound.id)}
    return Outgoing("headers", replace(message, properties=marked), _reply_to(outbound))


def bridge_form(outbound: OutboundMessage) -> Outgoing:
    """The bridge message that the record's value is, as NATS clients send it; `DecodeError` if it is none."""
    try:
        bridge = BridgeMessage.decode(outbound.record.value or b"")
    except DecodeError as error:
        raise DecodeError(
            f"not in the message format of the NATS-MQ bridge: {error}. "
            "A connector with excludeheaders=true takes any payload",
            error.position,
        ) from None
    channel = bridge.header.reply_to_channel
    return Outgoing("bridge", from_bridge(bridge), _reply_to(outbound) + ((channel,) if channel else ()))


def body_form(outbound: OutboundMessage) -> Outgoing:
    """The record's value as the body, and nothing else: what ``excludeheaders`` asks for."""
    return Outgoing("body", MqMessage(body=outbound.record.value or b""), _reply_to(outbound))


def msg_id(stable_id: str) -> bytes:
    """The ``MsgId`` of a message that has none: always the same one."""
    return hashlib.sha256(stable_id.encode()).digest()[:24]


class MqDelivery:
    """Delivery to MQ, as `isthmus.edges.contract` describes it, over a connection of its own."""

    def __init__(
        self,
        manager: QueueManager,
        *,
        name: str = "delivery",
        forms: Mapping[str, Form] | None = None,
        replies: ReplyMap | None = None,
        max_backoff_s: float = LONGEST_WAIT_S,
    ) -> None:
        """``forms`` says what messages for a destination become, where that is not `headers_form`."""
        self.client = MqClient(manager, name=name, max_backoff_s=max_backoff_s)
        self._forms = forms or {}
        self._replies = replies

    async def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        """Put the messages, in order; return when MQ has committed."""
        answers: list[SoftFailure | None] = []
        for start in range(0, len(messages), UNIT_MESSAGES):
            prepared = [self._prepare(message) for message in messages[start : start + UNIT_MESSAGES]]
            answers += await self.client.call(partial(_put, prepared))
        return answers

    async def close(self) -> None:
        """Disconnect."""
        await self.client.close()

    def _prepare(self, outbound: OutboundMessage) -> tuple[Target, MqMessage] | SoftFailure:
        try:
            form, message, reply_to = self._forms.get(outbound.destination, headers_form)(outbound)
        except SoftFailure as failure:
            return failure
        descriptor = message.descriptor
        descriptor = replace(descriptor, MsgId=descriptor.MsgId or msg_id(outbound.id))
        for wanted in reply_to:
            if self._replies is None:
                break
            target = self._replies.reply_queue(wanted, msg_id=descriptor.MsgId, form=form)
            if target:
                descriptor = replace(
                    descriptor,
                    ReplyToQ=target.queue,
                    ReplyToQMgr=target.queue_manager,
                    MsgType=MQMT_REQUEST,  # what responders look for
                )
                break
        return parse_target(outbound.destination), replace(message, descriptor=descriptor)


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
            if outcome_of(error) in (Outcome.GONE, Outcome.LATER):
                raise
            answers.append(
                OversizeFailure(str(error)) if error.reason in OVERSIZE else RefusedFailure(str(error))
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


def _reply_to(outbound: OutboundMessage) -> tuple[str, ...]:
    header = layout.decode_headers(outbound.record.headers).get("ReplyTo")
    return (header.text,) if header is not None and header.text else ()

"""The forms that connectors deliver in: what an outbox record becomes on NATS and on MQ.

On MQ, see `isthmus.edges.mq.delivery`. On NATS a message is in the message format of the NATS-MQ bridge, with
all that MQ knows of it, or it is its body alone. An answer to an inbox has the form of its request.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from isthmus.codecs.bridge_message import BridgeMessage
from isthmus.config.model.plan import ANSWER, ANSWER_FORM, TAG, PlannedRoute
from isthmus.connectors.replies import Replies
from isthmus.edges.mq.bridge import BRIDGE_FIELDS, to_bridge
from isthmus.edges.mq.delivery import Form, body_form, bridge_form
from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.names import property_name
from isthmus.edges.mq.translate import from_headers, to_message
from isthmus.edges.nats.translate import FromNats, Outgoing, ToNats, body_only, nats_mq_form, to_nats
from isthmus.edges.nats.translate import Replies as NatsReplies
from isthmus.journal import layout
from isthmus.journal.layout import Record
from isthmus.message import Body, Header, Message, Span


def mq_forms(routes: Iterable[PlannedRoute], outbox: str) -> dict[str, Form]:
    """How messages for the destinations of an outbox are put."""
    forms = {"bridge": bridge_form, "body": body_form}
    return {each.destination: forms[each.form] for each in routes if each.outbox == outbox}


def nats_forms(routes: Iterable[PlannedRoute], replies: Replies) -> dict[str, ToNats]:
    """How messages for subjects are published."""
    forms: dict[str, ToNats] = {"bridge": nats_mq(replies)[1], "body": body_only, "headers": to_nats}

    def answer(stable_id: str, subject: str, record: Record, replies: NatsReplies) -> Outgoing:
        asked = layout.decode_headers(record.headers).get(ANSWER_FORM, Header("headers"))
        headers = [each for each in record.headers if each[0] != f"{layout.HEADER_PREFIX}{ANSWER_FORM}"]
        form = forms.get(asked.text, to_nats)
        return form(stable_id, subject, record._replace(headers=headers), replies)

    return {
        each.destination: answer if each.form == ANSWER else forms[each.form]
        for each in routes
        if each.outbox == "nats"
    }


def nats_mq(replies: Replies) -> tuple[FromNats, ToNats]:
    """The two ways for payloads in the message format of the NATS-MQ bridge."""

    def encode(message: Message) -> bytes:
        reply_to = message.headers.get("ReplyTo")
        channel = replies.channel(reply_to.text) if reply_to is not None else None
        headers = {name: header for name, header in message.headers.items() if name != TAG}
        mq = from_headers(headers, message.value, now_ms=None)
        return to_bridge(mq, reply_to_channel=channel or "").encode()

    return nats_mq_form(encode, _decode)


def _decode(payload: bytes, subject: str, own_id: str) -> Message:
    """What the payload says as headers; the value is the payload itself, in which the body lies somewhere."""
    bridge = BridgeMessage.decode(payload)
    fields = {name: getattr(bridge.header, field) for name, field in BRIDGE_FIELDS.items()}
    mq = MqMessage(
        descriptor=Mqmd(**{name: value for name, value in fields.items() if value}),
        body=bridge.body,
        properties={property_name(name): each for name, each in bridge.properties.items()},
    )
    now_ms = time.time_ns() // 1_000_000
    message = to_message(mq, address=subject, session="", received_ms=now_ms)
    channel = bridge.header.reply_to_channel
    return replace(
        message,
        id=message.id if bridge.header.msg_id else own_id,
        value=payload,
        # Wherever the same bytes are, they are the body.
        body=Body(message.body.kind, (Span(payload.find(bridge.body), len(bridge.body)),)),
        headers={**message.headers, **({"ReplyTo": Header(channel)} if channel else {})},
    )

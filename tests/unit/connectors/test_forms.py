"""Messages of NATS in the message format of the NATS-MQ bridge: into the journal, and out again."""

from __future__ import annotations

import pytest

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage, PropertyType
from isthmus.connectors.forms import nats_mq
from isthmus.connectors.replies import Replies
from isthmus.edges.mq.port import QueueTarget
from isthmus.edges.nats.translate import Arrived
from isthmus.errors import DecodeError
from isthmus.journal.layout import Record, encode_headers
from isthmus.message import Header, HeaderType, Message

read, write = nats_mq(Replies(channels={QueueTarget("ANSWERS"): "answers"}))


def taken(bridge: BridgeMessage, reply: str = "") -> Message:
    return read(Arrived("orders", bridge.encode(), None, reply), "own-id")


def test_the_value_is_the_payload_and_the_body_lies_in_it() -> None:
    bridge = BridgeMessage(b"a body", BridgeHeader(format="MQSTR", coded_char_set_id=1208))
    message = taken(bridge)
    assert message.value == bridge.encode()
    assert (message.body.kind, message.body.slice(message.value)) == ("text", b"a body")


@pytest.mark.parametrize("body", [b"", b"\x81", b"header", b"\xff" * 70_000])
def test_any_body_is_found(body: bytes) -> None:
    message = taken(BridgeMessage(body, BridgeHeader(priority=1)))
    assert message.body.slice(message.value) == body


def test_header_and_properties_are_headers_with_their_types() -> None:
    bridge = BridgeMessage(b"x", BridgeHeader(priority=4, msg_id=b"\1", feedback=9))
    bridge.set_property("count", 3, PropertyType.INT8)
    message = taken(bridge)
    assert message.id == "ID:01" + "00" * 23
    assert message.headers["Priority"] == Header.of(4, HeaderType.INT)
    assert message.headers["mq.Feedback"] == Header.of(9)
    assert message.headers["count"] == Header.of(3, HeaderType.BYTE)
    assert (message.address, message.protocol, message.session) == ("orders", "nats", "nats:orders")


def test_without_an_id_a_message_has_the_edge_s() -> None:
    assert taken(BridgeMessage(b"x")).id == "own-id"


@pytest.mark.parametrize(
    ("header", "reply", "reply_to"),
    [
        (BridgeHeader(reply_to_q="Q", reply_to_q_mgr="QM"), "", "Q@QM"),
        (BridgeHeader(reply_to_q="Q", reply_to_channel="channel"), "", "channel"),
        (BridgeHeader(reply_to_q="Q", reply_to_channel="channel"), "subject", "subject"),
    ],
)
def test_a_reply_subject_comes_before_a_channel_and_a_channel_before_a_queue(
    header: BridgeHeader, reply: str, reply_to: str
) -> None:
    assert taken(BridgeMessage(b"x", header), reply).headers["ReplyTo"].text == reply_to


def test_what_is_no_bridge_message_is_refused() -> None:
    with pytest.raises(DecodeError):
        read(Arrived("orders", b"\xc1", None, ""), "own-id")


def test_a_request_of_mq_s_goes_out_with_the_channel_that_answers_go_to() -> None:
    headers = encode_headers({"ReplyTo": Header("ANSWERS@QM")})
    outgoing = write("j:0:1", "requests", Record(None, b"x", headers))
    header = BridgeMessage.decode(outgoing.payload).header
    assert (header.reply_to_channel, header.reply_to_q) == ("answers", "ANSWERS")

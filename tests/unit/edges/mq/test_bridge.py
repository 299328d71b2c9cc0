"""MQ messages as bridge messages of NATS clients, and back."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.edges.mq.test_translate import FULL

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage, Property, PropertyType
from isthmus.codecs.bridge_message.header import FIELDS as BRIDGE_HEADER_FIELDS
from isthmus.edges.mq.bridge import BRIDGE_FIELDS, NOT_PUT, from_bridge, to_bridge
from isthmus.edges.mq.descriptor import FIELDS, Mqmd, MqMessage
from isthmus.errors import EncodeError


def test_the_bridge_header_has_a_field_for_every_field_and_one_more() -> None:
    names = [field.name for field in BRIDGE_HEADER_FIELDS]
    assert [BRIDGE_FIELDS[name] for name in FIELDS] + ["reply_to_channel"] == names


def test_out_of_mq_everything_goes_over() -> None:
    properties = {"p": Property(PropertyType.INT8, 3), "isthmus_x_2dopt": Property(PropertyType.BOOL, True)}
    mq = MqMessage(descriptor=FULL, body=b"body", properties=properties)
    bridge = BridgeMessage.decode(to_bridge(mq, reply_to_channel="answers").encode())
    assert bridge.body == b"body"
    assert {
        name: getattr(bridge.header, field) for name, field in BRIDGE_FIELDS.items()
    } == dataclasses.asdict(FULL)
    assert bridge.header.reply_to_channel == "answers"
    assert bridge.get_int8_property("p") == 3
    assert bridge.get_bool_property("x-opt") is True


def test_leading_zeros_stay_and_trailing_ones_go() -> None:
    mq = MqMessage(descriptor=Mqmd(MsgId=b"\0\0a\0b" + b"\0" * 19))
    assert to_bridge(mq).header.msg_id == b"\0\0a\0b"


@pytest.mark.parametrize("name", FIELDS)
def test_into_mq_goes_what_a_client_may_set(name: str) -> None:
    value = getattr(FULL, name)
    header = BridgeHeader(**{BRIDGE_FIELDS[name]: value})
    descriptor = from_bridge(BridgeMessage(b"", header)).descriptor
    assert getattr(descriptor, name) == (getattr(Mqmd(), name) if name in NOT_PUT else value)


def test_what_is_absent_has_mq_s_default() -> None:
    assert from_bridge(BridgeMessage(b"x")) == MqMessage(body=b"x")


def test_the_fields_that_no_client_sets_are_these() -> None:
    assert set(NOT_PUT) == {
        *("Version", "MsgType", "Expiry", "BackoutCount", "Persistence", "PutDate", "PutTime")
    }


def test_a_property_of_any_name_goes_into_mq_and_comes_back() -> None:
    message = BridgeMessage(b"")
    message.set_property("my-property", 1, PropertyType.INT16)
    message.set_property("JMSType", "t")
    message.set_property("CorrelationId", "mine")
    assert to_bridge(from_bridge(message)).properties == message.properties


def test_a_field_that_does_not_fit_is_a_soft_failure() -> None:
    with pytest.raises(EncodeError, match="ReplyToQ has more than the 48 bytes"):
        from_bridge(BridgeMessage(b"", BridgeHeader(reply_to_q="x" * 49)))

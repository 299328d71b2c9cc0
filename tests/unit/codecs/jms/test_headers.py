"""From an AMQP message to the headers that JMS would show of it."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpValue,
    Byte,
    Data,
    Int,
    MessageHeader,
    MessageProperties,
    ULong,
)
from isthmus.codecs.jms import to_message
from isthmus.errors import DecodeError
from isthmus.message import BodyKind, Header, HeaderType, Message

GOLDEN = Path(__file__).parents[3] / "golden" / "amqp"


def message(
    header: MessageHeader | None = None,
    annotations: dict[str, object] | None = None,
    application: dict[str, object] | None = None,
    **properties: object,
) -> Message:
    sent = AmqpMessage(
        header=header,
        message_annotations=annotations,
        properties=MessageProperties(**properties),  # type: ignore[arg-type]
        application_properties=application,
        body=AmqpValue("text"),
    )
    return to_message(sent.encode(), target="link-target", session="s1")


def test_every_header_of_a_captured_message_has_its_jms_name() -> None:
    data = (GOLDEN / "text_every_header.amqp").read_bytes()
    found = to_message(data, target="ignored", session="s1")
    created = int(found.headers["Timestamp"].text)
    assert found.id.startswith("ID:")
    assert found.value == data
    assert (found.address, found.protocol, found.session) == ("orders", "amqp", "s1")
    assert found.body.kind is BodyKind.TEXT
    assert found.body.slice(data) == "Grüße, 世界".encode()
    assert found.durable
    assert found.headers == {
        "MessageId": Header(found.id),
        "CorrelationId": Header("order-4711"),
        "Destination": Header("orders"),
        "ReplyTo": Header("answers"),
        "DeliveryMode": Header("PERSISTENT"),
        "Expiration": Header(str(created + 3_600_000), HeaderType.LONG),
        "Priority": Header("7", HeaderType.INT),
        "Redelivered": Header("false", HeaderType.BOOLEAN),
        "Timestamp": Header(str(created), HeaderType.LONG),
        "DeliveryTime": Header(str(created + 60_000), HeaderType.LONG),
        "Type": Header("greeting"),
        "JMSXGroupID": Header("group-1"),
        "JMSXGroupSeq": Header("3", HeaderType.INT),
        "JMSXUserID": Header("alice"),
        "JMSXDeliveryCount": Header("1", HeaderType.INT),
        "x-opt-jms-dest": Header("queue"),
        "x-opt-jms-reply-to": Header("queue"),
        "region": Header("EU"),
    }


def test_properties_of_every_jms_type_keep_their_types() -> None:
    headers = to_message((GOLDEN / "every_property_type.amqp").read_bytes()).headers
    assert {name: headers[name] for name in headers if name.startswith("a")} == {
        "aBoolean": Header("true", HeaderType.BOOLEAN),
        "aByte": Header("-128", HeaderType.BYTE),
        "aShort": Header("-32768", HeaderType.SHORT),
        "anInt": Header("-2147483648", HeaderType.INT),
        "aSmallInt": Header("5", HeaderType.INT),
        "aLong": Header("-9223372036854775808", HeaderType.LONG),
        "aSmallLong": Header("-5", HeaderType.LONG),
        "aFloat": Header("3.14", HeaderType.FLOAT),
        "aDouble": Header("3.141592653589793", HeaderType.DOUBLE),
        "aString": Header("Zeichen"),
        "anEmptyString": Header(""),
        "aNull": Header("", HeaderType.NULL),
    }


def test_the_message_says_itself_where_it_goes() -> None:
    assert message(to="own").address == "own"
    assert message(to="own").headers["Destination"].text == "own"
    assert message().address == "link-target"
    assert message().headers["Destination"].text == "link-target"


def test_a_message_without_any_address_is_malformed() -> None:
    with pytest.raises(DecodeError):
        to_message(AmqpMessage(body=AmqpValue("a")).encode())


def test_a_message_without_an_id_gets_the_fallback() -> None:
    found = to_message(b"", target="q", fallback_id="made-up")
    assert found.id == "made-up"
    assert "MessageId" not in found.headers
    assert found.body.kind is BodyKind.EMPTY


def test_durable_is_the_delivery_mode() -> None:
    assert message(MessageHeader(durable=True)).headers["DeliveryMode"].text == "PERSISTENT"
    assert message(MessageHeader(durable=False)).headers["DeliveryMode"].text == "NON_PERSISTENT"
    assert message().headers["DeliveryMode"].text == "NON_PERSISTENT"
    assert not message().durable


@pytest.mark.parametrize(("priority", "text"), [(None, "4"), (0, "0"), (9, "9"), (10, "9"), (255, "9")])
def test_priority_stays_in_the_range_of_jms(priority: int | None, text: str) -> None:
    found = message(MessageHeader(priority=priority))
    assert found.headers["Priority"] == Header(text, HeaderType.INT)


@pytest.mark.parametrize(
    ("count", "redelivered", "text", "type"),
    [
        (None, "false", "1", HeaderType.INT),
        (0, "false", "1", HeaderType.INT),
        (3, "true", "4", HeaderType.INT),
        (2**32 - 1, "true", str(2**32), HeaderType.LONG),
    ],
)
def test_earlier_deliveries_are_counted(
    count: int | None, redelivered: str, text: str, type: HeaderType
) -> None:
    headers = message(MessageHeader(delivery_count=count)).headers
    assert headers["Redelivered"] == Header(redelivered, HeaderType.BOOLEAN)
    assert headers["JMSXDeliveryCount"] == Header(text, type)


def test_the_expiry_is_a_time_or_follows_from_the_ttl() -> None:
    ttl = MessageHeader(ttl=100)

    def expiration(received_ms: int | None = None, **properties: int) -> str | None:
        sent = AmqpMessage(header=ttl, properties=MessageProperties(to="q", **properties))
        header = to_message(sent.encode(), received_ms=received_ms).headers.get("Expiration")
        return None if header is None else header.text

    assert expiration(absolute_expiry_time=7, creation_time=1, received_ms=2) == "7"
    assert expiration(creation_time=1, received_ms=2) == "102"
    assert expiration(creation_time=1) == "101"
    assert expiration() is None


@pytest.mark.parametrize(
    ("identity", "text"),
    [("ID:1", "ID:1"), (UUID(int=1), f"ID:AMQP_UUID:{UUID(int=1)}"), (ULong(1), "ID:AMQP_ULONG:1")],
)
def test_an_id_of_any_type_is_text(identity: object, text: str) -> None:
    found = message(message_id=identity, correlation_id=identity)
    assert found.id == text
    assert found.headers["MessageId"].text == text
    assert found.headers["CorrelationId"].text == text


def test_a_property_never_passes_for_something_else() -> None:
    taken = {
        "MessageId": "1",
        "JMSPriority": Int(9),
        "types": "2",
        "property.x": "3",
        "JMSXGroupID": "4",
        "x-opt-jms-dest": "5",
        "JMS_AMQP_CONTENT_TYPE": "6",
    }
    headers = message(application={**taken, "own": "7"}, group_id="group").headers
    assert headers["own"].text == "7"
    assert headers["JMSXGroupID"].text == "group"
    for name, value in taken.items():
        assert headers[f"property.{name}"].text == str(value)


def test_a_user_id_that_is_not_text_stays_binary() -> None:
    assert message(user_id=b"\xff").headers["JMSXUserID"] == Header("/w==", HeaderType.BINARY)


def test_what_amqp_has_beyond_jms_is_kept() -> None:
    headers = message(
        content_type="text/plain", content_encoding="gzip", reply_to_group_id="g", group_sequence=2**31
    ).headers
    assert headers["JMS_AMQP_CONTENT_TYPE"].text == "text/plain"
    assert headers["JMS_AMQP_CONTENT_ENCODING"].text == "gzip"
    assert headers["JMS_AMQP_REPLY_TO_GROUP_ID"].text == "g"
    assert headers["JMSXGroupSeq"] == Header(str(2**31), HeaderType.LONG)


def test_annotations_of_unexpected_types_are_left_alone() -> None:
    odd: dict[str, object] = {
        "x-opt-jms-msg-type": [1],
        "x-opt-jms-dest": "queue",
        "x-opt-jms-reply-to": Byte(9),
        "x-opt-delivery-time": "soon",
    }
    found = message(annotations=odd)
    assert found.body.kind is BodyKind.TEXT
    assert not {"x-opt-jms-dest", "x-opt-jms-reply-to", "DeliveryTime"} & set(found.headers)


@pytest.mark.parametrize(
    ("annotation", "header"),
    [
        (ULong(2**64 - 1), Header(str(2**63 - 1), HeaderType.LONG)),
        (2**63 - 1, Header(str(2**63 - 1), HeaderType.LONG)),
        (True, None),
    ],
)
def test_a_delivery_time_is_a_long(annotation: object, header: Header | None) -> None:
    assert message(annotations={"x-opt-delivery-time": annotation}).headers.get("DeliveryTime") == header


def test_an_expiry_beyond_the_end_of_time_is_the_end_of_time() -> None:
    sent = AmqpMessage(
        header=MessageHeader(ttl=5963),
        properties=MessageProperties(to="a", creation_time=2**63 - 1),
    )
    assert to_message(sent.encode()).headers["Expiration"] == Header(str(2**63 - 1), HeaderType.LONG)


@pytest.mark.parametrize("name", ["ReplyTo\0", "to\0x", "\x1f", "a\nb", "\x7f", "\x85"])
def test_a_name_with_a_control_character_is_no_property(name: str) -> None:
    with pytest.raises(DecodeError, match="control character"):
        message(application={name: "forged"})


@pytest.mark.parametrize("text", ["\xa1\x02\xc3\x28", "\xb1\x00\x00\x00\x03\xed\xa0\x80"])
def test_a_text_that_is_not_utf_8_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="utf-8"):
        to_message(b"\x00\x53\x77" + text.encode("latin-1"), target="orders")


def test_data_that_says_it_is_text_and_is_none_is_refused() -> None:
    def sent(content: bytes) -> bytes:
        properties = MessageProperties(to="orders", content_type="text/plain")
        return AmqpMessage(properties=properties, body=Data((content[:1], content[1:]))).encode()

    assert to_message(sent("ü".encode())).body.kind is BodyKind.TEXT
    with pytest.raises(DecodeError, match="utf-8"):
        to_message(sent(b"\xc3\x28"))

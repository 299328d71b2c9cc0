"""From headers and a body to the AMQP message that a JMS client takes for the one that was sent."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Byte,
    Char,
    Data,
    Decimal32,
    Float,
    Int,
    MessageHeader,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    encode_value,
)
from isthmus.codecs.jms import to_amqp, to_message
from isthmus.errors import DecodeError, EncodeError
from isthmus.message import BodyKind, Header, HeaderType

GOLDEN = Path(__file__).parents[3] / "golden" / "amqp"

# What the mapping does not carry: a null text's type, no body as against null, a ttl beside an expiry time.
CHANGED = {"text_null", "message", "text_every_header"}


def there_and_back(data: bytes) -> AmqpMessage:
    message = to_message(data)
    return to_amqp(message.headers, message.body.kind, message.body.slice(data))


@pytest.mark.parametrize("name", sorted({path.stem for path in GOLDEN.glob("*.amqp")} - CHANGED))
def test_a_captured_message_comes_back_as_it_was(name: str) -> None:
    data = (GOLDEN / f"{name}.amqp").read_bytes()
    assert there_and_back(data) == AmqpMessage.decode(data)


def test_of_an_expiry_the_time_comes_back_and_not_the_ttl() -> None:
    sent = AmqpMessage.decode((GOLDEN / "text_every_header.amqp").read_bytes())
    assert there_and_back(sent.original or b"") == sent.replace(
        header=MessageHeader(durable=True, priority=7)
    )


@pytest.mark.parametrize("name", ["text_null", "message"])
def test_a_message_without_content_comes_back_as_a_plain_message(name: str) -> None:
    back = there_and_back((GOLDEN / f"{name}.amqp").read_bytes())
    assert back.body == AmqpValue(None)
    assert back.message_annotations == {"x-opt-jms-dest": Byte(0), "x-opt-jms-msg-type": Byte(0)}


@pytest.mark.parametrize(
    ("kind", "content", "body", "number", "content_type"),
    [
        (BodyKind.TEXT, b"text", AmqpValue("text"), 5, None),
        (BodyKind.BYTES, b"\xff", Data((b"\xff",)), 3, "application/octet-stream"),
        (BodyKind.EMPTY, None, AmqpValue(None), 0, None),
        (BodyKind.MAP, encode_value({"a": 1}), AmqpValue({"a": 1}), 2, None),
        (BodyKind.STREAM, encode_value([1]) + encode_value([2]), AmqpSequence(([1], [2])), 4, None),
        (
            BodyKind.OBJECT,
            b"\xac\xed\0\5",
            Data((b"\xac\xed\0\5",)),
            1,
            "application/x-java-serialized-object",
        ),
        (BodyKind.OBJECT, encode_value(1), AmqpValue(1), 1, None),
        (BodyKind.OTHER, encode_value(1), AmqpValue(1), None, None),
        (BodyKind.OTHER, encode_value([1]) + encode_value([2]), AmqpSequence(([1], [2])), None, None),
        (BodyKind.TEXT, None, AmqpValue(None), 5, None),
    ],
)
def test_a_kind_of_message_has_its_body_and_its_annotation(
    kind: BodyKind, content: bytes | None, body: object, number: int | None, content_type: str | None
) -> None:
    message = to_amqp({}, kind, content, address="q")
    assert message.body == body
    assert message.message_annotations == (None if number is None else {"x-opt-jms-msg-type": Byte(number)})
    assert message.properties is not None
    assert message.properties.content_type == content_type
    assert AmqpMessage.decode(message.encode()) == message


@pytest.mark.parametrize(
    ("kind", "content", "error"),
    [
        (BodyKind.TEXT, b"\xff", EncodeError),
        (BodyKind.STREAM, encode_value(1), EncodeError),
        (BodyKind.MAP, encode_value({}) * 2, EncodeError),
        (BodyKind.MAP, b"", EncodeError),
        (BodyKind.OTHER, b"\xff", DecodeError),
    ],
)
def test_content_that_a_kind_cannot_have_is_a_soft_failure(
    kind: BodyKind, content: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        to_amqp({}, kind, content)


def test_every_type_of_header_is_the_property_that_it_was() -> None:
    values = {
        "string": Header("a"),
        "boolean": Header("true", HeaderType.BOOLEAN),
        "byte": Header("-1", HeaderType.BYTE),
        "short": Header("-1", HeaderType.SHORT),
        "int": Header("-1", HeaderType.INT),
        "long": Header("-1", HeaderType.LONG),
        "float": Header("1.5", HeaderType.FLOAT),
        "double": Header("1.5", HeaderType.DOUBLE),
        "binary": Header("AP8=", HeaderType.BINARY),
        "null": Header("", HeaderType.NULL),
        "ubyte": Header("1", HeaderType.UBYTE),
        "ushort": Header("1", HeaderType.USHORT),
        "uint": Header("1", HeaderType.UINT),
        "ulong": Header("1", HeaderType.ULONG),
        "char": Header("a", HeaderType.CHAR),
        "timestamp": Header("1", HeaderType.TIMESTAMP),
        "uuid": Header(str(UUID(int=1)), HeaderType.UUID),
        "symbol": Header("a", HeaderType.SYMBOL),
        "decimal32": Header("AAAAAA==", HeaderType.DECIMAL32),
    }
    expected = [
        *("a", True, Byte(-1), Short(-1), Int(-1), -1, Float(1.5), 1.5, b"\0\xff", None, UByte(1), UShort(1)),
        *(UInt(1), ULong(1), Char("a"), Timestamp(1), UUID(int=1), Symbol("a"), Decimal32(bytes(4))),
    ]
    found = to_amqp(values, BodyKind.EMPTY, None).application_properties
    assert found is not None
    assert [encode_value(value) for value in found.values()] == [encode_value(value) for value in expected]


def test_names_that_were_taken_are_the_application_s_again() -> None:
    headers = {"property.MessageId": Header("a"), "property.property.x": Header("b"), "plain": Header("c")}
    message = to_amqp(headers, BodyKind.EMPTY, None)
    assert message.application_properties == {"MessageId": "a", "property.x": "b", "plain": "c"}
    assert message.properties is not None
    assert message.properties.message_id is None


def test_headers_may_have_the_names_of_jms_too() -> None:
    properties = to_amqp({"JMSCorrelationID": Header("c"), "JMSType": Header("t")}, BodyKind.EMPTY, None)
    assert properties.properties is not None
    assert (properties.properties.correlation_id, properties.properties.subject) == ("c", "t")


def test_the_destination_among_the_headers_outranks_the_address() -> None:
    def to(headers: dict[str, Header]) -> str | None:
        properties = to_amqp(headers, BodyKind.EMPTY, None, address="address").properties
        return properties.to if properties else None

    assert to({"Destination": Header("own")}) == "own"
    assert to({}) == "address"


def test_a_message_is_durable_unless_it_says_otherwise() -> None:
    assert to_amqp({}, BodyKind.EMPTY, None).header == MessageHeader(durable=True)
    assert to_amqp({"DeliveryMode": Header("NON_PERSISTENT")}, BodyKind.EMPTY, None).header is None


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        ({}, None),
        ({"JMSXDeliveryCount": Header("1", HeaderType.INT)}, None),
        ({"JMSXDeliveryCount": Header("4", HeaderType.INT)}, 3),
        ({"Redelivered": Header("true", HeaderType.BOOLEAN)}, 1),
    ],
)
def test_earlier_deliveries_are_counted_as_amqp_does(headers: dict[str, Header], count: int | None) -> None:
    header = to_amqp(headers, BodyKind.EMPTY, None).header
    assert header is not None
    assert header.delivery_count == count


def test_zero_is_the_word_of_jms_for_never_and_unknown() -> None:
    headers = {"Expiration": Header("0", HeaderType.LONG), "Timestamp": Header("0", HeaderType.LONG)}
    properties = to_amqp(headers, BodyKind.EMPTY, None).properties
    assert properties is not None
    assert (properties.absolute_expiry_time, properties.creation_time) == (None, None)


def test_a_standard_header_that_a_kafka_client_wrote_without_a_type_is_read_as_text() -> None:
    headers = {
        "CorrelationId": Header.of(b"c-1"),
        "Priority": Header.of(b"7"),
        "JMSXUserID": Header.of(b"\xff"),
        "Type": Header.of(None),
    }
    message = to_amqp(headers, BodyKind.EMPTY, None)
    assert message.header == MessageHeader(durable=True, priority=7)
    assert message.properties is not None
    assert message.properties.correlation_id == "c-1"
    assert message.properties.user_id == b"\xff"
    assert message.properties.subject is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Priority": Header("high")},
        {"CorrelationId": Header.of(b"\xff")},
        {"MessageId": Header("ID:AMQP_UUID:x")},
        {"size": Header("large", HeaderType.INT)},
        {"size": Header("A", HeaderType.BINARY)},
        {"id": Header("x", HeaderType.UUID)},
    ],
)
def test_a_header_that_is_not_what_it_says_is_refused(headers: dict[str, Header]) -> None:
    with pytest.raises(EncodeError):
        to_amqp(headers, BodyKind.EMPTY, None)

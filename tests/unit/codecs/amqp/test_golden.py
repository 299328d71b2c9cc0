"""What Qpid JMS sends: bytes captured from it, see tests/golden/amqp/README.md."""

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
    Float,
    Int,
    MessageHeader,
    Short,
    ULong,
    boundaries,
    encode_value,
    index,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "amqp"
FILES = sorted(GOLDEN.glob("*.amqp"))

QUEUE = {"x-opt-jms-dest": Byte(0)}
BODIES = {
    "text": (5, AmqpValue("hello")),
    "text_empty": (5, AmqpValue("")),
    "text_null": (5, AmqpValue(None)),
    "text_large": (5, AmqpValue("0123456789" * 100)),
    "message": (0, None),
    "bytes": (3, Data((b"\x00\x01\x02\xfe\xff",))),
    "bytes_empty": (3, Data((b"",))),
    "map": (
        2,
        AmqpValue(
            {
                "boolean": True,
                "byte": Byte(-7),
                "short": Short(-300),
                "char": Char("ß"),
                "int": Int(-70_000),
                "long": -5_000_000_000,
                "float": Float(1.5),
                "double": -2.25,
                "string": "text",
                "null": None,
                "bytes": b"\x01\x02\x03",
            }
        ),
    ),
    "map_empty": (2, AmqpValue({})),
    "stream": (
        4,
        AmqpSequence(
            (
                [
                    *(False, Byte(7), Short(300), Char("x"), Int(70_000), 5_000_000_000, Float(-0.5), 1e100),
                    *("text", None, b"\x09\x08"),
                ],
            )
        ),
    ),
    "stream_empty": (4, AmqpSequence(([],))),
    "object_typed": (1, AmqpValue({"one": Int(1)})),
}


def golden(name: str) -> AmqpMessage:
    return AmqpMessage.decode((GOLDEN / f"{name}.amqp").read_bytes())


@pytest.mark.parametrize("name", BODIES)
def test_the_body_of_every_jms_message_is_read(name: str) -> None:
    number, body = BODIES[name]
    message = golden(name)
    assert message.message_annotations == {**QUEUE, "x-opt-jms-msg-type": Byte(number)}
    assert message == message.replace(body=body)  # with the types of all values


def test_a_serialized_object_is_bytes() -> None:
    message = golden("object_serialized")
    assert isinstance(message.body, Data)
    assert message.body.content.startswith(b"\xac\xed\x00\x05")
    assert message.properties is not None
    assert message.properties.content_type == "application/x-java-serialized-object"


def test_every_jms_header_is_read() -> None:
    message = golden("text_every_header")
    properties = message.properties
    assert message.header == MessageHeader(durable=True, priority=7, ttl=3_600_000)
    assert properties is not None
    assert str(properties.message_id).startswith("ID:")
    assert properties.user_id == b"alice"
    assert (properties.to, properties.reply_to, properties.subject) == ("orders", "answers", "greeting")
    assert (properties.group_id, properties.group_sequence) == ("group-1", 3)
    assert properties.correlation_id == "order-4711"
    assert properties.creation_time is not None
    assert properties.absolute_expiry_time == properties.creation_time + 3_600_000
    assert message.message_annotations == {
        "x-opt-jms-reply-to": Byte(0),
        "x-opt-delivery-time": properties.creation_time + 60_000,
        "x-opt-jms-dest": Byte(0),
        "x-opt-jms-msg-type": Byte(5),
    }
    assert message.application_properties == {"region": "EU"}
    assert message.body == AmqpValue("Grüße, 世界")


def test_a_property_of_every_jms_type_is_read_with_its_type() -> None:
    expected = {
        "aBoolean": True,
        "aByte": Byte(-128),
        "aShort": Short(-(2**15)),
        "anInt": Int(-(2**31)),
        "aSmallInt": Int(5),
        "aLong": -(2**63),
        "aSmallLong": -5,
        "aFloat": Float(3.140000104904175),
        "aDouble": 3.141592653589793,
        "aString": "Zeichen",
        "anEmptyString": "",
        "aNull": None,
    }
    found = golden("every_property_type").application_properties
    assert found is not None
    assert {name: encode_value(value) for name, value in found.items()} == {
        name: encode_value(value) for name, value in expected.items()
    }


@pytest.mark.parametrize(
    ("name", "correlation_id"),
    [
        ("correlation_string", "ID:another-message"),
        ("correlation_uuid", UUID("bf2c1b6e-5b5a-4a69-9a5b-3f4c2d1e0f6a")),
        ("correlation_ulong", ULong(2**64 - 1)),
        ("correlation_binary", b"\x00\xff\x10"),
    ],
)
def test_a_correlation_id_of_every_type_is_read(name: str, correlation_id: object) -> None:
    properties = golden(name).properties
    assert properties is not None
    assert properties.correlation_id == correlation_id


def test_a_message_id_may_be_a_uuid() -> None:
    properties = golden("id_uuid").properties
    assert properties is not None
    assert isinstance(properties.message_id, UUID)


def test_a_message_that_is_not_durable_has_no_header() -> None:
    message = golden("topic_non_persistent_reply_to_temporary_queue")
    assert message.header is None
    assert message.message_annotations == {
        "x-opt-jms-reply-to": Byte(2),
        "x-opt-jms-dest": Byte(1),
        "x-opt-jms-msg-type": Byte(5),
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_depths_agree_on_a_captured_message(path: Path) -> None:
    data = path.read_bytes()
    message = AmqpMessage.decode(data)
    assert boundaries(data)[-1].end == len(data)
    assert index(data).properties == message.properties
    assert index(data).annotations == message.message_annotations
    assert set(index(data).application_properties) == set(message.application_properties or {})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_captured_message_is_never_longer_when_it_is_written_again(path: Path) -> None:
    data = path.read_bytes()
    again = AmqpMessage.decode(data).encode()
    assert len(again) <= len(data)
    assert AmqpMessage.decode(again) == AmqpMessage.decode(data)

"""What kind of JMS message a body makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Byte,
    Data,
    MessageProperties,
    decode_value,
    index,
)
from isthmus.codecs.jms import body_of
from isthmus.message import Body, BodyKind

GOLDEN = Path(__file__).parents[3] / "golden" / "amqp"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("text", BodyKind.TEXT),
        ("text_empty", BodyKind.TEXT),
        ("text_large", BodyKind.TEXT),
        ("text_null", BodyKind.EMPTY),
        ("message", BodyKind.EMPTY),
        ("bytes", BodyKind.BYTES),
        ("bytes_empty", BodyKind.BYTES),
        ("map", BodyKind.MAP),
        ("map_empty", BodyKind.MAP),
        ("stream", BodyKind.STREAM),
        ("stream_empty", BodyKind.STREAM),
        ("object_serialized", BodyKind.OBJECT),
        ("object_typed", BodyKind.OBJECT),
    ],
)
def test_every_captured_message_is_of_its_kind(name: str, kind: BodyKind) -> None:
    assert body_of(index((GOLDEN / f"{name}.amqp").read_bytes())).kind is kind


AmqpBody = Data | AmqpSequence | AmqpValue | None
DATA = Data((b"bytes",))


def body(content: AmqpBody, said: int | None = None, content_type: str | None = None) -> Body:
    message = AmqpMessage(
        message_annotations=None if said is None else {"x-opt-jms-msg-type": Byte(said)},
        properties=MessageProperties(content_type=content_type),
        body=content,
    )
    return body_of(index(message.encode()))


@pytest.mark.parametrize(
    ("content", "content_type", "kind"),
    [
        (None, None, BodyKind.EMPTY),
        (AmqpValue(None), None, BodyKind.EMPTY),
        (AmqpValue("a"), None, BodyKind.TEXT),
        (AmqpValue(b"a"), None, BodyKind.BYTES),
        (AmqpValue(1), None, BodyKind.OTHER),
        (AmqpValue({}), None, BodyKind.OTHER),
        (AmqpValue([]), None, BodyKind.OTHER),
        (AmqpSequence(([],)), None, BodyKind.OTHER),
        (DATA, None, BodyKind.BYTES),
        (DATA, "application/octet-stream", BodyKind.BYTES),
        (DATA, "application/x-java-serialized-object", BodyKind.OBJECT),
        (DATA, "text/plain", BodyKind.TEXT),
        (DATA, "Text/HTML; Charset=UTF-8", BodyKind.TEXT),
        (DATA, 'text/plain;format=flowed;charset="utf-8"', BodyKind.TEXT),
        (DATA, "text/plain;charset=utf-16", BodyKind.BYTES),
        (DATA, "application/json", BodyKind.TEXT),
        (DATA, "application/soap+xml", BodyKind.TEXT),
        (DATA, "application/pdf", BodyKind.BYTES),
        (DATA, "nonsense", BodyKind.BYTES),
    ],
)
def test_without_an_annotation_the_body_speaks_for_itself(
    content: AmqpBody, content_type: str | None, kind: BodyKind
) -> None:
    assert body(content, None, content_type).kind is kind


@pytest.mark.parametrize(
    ("content", "said", "kind"),
    [
        (AmqpValue({}), 2, BodyKind.MAP),
        (AmqpValue([]), 4, BodyKind.STREAM),
        (AmqpSequence(([], [])), 4, BodyKind.STREAM),
        (DATA, 5, BodyKind.TEXT),
        (AmqpValue(1), 1, BodyKind.OBJECT),
        (AmqpValue("a"), 1, BodyKind.OBJECT),
    ],
)
def test_the_annotation_says_what_the_body_is(content: AmqpBody, said: int, kind: BodyKind) -> None:
    assert body(content, said).kind is kind


@pytest.mark.parametrize(
    ("content", "said", "kind"),
    [
        (AmqpValue("a"), 2, BodyKind.TEXT),
        (AmqpValue("a"), 3, BodyKind.TEXT),
        (AmqpValue("a"), 0, BodyKind.TEXT),
        (AmqpValue("a"), 99, BodyKind.TEXT),
        (AmqpValue({}), 5, BodyKind.OTHER),
        (AmqpValue(None), 5, BodyKind.EMPTY),
        (DATA, 2, BodyKind.BYTES),
    ],
)
def test_an_annotation_that_cannot_be_true_is_not_believed(
    content: AmqpBody, said: int, kind: BodyKind
) -> None:
    assert body(content, said).kind is kind


def test_the_bytes_of_a_body_can_be_cut_out_of_the_message() -> None:
    data = AmqpMessage(body=Data((b"one", b"two")), footer={"a": 1}).encode()
    assert body_of(index(data)).slice(data) == b"onetwo"
    data = AmqpMessage(body=AmqpValue({"a": 1})).encode()
    assert decode_value(body_of(index(data)).slice(data) or b"") == {"a": 1}

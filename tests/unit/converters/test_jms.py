"""The ``jms`` form: text and bytes as they are, and nothing else."""

from __future__ import annotations

import pickle

import pytest

from isthmus.converters.jms import kafka_value
from isthmus.errors import ConversionFailure
from isthmus.message import Body, BodyKind, Span


@pytest.mark.parametrize("kind", [BodyKind.TEXT, BodyKind.BYTES])
@pytest.mark.parametrize("content", [b"", "Grüße".encode(), b"\x00\xff\xfe", b"x" * 100_000])
def test_text_and_bytes_are_published_as_they_are(kind: BodyKind, content: bytes) -> None:
    assert kafka_value(Body(kind), content) == content


def test_the_body_is_cut_out_of_what_arrived() -> None:
    body = Body(BodyKind.TEXT, (Span(3, 5),))
    assert kafka_value(body, b"\x00\x53\x77hello\x01") == b"hello"


def test_several_sections_of_data_are_joined() -> None:
    assert kafka_value(Body(BodyKind.BYTES, (Span(0, 2), Span(4, 2))), b"ab..cd") == b"abcd"


def test_a_message_without_a_body_becomes_a_record_without_a_value() -> None:
    assert kafka_value(Body(BodyKind.EMPTY), b"only headers") is None
    assert kafka_value(Body(BodyKind.EMPTY), None) is None


@pytest.mark.parametrize("kind", [BodyKind.MAP, BodyKind.STREAM, BodyKind.OBJECT, BodyKind.OTHER])
def test_a_message_that_is_neither_text_nor_bytes_is_a_conversion_failure(kind: BodyKind) -> None:
    with pytest.raises(ConversionFailure, match=f"a {kind} message has no jms form"):
        kafka_value(Body(kind), b"content")


class _Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("an object was deserialised",)


def test_an_object_is_never_deserialised() -> None:
    with pytest.raises(ConversionFailure):
        kafka_value(Body(BodyKind.OBJECT), pickle.dumps(_Bomb()))

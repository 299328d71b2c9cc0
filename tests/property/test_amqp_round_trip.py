"""Whatever AMQP can carry comes back with its types; whatever else comes in raises the one error."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.amqp import fuzz, mutations, read_every_way
from tests.support.amqp import strategies as amqp

from isthmus.codecs.amqp import (
    DATA,
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Data,
    Float,
    boundaries,
    decode_value,
    decode_values,
    encode_value,
    index,
)
from isthmus.codecs.jms import body_of, to_amqp, to_message
from isthmus.errors import DecodeError, SoftFailure
from isthmus.message import BodyKind, Header, HeaderType

GOLDEN = [path.read_bytes() for path in sorted(Path("tests/golden/amqp").glob("*.amqp"))]


@given(amqp.values)
def test_a_value_comes_back_with_its_types(value: object) -> None:
    encoded = encode_value(value)
    decoded = decode_value(encoded)
    assert decoded == value
    assert encode_value(decoded) == encoded  # which tells types apart where Python's equality does not


@given(st.lists(amqp.values, max_size=3))
def test_values_can_follow_each_other(values: list[object]) -> None:
    assert decode_values(b"".join(encode_value(value) for value in values)) == values


@given(amqp.messages)
def test_a_message_comes_back_whole(message: AmqpMessage) -> None:
    encoded = message.encode()
    decoded = AmqpMessage.decode(encoded)
    assert decoded == message
    assert decoded.encode() == encoded
    assert decoded.body == message.body


@given(amqp.messages)
def test_the_three_depths_agree(message: AmqpMessage) -> None:
    encoded = message.encode()
    found = index(encoded)
    sections = boundaries(encoded)
    assert sum(section.length for section in sections) == len(encoded)
    assert found.header == (message.header or type(found.header)())
    assert found.properties == (message.properties or type(found.properties)())
    assert found.annotations == (message.message_annotations or {})
    assert list(found.application_properties) == list(message.application_properties or {})
    contents = [encoded[offset : offset + length] for offset, length in found.spans]
    match message.body:
        case Data(chunks):
            assert found.body_section == DATA
            assert contents == list(chunks)
        case AmqpSequence(lists):
            assert [decode_value(content) for content in contents] == list(lists)
        case AmqpValue(str() as text) if type(text) is str:
            assert contents == [text.encode()]
        case AmqpValue(bytes() as octets) if type(octets) is bytes:
            assert contents == [octets]
        case AmqpValue(value):
            assert [decode_value(content) for content in contents] == [value]
        case None:
            assert contents == []


@given(amqp.application_properties)
def test_a_property_s_header_says_the_same_as_the_value(properties: dict[str, Any] | None) -> None:
    found = index(AmqpMessage(application_properties=properties).encode())
    for name, value in (properties or {}).items():
        header = Header(found.application_properties[name], found.types.get(name, HeaderType.STRING))
        if header.type is HeaderType.FLOAT:
            assert encode_value(Float(header.value)) == encode_value(value)  # type: ignore[arg-type]
        else:
            assert header.value == (str(value) if header.type is HeaderType.UUID else value)


@given(amqp.messages.filter(lambda message: bool(message.properties and message.properties.to)))
def test_what_jms_carries_comes_back_through_its_headers(message: AmqpMessage) -> None:
    data = message.encode()
    found = to_message(data)
    kind, content = found.body.kind, found.body.slice(data)
    back = to_amqp(found.headers, kind, content)
    assert AmqpMessage(application_properties=back.application_properties) == AmqpMessage(
        application_properties=message.application_properties or None
    )
    assert back.properties is not None
    assert message.properties is not None
    assert back.properties.message_id == message.properties.message_id
    assert back.properties.correlation_id == message.properties.correlation_id
    assert back.properties.user_id == message.properties.user_id
    again = back.encode()
    if kind is not BodyKind.EMPTY:
        assert body_of(index(again)).slice(again) == content


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_the_error(data: bytes) -> None:
    read_every_way(data)


@settings(max_examples=500)
@given(st.sampled_from(GOLDEN), st.randoms(use_true_random=False))
def test_a_captured_message_with_damage_is_a_message_or_the_error(data: bytes, random: Any) -> None:
    read_every_way(mutations(data, random))


def test_ten_thousand_fuzzed_inputs_find_nothing_but_the_error() -> None:
    assert fuzz(10_000, seed=1) < 0.5


@given(amqp.messages, st.data())
def test_a_message_cut_off_anywhere_is_a_shorter_message_or_the_error(
    message: AmqpMessage, data: st.DataObject
) -> None:
    encoded = message.encode()
    cut = encoded[: data.draw(st.integers(0, len(encoded)))]
    read_every_way(cut)
    if cut and cut != encoded and len(boundaries(encoded)) == 1:
        with pytest.raises(DecodeError):
            AmqpMessage.decode(cut)


texts = st.text(max_size=10)
any_headers = st.dictionaries(texts, st.builds(Header, texts, st.sampled_from(HeaderType)))


@given(any_headers)
def test_any_headers_make_a_message_or_a_soft_failure(headers: dict[str, Header]) -> None:
    with contextlib.suppress(SoftFailure):
        to_amqp(headers, BodyKind.EMPTY, None).encode()

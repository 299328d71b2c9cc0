"""What the forms make of bodies, beyond the tables of the documentation."""

from __future__ import annotations

import pytest

from isthmus import (
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Data,
    MessageConverter,
    MessageHeader,
    ReceivedRecord,
    converters,
)
from isthmus.errors import DecodeError, EncodeError


def received(value: bytes | None) -> ReceivedRecord:
    return ReceivedRecord("topic", 0, 0, None, value)


@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 1_000_000])
@pytest.mark.parametrize("form", [converters.default, converters.json, converters.raw])
def test_a_body_of_any_size_goes_through(form: MessageConverter, size: int) -> None:
    body = Data((bytes(range(256)) * (size // 256) + b"x" * (size % 256),))
    record = form.to_kafka_record(AmqpMessage(body=body))
    assert form.to_amqp_message("a", received(record.value)).body == body


def test_several_sequences_are_a_list_of_lists_by_default() -> None:
    two = AmqpMessage(body=AmqpSequence((["a"], [True, None])))
    assert converters.default.to_kafka_record(two).value == b'[["a"],[true,null]]'
    one = AmqpMessage(body=AmqpSequence((["a"],)))
    assert converters.default.to_kafka_record(one).value == b'["a"]'


def test_raw_publishes_the_bytes_as_they_arrived() -> None:
    wide = b"\x00\x53\x77\xb1\x00\x00\x00\x02hi"  # a string with a longer size than it needs
    message = AmqpMessage.decode(wide)
    assert message.encode() != wide
    assert converters.raw.to_kafka_record(message).value == wide


def test_raw_publishes_what_a_changed_message_encodes() -> None:
    message = AmqpMessage.decode(b"\x00\x53\x77\xb1\x00\x00\x00\x02hi").replace(body=AmqpValue("ho"))
    assert converters.raw.to_kafka_record(message).value == b"\x00\x53\x77\xa1\x02ho"


def test_raw_changes_nothing_else_on_the_way_back() -> None:
    message = AmqpMessage(header=MessageHeader(durable=True, delivery_count=2), footer={"x": 1})
    back = converters.raw.to_amqp_message("a", received(message.encode()))
    assert back.header == message.header
    assert back.footer == message.footer


@pytest.mark.parametrize("value", [b"hello", b"\x00", b"\x00\x53\x77", b"{}"])
def test_bytes_that_are_no_message_are_malformed_for_raw(value: bytes) -> None:
    with pytest.raises(DecodeError):
        converters.raw.to_amqp_message("a", received(value))


@pytest.mark.parametrize("form", [converters.default, converters.json, converters.raw])
def test_a_tombstone_is_a_message_without_a_body(form: MessageConverter) -> None:
    assert form.to_amqp_message("a", received(None)).body is None


@pytest.mark.parametrize("form", [converters.default, converters.jms])
@pytest.mark.parametrize("body", [None, AmqpValue(None)])
def test_a_message_without_a_body_is_a_tombstone(form: MessageConverter, body: AmqpValue | None) -> None:
    assert form.to_kafka_record(AmqpMessage(body=body)).value is None


def test_an_empty_value_is_no_tombstone() -> None:
    assert converters.default.to_amqp_message("a", received(b"")).body == Data((b"",))
    assert converters.default.to_kafka_record(AmqpMessage(body=AmqpValue(""))).value == b""


@pytest.mark.parametrize("form", [converters.default, converters.json, converters.raw, converters.jms])
@pytest.mark.parametrize("value", [object(), 2**64, "\ud800", {"a": 2**70}])
def test_a_value_that_amqp_cannot_carry_is_refused(form: MessageConverter, value: object) -> None:
    with pytest.raises(EncodeError):
        form.to_kafka_record(AmqpMessage(body=AmqpValue(value)))

"""The bridge's annotations: what a sender may ask for, and what a receiver is told."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from isthmus import (
    AmqpMessage,
    AmqpValue,
    MessageConverter,
    MessageProperties,
    ReceivedRecord,
    converters,
)
from isthmus.codecs.amqp import (
    Byte,
    Char,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    encode_value,
)
from isthmus.errors import ConversionFailure

FORMS = [converters.default, converters.json, converters.raw, converters.jms]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__.rpartition(".")[2])


def asking(**annotations: Any) -> AmqpMessage:
    named = {f"x-opt-bridge.{name}": value for name, value in annotations.items()}
    return AmqpMessage(message_annotations=named, body=AmqpValue("x"))


@forms
def test_a_sender_chooses_partition_and_key(form: MessageConverter) -> None:
    record = form.to_kafka_record(asking(partition=Int(3), key="k"))
    assert (record.partition, record.key) == (3, "k")


@forms
def test_a_sender_may_leave_the_prefix_out(form: MessageConverter) -> None:
    plain = AmqpMessage(message_annotations={"partition": Int(3), "key": "k"}, body=AmqpValue("x"))
    record = form.to_kafka_record(plain)
    assert (record.partition, record.key) == (3, "k")


def test_the_prefixed_name_outranks_the_plain_one() -> None:
    annotations = {"partition": 1, "x-opt-bridge.partition": 2, "key": "plain", "x-opt-bridge.key": None}
    record = converters.raw.to_kafka_record(AmqpMessage(message_annotations=annotations))
    assert (record.partition, record.key) == (2, "plain")


@pytest.mark.parametrize(("name", "value"), [("partition", "3"), ("key", 3)])
def test_a_plain_name_with_a_wrong_type_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(ConversionFailure, match=rf"^{name} must be"):
        converters.default.to_kafka_record(AmqpMessage(message_annotations={name: value}))


@forms
def test_a_message_that_asks_for_nothing_gets_no_partition_and_no_key(form: MessageConverter) -> None:
    for message in (AmqpMessage(), asking(), asking(partition=None, key=None), asking(topic="x", offset=3)):
        record = form.to_kafka_record(message)
        assert (record.partition, record.key) == (None, None)


@pytest.mark.parametrize("type", [Int, int, Short, Byte, UInt, ULong, UShort, UByte])
def test_the_partition_may_be_an_integer_of_any_type(type: Any) -> None:
    partition = converters.default.to_kafka_record(asking(partition=type(5))).partition
    assert partition == 5
    assert partition.__class__ is int


def test_a_symbol_passes_for_a_key() -> None:
    key = converters.default.to_kafka_record(asking(key=Symbol("k"))).key
    assert key == "k"
    assert key.__class__ is str


@forms
@pytest.mark.parametrize("partition", ["3", 3.0, True, b"3", [], Timestamp(3), -1, 2**31, {"a": 1}])
def test_a_partition_that_cannot_be_one_is_refused_with_a_description(
    form: MessageConverter, partition: object
) -> None:
    with pytest.raises(ConversionFailure, match=r"^x-opt-bridge.partition (must be an integer|is -?\d+)"):
        form.to_kafka_record(asking(partition=partition))


@forms
@pytest.mark.parametrize("key", [3, b"k", Char("k"), True, ["k"]])
def test_a_key_that_is_no_string_is_refused_with_a_description(form: MessageConverter, key: object) -> None:
    with pytest.raises(ConversionFailure, match=r"^x-opt-bridge.key must be a string, not a \w+$"):
        form.to_kafka_record(asking(key=key))


@forms
@pytest.mark.parametrize(("key", "shown"), [(b"k", "k"), (b"", ""), (None, None), (b"\xff", "\ufffd")])
def test_a_receiver_is_told_the_place_of_the_record(
    form: MessageConverter, key: bytes | None, shown: str | None
) -> None:
    message = form.to_amqp_message("address", ReceivedRecord("topic", 3, 17, key, None))
    annotations = message.message_annotations or {}
    place = {name: annotations[f"x-opt-bridge.{name}"] for name in ("partition", "offset", "key", "topic")}
    assert place == {"partition": 3, "offset": 17, "key": shown, "topic": "topic"}
    assert encode_value(place["partition"]) == encode_value(Int(3))
    assert encode_value(place["offset"]) == encode_value(17)
    assert message.properties is not None
    assert message.properties.to == "address"
    AmqpMessage.decode(message.encode())


@pytest.mark.parametrize("form", [converters.json, converters.raw], ids=["json", "raw"])
def test_the_truth_replaces_what_the_value_says_and_other_annotations_stay(form: MessageConverter) -> None:
    lies = asking(partition=9, offset=9, key="lie", topic="lie")
    sent = lies.replace(message_annotations={**(lies.message_annotations or {}), "x-opt-colour": "red"})
    value = form.to_kafka_record(sent).value
    message = form.to_amqp_message("address", ReceivedRecord("topic", 3, 17, None, value))
    assert message.message_annotations == {
        "x-opt-bridge.partition": 3,
        "x-opt-bridge.offset": 17,
        "x-opt-bridge.key": None,
        "x-opt-bridge.topic": "topic",
        "x-opt-colour": "red",
    }


@pytest.mark.parametrize("form", [converters.json, converters.raw], ids=["json", "raw"])
def test_plain_names_that_the_value_has_tell_the_truth_too(form: MessageConverter) -> None:
    sent = AmqpMessage(message_annotations={"partition": Int(9), "offset": 9, "key": "lie"})
    value = form.to_kafka_record(sent).value
    annotations = form.to_amqp_message("a", ReceivedRecord("t", 3, 17, b"k", value)).message_annotations
    assert annotations is not None
    assert [annotations[name] for name in ("partition", "offset", "key")] == [3, 17, "k"]


@pytest.mark.parametrize("form", [converters.json, converters.raw], ids=["json", "raw"])
def test_properties_come_from_the_value_and_the_address_only_where_it_has_none(
    form: MessageConverter,
) -> None:
    sent = MessageProperties(message_id="ID:1", to="orders", subject="news", reply_to="answers")
    for properties, to in ((sent, "orders"), (replace(sent, to=None), "receiver")):
        value = form.to_kafka_record(AmqpMessage(properties=properties)).value
        back = form.to_amqp_message("receiver", ReceivedRecord("t", 0, 0, None, value))
        assert back.properties == replace(properties, to=to)

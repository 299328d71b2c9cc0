"""A message's sections: where they lie, what they hold, and which ones are not a message's."""

from __future__ import annotations

from uuid import UUID

import pytest

from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Byte,
    Data,
    Int,
    MessageHeader,
    MessageProperties,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    boundaries,
    decode_value,
    encode_value,
    index,
)
from isthmus.errors import DecodeError

HEADER = "005370 45"
DELIVERY = "005371 c1 01 00"
ANNOTATIONS = "005372 c1 01 00"
PROPERTIES = "005373 45"
APPLICATION = "005374 c1 01 00"
DATA = "005375 a0 01 ff"
SEQUENCE = "005376 45"
VALUE = "005377 40"
FOOTER = "005378 c1 01 00"

EVERY_SECTION = AmqpMessage(
    header=MessageHeader(durable=True, priority=7, ttl=60_000, first_acquirer=False, delivery_count=2),
    delivery_annotations={"x-opt-delivery": 1},
    message_annotations={"x-opt-jms-msg-type": Byte(5), ULong(7): "reserved"},  # type: ignore[dict-item]
    properties=MessageProperties(
        message_id="ID:1",
        user_id=b"user",
        to="to",
        subject="subject",
        reply_to="reply-to",
        correlation_id=UUID(int=1),
        content_type="text/plain",
        content_encoding="gzip",
        absolute_expiry_time=2,
        creation_time=1,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="reply-to-group",
    ),
    application_properties={"a": Int(1), "b": None},
    body=AmqpValue({"k": [1, "two"]}),
    footer={"x-opt-footer": "f"},
)


def test_every_section_comes_back_as_it_was_written() -> None:
    encoded = EVERY_SECTION.encode()
    decoded = AmqpMessage.decode(encoded)
    assert decoded == EVERY_SECTION
    assert decoded.original == encoded
    assert decoded.header == EVERY_SECTION.header
    assert decoded.properties == EVERY_SECTION.properties
    assert decoded.application_properties == {"a": 1, "b": None}
    assert decoded.body == AmqpValue({"k": [1, "two"]})


def test_fields_are_written_with_the_types_of_the_specification() -> None:
    sections = {section.name: section for section in boundaries(EVERY_SECTION.encode())}
    encoded = EVERY_SECTION.encode()

    def fields(name: str) -> list[type]:
        section = sections[name]
        return [type(value) for value in decode_value(encoded[section.value_offset : section.end])]  # type: ignore[attr-defined]

    assert fields("header") == [bool, UByte, UInt, bool, UInt]
    assert fields("properties") == [
        *(str, bytes, str, str, str, UUID, Symbol, Symbol, Timestamp, Timestamp, str, UInt, str)
    ]


@pytest.mark.parametrize("identity", ["text", UUID(int=5), ULong(2**64 - 1), 7, b"\x00\x01"])
def test_an_id_may_be_of_four_types(identity: str | UUID | int | bytes) -> None:
    message = AmqpMessage(properties=MessageProperties(message_id=identity, correlation_id=identity))
    properties = AmqpMessage.decode(message.encode()).properties
    assert properties is not None
    assert properties.message_id == identity
    assert properties.correlation_id == identity
    assert type(properties.message_id) is (ULong if isinstance(identity, int) else type(identity))


def test_absent_fields_at_the_end_are_not_written() -> None:
    assert AmqpMessage(header=MessageHeader()).encode() == bytes.fromhex("005370 45")
    assert AmqpMessage(header=MessageHeader(priority=4)).encode() == bytes.fromhex("005370 c0 04 02 40 5004")


@pytest.mark.parametrize(
    "body",
    [
        None,
        Data((b"one",)),
        Data((b"one", b"", b"three" * 100)),
        AmqpSequence(([1, 2],)),
        AmqpSequence(([], ["a"])),
        AmqpValue(None),
        AmqpValue("text"),
    ],
)
def test_every_form_of_body_comes_back(body: Data | AmqpSequence | AmqpValue | None) -> None:
    assert AmqpMessage.decode(AmqpMessage(body=body).encode()).body == body


def test_data_sections_are_one_content() -> None:
    assert Data((b"one",)).content == b"one"
    assert Data((b"one", b"two")).content == b"onetwo"


def test_messages_are_equal_by_content_not_by_encoding() -> None:
    compact = AmqpMessage.decode(bytes.fromhex("005373 c0 04 01 a1 01 61"))
    wide = AmqpMessage.decode(bytes.fromhex("0080 0000000000000073 d0 0000000a 00000001 b1 00000001 61"))
    assert compact == wide
    assert hash(compact) == hash(wide)
    assert compact.original != wide.original
    assert AmqpMessage(body=AmqpValue(1)) != AmqpMessage(body=AmqpValue(UInt(1)))
    assert AmqpMessage(body=AmqpValue("a")) != "a"


def test_a_copy_with_changes_forgets_the_original_bytes() -> None:
    changed = AmqpMessage.decode(EVERY_SECTION.encode()).replace(body=AmqpValue("new"))
    assert changed.original is None
    assert changed.body == AmqpValue("new")
    assert changed.properties == EVERY_SECTION.properties


def test_boundaries_tell_where_each_section_lies() -> None:
    data = bytes.fromhex(HEADER + PROPERTIES + DATA + DATA + FOOTER)
    found = boundaries(data)
    assert [(s.name, s.offset, s.value_offset, s.length) for s in found] == [
        ("header", 0, 3, 4),
        ("properties", 4, 7, 4),
        ("data", 8, 11, 6),
        ("data", 14, 17, 6),
        ("footer", 20, 23, 6),
    ]
    assert repr(found[0]) == "Section(header, offset=0, length=4)"
    assert [s.code for s in found] == [0x70, 0x73, 0x75, 0x75, 0x78]


def test_boundaries_go_past_any_value() -> None:
    values = [None, "a" * 300, {"a": [1]}, 1.5, UUID(int=1), b"x" * 300, True, Int(-1)]
    for value in values:
        data = AmqpMessage(body=AmqpValue(value)).encode() + bytes.fromhex(FOOTER)
        assert [s.name for s in boundaries(data)] == ["amqp-value", "footer"]
    described = bytes.fromhex("005377 00 a3 01 61 00 53 01 45" + FOOTER)
    assert [s.name for s in boundaries(described)] == ["amqp-value", "footer"]


PROPERTIES_SYMBOL = b"amqp:properties:list".hex()


@pytest.mark.parametrize(
    "descriptor",
    [
        "0053 73",
        "0080 0000000000000073",
        "00a3 14" + PROPERTIES_SYMBOL,
        "00b3 00000014" + PROPERTIES_SYMBOL,
    ],
)
def test_a_descriptor_may_be_a_number_or_a_symbol(descriptor: str) -> None:
    data = bytes.fromhex(descriptor + "c0 04 01 a1 01 61")
    assert boundaries(data)[0].name == "properties"
    assert index(data).properties.message_id == "a"
    assert AmqpMessage.decode(data).properties == MessageProperties(message_id="a")


def test_an_amqp_value_may_be_named_by_its_symbol() -> None:
    assert AmqpMessage.decode(b"\x00\xa3\x11amqp:amqp-value:*\x41").body == AmqpValue(True)


def test_a_message_without_any_section_is_one() -> None:
    assert boundaries(b"") == []
    assert AmqpMessage.decode(b"") == AmqpMessage()


def test_text_passes_where_a_symbol_is_due_and_the_other_way_round() -> None:
    data = bytes.fromhex("005373 c0 0c 07 40 40 a3 01 61 40 40 40 a1 01 62")
    properties = AmqpMessage.decode(data).properties
    assert properties == MessageProperties(to="a", content_type="b")
    annotations = bytes.fromhex("005372 c1 06 02 a1 01 61 54 01")
    assert AmqpMessage.decode(annotations).message_annotations == {"a": Int(1)}


NOT_A_MESSAGE = {
    "a value that is not a section": "40",
    "a section cut off after its descriptor": "005370",
    "a descriptor cut off": "0053",
    "an unknown section": "005379 45",
    "a section of another kind": "005324 45",
    "an unknown symbol": "00a3 01 61 45",
    "a descriptor of the wrong type": "00a1 01 61 45",
    "a descriptor that is a uint": "0052 70 45",
    "a descriptor that is too large": "0080 0100000000000070 45",
    "a described descriptor": "00005370 45 45",
    "the header twice": HEADER + HEADER,
    "properties before annotations": PROPERTIES + ANNOTATIONS,
    "the header after the body": VALUE + HEADER,
    "the footer before the body": FOOTER + VALUE,
    "two footers": FOOTER + FOOTER,
    "two values": VALUE + VALUE,
    "data and then a value": DATA + VALUE,
    "a sequence and then data": SEQUENCE + DATA,
    "a header that is a map": "005370 c1 01 00",
    "a header that is null": "005370 40",
    "annotations that are a list": "005372 45",
    "data that is a string": "005375 a1 01 61",
    "a sequence that is an array": "005376 e0 02 00 40",
    "a section longer than the bytes": "005375 a0 05 ff",
    "bytes after the last section": VALUE + "ff",
}

NOT_ITS_CONTENT = {
    "too many fields": ("005370 c0 07 06 40 40 40 40 40 40", "fields"),
    "a header field of the wrong type": ("005370 c0 03 01 54 01", "field 0"),
    "a priority that is an int": ("005370 c0 04 02 40 54 01", "field 1"),
    "a message-id that is a list": ("005373 c0 02 01 45", "field 0"),
    "a user-id that is a string": ("005373 c0 05 02 40 a1 01 61", "field 1"),
    "a creation-time that is a long": ("005373 c0 0c 0a 40 40 40 40 40 40 40 40 40 55 01", "field 9"),
    "a field that reaches beyond its section": ("005373 c0 03 01 a1 04 61626364", "size"),
    "an annotation under an int": ("005372 c1 04 02 54 01 40", "key of an annotation"),
    "the same annotation twice": ("005372 c1 09 04 a3 01 61 40 a3 01 61 40", "twice"),
    "an annotation without a value": ("005372 c1 04 01 a3 01 61", "without a value"),
    "a property under a symbol": ("005374 c1 05 02 a3 01 61 40", "where a string is due"),
    "the same property twice": ("005374 c1 09 04 a1 01 61 40 a1 01 61 40", "twice"),
    "a property that is a list": ("005374 c1 05 02 a1 01 61 45", "of type list"),
    "a property that is a map": ("005374 c1 07 02 a1 01 61 c1 01 00", "of type map"),
    "a property that is described": ("005374 c1 08 02 a1 01 61 00 53 01 40", "of type described"),
    "a property that is not UTF-8": ("005374 c1 08 02 a1 01 61 a1 02 c328", "utf-8"),
    "properties longer than their content": ("005374 c1 06 02 a1 01 61 40 40", "size"),
}


@pytest.mark.parametrize("encoding", NOT_A_MESSAGE.values(), ids=NOT_A_MESSAGE)
@pytest.mark.parametrize("read", [boundaries, index, AmqpMessage.decode], ids=["boundaries", "index", "full"])
def test_no_depth_takes_sections_that_are_not_a_message(read: object, encoding: str) -> None:
    with pytest.raises(DecodeError):
        read(bytes.fromhex(encoding))  # type: ignore[operator]


@pytest.mark.parametrize(("encoding", "reason"), NOT_ITS_CONTENT.values(), ids=NOT_ITS_CONTENT)
@pytest.mark.parametrize("read", [index, AmqpMessage.decode], ids=["index", "full"])
def test_neither_index_nor_full_takes_content_that_a_section_cannot_have(
    read: object, encoding: str, reason: str
) -> None:
    with pytest.raises(DecodeError, match=reason):
        read(bytes.fromhex(encoding))  # type: ignore[operator]


def test_every_beginning_of_a_message_that_ends_inside_a_section_is_malformed() -> None:
    data = EVERY_SECTION.encode()
    ends = {section.end for section in boundaries(data)} | {0}
    for length in set(range(len(data))) - ends:
        for read in (boundaries, index, AmqpMessage.decode):
            with pytest.raises(DecodeError):
                read(data[:length])  # type: ignore[operator]


def test_many_small_data_sections_are_read_in_linear_time() -> None:
    data = bytes.fromhex(DATA) * 10_000
    body = AmqpMessage.decode(data).body
    assert isinstance(body, Data)
    assert len(body.chunks) == 10_000
    assert len(index(data).spans) == 10_000


def test_symbols_beyond_the_kept_ones_are_read_too() -> None:
    for number in range(3_000):
        assert decode_value(encode_value(Symbol(f"symbol-{number}"))) == f"symbol-{number}"

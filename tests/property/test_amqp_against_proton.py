"""The codec against Qpid Proton's, an independent implementation, in both directions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.amqp import strategies as amqp

from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Array,
    Byte,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    MessageHeader,
    MessageProperties,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_value,
    encode_value,
)

proton = pytest.importorskip("proton", reason="python-qpid-proton, the peer of these tests, is not installed")

EXAMPLES = 600

TO_PROTON = {
    UByte: proton.ubyte,
    UShort: proton.ushort,
    UInt: proton.uint,
    ULong: proton.ulong,
    Byte: proton.byte,
    Short: proton.short,
    Int: proton.int32,
    Float: proton.float32,
    Timestamp: proton.timestamp,
    Char: proton.char,
    Symbol: proton.symbol,
}
FROM_PROTON = {theirs: ours for ours, theirs in TO_PROTON.items()}
ARRAY_TYPES = {
    "null": proton.Data.NULL,
    "boolean": proton.Data.BOOL,
    "ubyte": proton.Data.UBYTE,
    "ushort": proton.Data.USHORT,
    "uint": proton.Data.UINT,
    "ulong": proton.Data.ULONG,
    "byte": proton.Data.BYTE,
    "short": proton.Data.SHORT,
    "int": proton.Data.INT,
    "long": proton.Data.LONG,
    "float": proton.Data.FLOAT,
    "double": proton.Data.DOUBLE,
    "decimal32": proton.Data.DECIMAL32,
    "decimal64": proton.Data.DECIMAL64,
    "decimal128": proton.Data.DECIMAL128,
    "char": proton.Data.CHAR,
    "timestamp": proton.Data.TIMESTAMP,
    "uuid": proton.Data.UUID,
    "binary": proton.Data.BINARY,
    "string": proton.Data.STRING,
    "symbol": proton.Data.SYMBOL,
    "list": proton.Data.LIST,
    "map": proton.Data.MAP,
    "array": proton.Data.ARRAY,
}
ARRAY_NAMES = {number: name for name, number in ARRAY_TYPES.items()}


def to_proton(value: Any) -> Any:
    match value:
        case Decimal32():
            return proton.decimal32(int.from_bytes(value))
        case Decimal64():
            return proton.decimal64(int.from_bytes(value))
        case Decimal128():
            return proton.decimal128(value)
        case list():
            return [to_proton(item) for item in value]
        case dict():
            return {to_proton(key): to_proton(item) for key, item in value.items()}
        case Described(descriptor, item):
            return proton.Described(to_proton(descriptor), to_proton(item))
        case Array(type, items, descriptors):
            descriptor = to_proton(descriptors[0]) if descriptors else proton.UNDESCRIBED
            return proton.Array(descriptor, ARRAY_TYPES[type], *map(to_proton, items))
        case _:
            cls = TO_PROTON.get(value.__class__)
            return value if cls is None else cls(value)


def from_proton(value: Any) -> Any:
    match value:
        case memoryview():
            return bytes(value)
        case proton.decimal32():
            return Decimal32(value.to_bytes(4))
        case proton.decimal64():
            return Decimal64(value.to_bytes(8))
        case proton.decimal128():
            return Decimal128(value)
        case list() | tuple():
            return [from_proton(item) for item in value]
        case dict():
            return {from_proton(key): from_proton(item) for key, item in value.items()}
        case proton.Described():
            return Described(from_proton(value.descriptor), from_proton(value.value))
        case proton.Array():
            descriptors = () if value.descriptor == proton.UNDESCRIBED else (from_proton(value.descriptor),)
            return Array(ARRAY_NAMES[value.type], [from_proton(item) for item in value.elements], descriptors)
        case _:
            cls = FROM_PROTON.get(value.__class__)
            return value if cls is None else cls(value)


def proton_reads(encoded: bytes) -> Any:
    data = proton.Data()
    assert data.decode(encoded) == len(encoded)
    data.rewind()
    assert data.next()
    return from_proton(data.get_object())


def proton_writes(value: Any) -> bytes:
    data = proton.Data()
    data.put_object(to_proton(value))
    return bytes(data.encode())


lists = st.lists(amqp.simple_values, max_size=4)
compounds = st.one_of(
    lists,
    amqp.maps(amqp.simple_values | lists),
    amqp.arrays(amqp.by_type),
    st.builds(Described, amqp.symbols | amqp.by_type["ulong"], amqp.simple_values | lists),
    st.lists(amqp.maps(amqp.simple_values) | amqp.arrays(amqp.by_type), max_size=3),
    st.builds(
        Array,
        st.just("int"),
        st.lists(amqp.by_type["int"], max_size=3),
        st.lists(amqp.symbols, max_size=1).map(tuple),
    ),
)


@settings(max_examples=EXAMPLES)
@given(amqp.simple_values | compounds)
def test_proton_reads_what_we_write(value: object) -> None:
    encoded = encode_value(value)
    assert encode_value(proton_reads(encoded)) == encoded


@settings(max_examples=EXAMPLES)
@given(amqp.simple_values | compounds)
def test_we_read_what_proton_writes(value: object) -> None:
    theirs = proton_writes(value)
    assert encode_value(decode_value(theirs)) == encode_value(value)


@settings(max_examples=EXAMPLES)
@given(amqp.simple_values | compounds)
def test_we_never_write_more_bytes_than_proton(value: object) -> None:
    assert len(encode_value(value)) <= len(proton_writes(value))


@given(st.lists(amqp.simple_values, min_size=1, max_size=3))
def test_proton_passes_on_maps_that_no_dict_can_hold(keys: list[object]) -> None:
    pairs = Pairs([([place, key], key) for place, key in enumerate(keys)])
    data = proton.Data()
    data.decode(encode_value(pairs))
    assert decode_value(bytes(data.encode())) == pairs


# Proton keeps text in C strings, times as seconds in a double and group-sequence as an int.
plain_characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
plain_texts = st.text(plain_characters, min_size=1, max_size=20)
plain_symbols = st.text("abc/-;=", min_size=1, max_size=20).map(Symbol)
times = st.integers(1, 2**41)
identities = st.one_of(plain_texts, st.uuids(), amqp.by_type["ulong"], st.binary(min_size=1, max_size=20))

messages = st.builds(
    AmqpMessage,
    header=st.builds(
        MessageHeader,
        durable=st.booleans(),
        priority=amqp.unsigned(8),
        ttl=amqp.unsigned(31),
        first_acquirer=st.booleans(),
        delivery_count=amqp.unsigned(31),
    ),
    delivery_annotations=st.dictionaries(plain_symbols, amqp.simple_values, min_size=1, max_size=3),
    message_annotations=st.dictionaries(plain_symbols, amqp.simple_values | lists, min_size=1, max_size=3),
    properties=st.builds(
        MessageProperties,
        message_id=identities,
        user_id=st.binary(min_size=1, max_size=20),
        to=plain_texts,
        subject=plain_texts,
        reply_to=plain_texts,
        correlation_id=identities,
        content_type=plain_symbols,
        content_encoding=plain_symbols,
        absolute_expiry_time=times,
        creation_time=times,
        group_id=plain_texts,
        group_sequence=amqp.unsigned(31),
        reply_to_group_id=plain_texts,
    ),
    application_properties=st.dictionaries(plain_texts, amqp.simple_values, min_size=1, max_size=5),
    body=st.one_of(
        st.builds(AmqpValue, amqp.simple_values.filter(lambda value: value is not None) | compounds),
        st.builds(lambda content: Data((content,)), amqp.binaries),
        st.builds(lambda items: AmqpSequence((items,)), lists),
    ),
)


def fields_of(message: Any) -> AmqpMessage:
    """What proton says of a message that it has read."""
    return AmqpMessage(
        header=MessageHeader(
            durable=message.durable,
            priority=message.priority,
            ttl=round(message.ttl * 1000),
            first_acquirer=message.first_acquirer,
            delivery_count=message.delivery_count,
        ),
        delivery_annotations=from_proton(dict(message.instructions)),
        message_annotations=from_proton(dict(message.annotations)),
        properties=MessageProperties(
            message_id=from_proton(message.id),
            user_id=message.user_id,
            to=message.address,
            subject=message.subject,
            reply_to=message.reply_to,
            correlation_id=from_proton(message.correlation_id),
            content_type=str(message.content_type),
            content_encoding=str(message.content_encoding),
            absolute_expiry_time=round(message.expiry_time * 1000),
            creation_time=round(message.creation_time * 1000),
            group_id=message.group_id,
            group_sequence=message.group_sequence,
            reply_to_group_id=message.reply_to_group_id,
        ),
        application_properties=from_proton(dict(message.properties)),
        body=_body(message.inferred, from_proton(message.body)),
    )


def _body(inferred: bool, content: Any) -> Data | AmqpSequence | AmqpValue:
    if not inferred:
        return AmqpValue(content)
    return Data((content,)) if isinstance(content, bytes) else AmqpSequence((content,))


@settings(max_examples=EXAMPLES)
@given(messages)
def test_proton_reads_every_section_of_our_messages(message: AmqpMessage) -> None:
    theirs = proton.Message()
    theirs.decode(message.encode())
    assert fields_of(theirs) == message


@settings(max_examples=EXAMPLES)
@given(messages)
def test_we_read_every_section_of_protons_messages(message: AmqpMessage) -> None:
    theirs = proton.Message()
    theirs.decode(message.encode())
    assert with_defaults(AmqpMessage.decode(bytes(theirs.encode()))) == with_defaults(message)


def with_defaults(message: AmqpMessage) -> AmqpMessage:
    """Proton leaves out a header's field that has AMQP's default value: put it in again."""
    header = message.header or MessageHeader()
    return message.replace(
        header=MessageHeader(
            durable=bool(header.durable),
            priority=4 if header.priority is None else header.priority,
            ttl=header.ttl or 0,
            first_acquirer=bool(header.first_acquirer),
            delivery_count=header.delivery_count or 0,
        )
    )


def test_an_id_of_each_type_is_the_same_to_both() -> None:
    for identity in ("text", UUID(int=5), ULong(2**64 - 1), b"\x00\x01"):
        theirs = proton.Message()
        theirs.id = to_proton(identity)
        properties = AmqpMessage.decode(bytes(theirs.encode())).properties
        assert properties is not None
        assert properties.message_id == identity
        assert type(properties.message_id) is type(identity)

"""Hypothesis strategies for AMQP values and messages."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

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
)


def unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def single(value: float) -> Float:
    """The nearest number that 32 bits can hold."""
    return Float(struct.unpack(">f", struct.pack(">f", value))[0])


texts = st.text(max_size=20) | st.text("aü", min_size=250, max_size=260)
symbols = st.text(st.characters(max_codepoint=127), max_size=20).map(Symbol)
binaries = st.binary(max_size=20) | st.binary(min_size=250, max_size=260)
characters = st.characters(exclude_categories=["Cs"]).map(Char)

by_type: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "ubyte": unsigned(8).map(UByte),
    "ushort": unsigned(16).map(UShort),
    "uint": (unsigned(8) | unsigned(32)).map(UInt),
    "ulong": (unsigned(8) | unsigned(64)).map(ULong),
    "byte": signed(8).map(Byte),
    "short": signed(16).map(Short),
    "int": (signed(8) | signed(32)).map(Int),
    "long": signed(8) | signed(64),
    "float": st.floats(width=32, allow_nan=False).map(single),
    "double": st.floats(allow_nan=False),
    "decimal32": st.binary(min_size=4, max_size=4).map(Decimal32),
    "decimal64": st.binary(min_size=8, max_size=8).map(Decimal64),
    "decimal128": st.binary(min_size=16, max_size=16).map(Decimal128),
    "char": characters,
    "timestamp": signed(64).map(Timestamp),
    "uuid": st.uuids(),
    "binary": binaries,
    "string": texts,
    "symbol": symbols,
}

simple_values = st.one_of(*by_type.values())


def arrays(of: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Array]:
    return st.one_of(
        [st.builds(Array, st.just(name), st.lists(items, max_size=4)) for name, items in of.items()]
    )


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(texts | symbols | by_type["ulong"], values, max_size=4)


def compounds(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(values, max_size=4)
    return st.one_of(
        lists,
        maps(values),
        arrays({**by_type, "list": lists, "map": maps(values), "array": arrays(by_type)}),
        st.builds(Array, st.just("string"), st.lists(texts, max_size=3), st.lists(symbols).map(tuple)),
        st.builds(Described, symbols | by_type["ulong"], values),
        st.lists(values, min_size=1, max_size=2).map(
            lambda keys: Pairs([([place, key], key) for place, key in enumerate(keys)])
        ),
    )


values = st.recursive(simple_values, compounds, max_leaves=8)

identities = st.one_of(texts, by_type["uuid"], by_type["ulong"], binaries)

headers = st.builds(
    MessageHeader,
    durable=st.none() | st.booleans(),
    priority=st.none() | unsigned(8),
    ttl=st.none() | unsigned(32),
    first_acquirer=st.none() | st.booleans(),
    delivery_count=st.none() | unsigned(32),
)

properties = st.builds(
    MessageProperties,
    message_id=st.none() | identities,
    user_id=st.none() | binaries,
    to=st.none() | texts,
    subject=st.none() | texts,
    reply_to=st.none() | texts,
    correlation_id=st.none() | identities,
    content_type=st.none() | symbols,
    content_encoding=st.none() | symbols,
    absolute_expiry_time=st.none() | signed(64),
    creation_time=st.none() | signed(64),
    group_id=st.none() | texts,
    group_sequence=st.none() | unsigned(32),
    reply_to_group_id=st.none() | texts,
)


def annotations(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.dictionaries(symbols, of, max_size=3)


property_names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
"""Any that the bridge takes: none has a control character."""
application_properties = st.none() | st.dictionaries(property_names, simple_values, max_size=5)


def bodies(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(),
        st.builds(Data, st.lists(binaries, min_size=1, max_size=3).map(tuple)),
        st.builds(AmqpSequence, st.lists(st.lists(of, max_size=3), min_size=1, max_size=3).map(tuple)),
        st.builds(AmqpValue, of),
    )


messages = st.builds(
    AmqpMessage,
    header=st.none() | headers,
    delivery_annotations=annotations(values),
    message_annotations=annotations(values),
    properties=st.none() | properties,
    application_properties=application_properties,
    body=bodies(values),
    footer=annotations(values),
)

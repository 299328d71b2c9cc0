"""AMQP 1.0: its types and its messages, to and from bytes. No sockets, no Spark.

A message is read as deep as it is needed, and each depth costs only what it does:

==============================  ==============================================================
`boundaries`                    where each section lies
`index`                         what the journal's headers need, and where the body lies
`AmqpMessage.decode`            everything, as objects
==============================  ==============================================================

`AmqpMessage.encode`, `encode_value` and `decode_value` are the other half. Bad bytes raise `DecodeError` and
nothing else, in time linear in their length; values that AMQP cannot carry raise `EncodeError`.

The modules that messages pass through are compiled where the package was built with a C compiler; `COMPILED`
tells.
"""

from __future__ import annotations

from isthmus.codecs.amqp import reader as _reader
from isthmus.codecs.amqp.boundary import Section, boundaries
from isthmus.codecs.amqp.indexer import index
from isthmus.codecs.amqp.message import AmqpMessage
from isthmus.codecs.amqp.reader import Reader, decode_value, decode_values
from isthmus.codecs.amqp.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    AmqpSequence,
    AmqpValue,
    Data,
    Index,
    MessageHeader,
    MessageProperties,
)
from isthmus.codecs.amqp.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from isthmus.codecs.amqp.writer import encode_value

COMPILED: bool = not _reader.__file__.endswith(".py")
"""Whether the compiled form is running."""

__all__ = [
    "AMQP_SEQUENCE",
    "AMQP_VALUE",
    "APPLICATION_PROPERTIES",
    "COMPILED",
    "DATA",
    "DELIVERY_ANNOTATIONS",
    "FOOTER",
    "HEADER",
    "MESSAGE_ANNOTATIONS",
    "PROPERTIES",
    "AmqpMessage",
    "AmqpSequence",
    "AmqpValue",
    "Array",
    "Byte",
    "Char",
    "Data",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Described",
    "Float",
    "Index",
    "Int",
    "MessageHeader",
    "MessageProperties",
    "Pairs",
    "Reader",
    "Section",
    "Short",
    "Symbol",
    "Timestamp",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "boundaries",
    "decode_value",
    "decode_values",
    "encode_value",
    "index",
]

"""The message annotations of the bridge: a record's place in Kafka, chosen by a sender, told to a receiver.

==========================  ==================  =====================================================
annotation                  from a sender       to a receiver
==========================  ==================  =====================================================
``x-opt-bridge.partition``  any integer type    int: the record's partition
``x-opt-bridge.offset``     not looked at       long: the record's offset
``x-opt-bridge.key``        string              string: the record's key; null where it has none
``x-opt-bridge.topic``      not looked at       string: the topic
==========================  ==================  =====================================================

A sender may also write ``partition`` and ``key`` without the prefix, which outranks that. A receiver is told
the truth: what a converted document says of these four, or of ``partition``, ``offset`` and ``key`` without
the prefix, is replaced.

The trace that a record belongs to is told as W3C's draft for AMQP has it: in the application properties, or,
where the message has brought another one from its sender, in the annotations, which readers look at first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from isthmus.codecs.amqp import (
    AmqpMessage,
    Byte,
    Int,
    MessageProperties,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)
from isthmus.converters.contract import ReceivedRecord
from isthmus.errors import ConversionFailure
from isthmus.journal.layout import KafkaHeaders
from isthmus.message import TRACE_CONTEXT

PARTITION: Final = Symbol("x-opt-bridge.partition")
OFFSET: Final = Symbol("x-opt-bridge.offset")
KEY: Final = Symbol("x-opt-bridge.key")
TOPIC: Final = Symbol("x-opt-bridge.topic")

PLAIN: Final = {Symbol("partition"): PARTITION, Symbol("offset"): OFFSET, Symbol("key"): KEY}
"""The names without the prefix, and what each is short for."""
_PARTITIONS: Final = (PARTITION, Symbol("partition"))
_KEYS: Final = (KEY, Symbol("key"))

_INTEGERS: Final = frozenset({int, Int, Short, Byte, ULong, UInt, UShort, UByte})
_MAX_PARTITION: Final = 2**31 - 1


class Choice(NamedTuple):
    """The partition and key that a sender asks for."""

    partition: int | None = None
    key: str | None = None


_NO_CHOICE: Final = Choice()


def chosen(annotations: Mapping[Any, Any] | None) -> Choice:
    """What a message's annotations ask for; a null asks for nothing.

    Raises `ConversionFailure` for a partition that is no integer or cannot be one, and for a key that is no
    string.
    """
    if not annotations:
        return _NO_CHOICE
    partition: int | None = None
    key: str | None = None
    for name in _PARTITIONS:
        if partition is None and (asked := annotations.get(name)) is not None:
            partition = _partition(name, asked)
    for name in _KEYS:
        if key is None and (asked := annotations.get(name)) is not None:
            if type(asked) not in (str, Symbol):
                raise ConversionFailure(f"{name!s} must be a string, not a {_kind(asked)}")
            key = str(asked)
    return _NO_CHOICE if partition is None and key is None else Choice(partition, key)


def _partition(name: str, asked: Any) -> int:
    if type(asked) not in _INTEGERS:
        raise ConversionFailure(f"{name!s} must be an integer, not a {_kind(asked)}")
    if not 0 <= asked <= _MAX_PARTITION:
        raise ConversionFailure(f"{name!s} is {asked}, which no partition can be")
    return int(asked)


def _kind(value: object) -> str:
    return {"bytes": "binary", "bool": "boolean", "dict": "map"}.get(
        type(value).__name__, type(value).__name__.lower()
    )


def place_of(record: ReceivedRecord) -> dict[str, Any]:
    """The four annotations of a record. A key that is not UTF-8 is shown as Kafka's own text reader does."""
    key = None if record.key is None else record.key.decode(errors="replace")
    return {
        PARTITION: Int(record.partition),
        OFFSET: record.offset,
        KEY: key,
        TOPIC: record.topic,
    }


def received(message: AmqpMessage, address: str, record: ReceivedRecord) -> AmqpMessage:
    """The message as a receiver at that address gets it: with the record's place, and an address."""
    place = place_of(record)
    annotations = {**(message.message_annotations or {}), **place}
    for name, told in PLAIN.items():
        if name in annotations:
            annotations[name] = place[told]
    properties = message.properties or MessageProperties()
    if properties.to is None:
        properties = replace(properties, to=address)
    own = message.application_properties
    for field, value in trace_of(record.headers).items():
        if own is None or field not in own:
            own = {**(own or {}), field: value}
        elif own[field] != value:
            annotations[Symbol(field)] = value
    return message.replace(properties=properties, message_annotations=annotations, application_properties=own)


def trace_of(headers: KafkaHeaders) -> dict[str, str]:
    """The trace context among Kafka headers, as text; what is none is left out."""
    found = {name: value for name, value in headers if name in TRACE_CONTEXT and value}
    return {name: value.decode() for name, value in found.items() if value.isascii()}

"""The message annotations of the bridge: a record's place in Kafka, chosen by a sender, told to a receiver.

==========================  ==================  =====================================================
annotation                  from a sender       to a receiver
==========================  ==================  =====================================================
``x-opt-bridge.partition``  any integer type    int: the record's partition
``x-opt-bridge.offset``     not looked at       long: the record's offset
``x-opt-bridge.key``        string              string: the record's key; null where it has none
``x-opt-bridge.topic``      not looked at       string: the topic
==========================  ==================  =====================================================

A receiver is told the truth: what a converted document says of these four is replaced.
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

PARTITION: Final = Symbol("x-opt-bridge.partition")
OFFSET: Final = Symbol("x-opt-bridge.offset")
KEY: Final = Symbol("x-opt-bridge.key")
TOPIC: Final = Symbol("x-opt-bridge.topic")

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
    if not annotations or not (PARTITION in annotations or KEY in annotations):
        return _NO_CHOICE
    partition, key = annotations.get(PARTITION), annotations.get(KEY)
    if partition is not None:
        if type(partition) not in _INTEGERS:
            raise ConversionFailure(f"{PARTITION!s} must be an integer, not a {_kind(partition)}")
        if not 0 <= partition <= _MAX_PARTITION:
            raise ConversionFailure(f"{PARTITION!s} is {partition}, which no partition can be")
        partition = int(partition)
    if key is not None:
        if type(key) not in (str, Symbol):
            raise ConversionFailure(f"{KEY!s} must be a string, not a {_kind(key)}")
        key = str(key)
    return Choice(partition, key)


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
    """The message as a receiver at that address gets it: sent there, and with the record's place."""
    return message.replace(
        properties=replace(message.properties or MessageProperties(), to=address),
        message_annotations={**(message.message_annotations or {}), **place_of(record)},
    )

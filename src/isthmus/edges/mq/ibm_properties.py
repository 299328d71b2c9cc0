"""Message properties with their types, through ``ibmmq``.

The binding hands out a property's value without its type. An integer tells its type by its length, but a
boolean and a 32-bit integer have the same length: a 0 or 1 of that length is asked for once more as text,
which is TRUE or FALSE for a boolean, and a digit for a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from isthmus.codecs.bridge_message import Property, PropertyType
from isthmus.edges.mq import reasons

ROOM_BYTES: Final = 8 * 1024
"""The first guess at how long a value may be; one that is longer is asked for again."""

_UTF8: Final = 1208

_INTEGERS: Final = {1: PropertyType.INT8, 2: PropertyType.INT16, 4: PropertyType.INT32, 8: PropertyType.INT64}
_FLOATS: Final = {4: PropertyType.FLOAT32, 8: PropertyType.FLOAT64}

_TYPE_NAMES: Final = {
    PropertyType.STRING: "MQTYPE_STRING",
    PropertyType.INT8: "MQTYPE_INT8",
    PropertyType.INT16: "MQTYPE_INT16",
    PropertyType.INT32: "MQTYPE_INT32",
    PropertyType.INT64: "MQTYPE_INT64",
    PropertyType.FLOAT32: "MQTYPE_FLOAT32",
    PropertyType.FLOAT64: "MQTYPE_FLOAT64",
    PropertyType.BOOL: "MQTYPE_BOOLEAN",
    PropertyType.BYTES: "MQTYPE_BYTE_STRING",
    PropertyType.NULL: "MQTYPE_NULL",
}


def write_properties(mq: ModuleType, handle: Any, properties: Mapping[str, Property]) -> None:
    """Set all of the properties. Raises the binding's error for a name or value that MQ refuses."""
    for name, property in properties.items():
        value = property.value
        length = 0
        if isinstance(value, str):
            length = len(value.encode(errors="ignore"))  # which is how the binding encodes it
        elif isinstance(value, bytes):
            length = len(value)
        handle.properties.set(
            name.encode(),
            value,
            property_type=getattr(mq.CMQC, _TYPE_NAMES[property.type]),
            value_length=length,
            smpo=mq.SMPO(ValueCCSID=_UTF8),
        )


def read_properties(mq: ModuleType, handle: Any) -> dict[str, Property]:
    """All properties of the message that was got into the handle, in MQ's order."""
    properties: dict[str, Property] = {}
    step = mq.CMQC.MQIMPO_INQ_FIRST
    while (found := _inquire(mq, handle, b"%", step)) is not None:
        value, length, name = found
        properties[name] = _typed(mq, handle, value, length)
        step = mq.CMQC.MQIMPO_INQ_NEXT
    return properties


def _inquire(
    mq: ModuleType, handle: Any, name: bytes, step: int, type: int = 0
) -> tuple[Any, int, str] | None:
    """A property's value, its length and its name; None when there are no more."""
    constants = mq.CMQC
    room = ROOM_BYTES
    while True:
        options = mq.IMPO(Options=step | constants.MQIMPO_CONVERT_VALUE, RequestedCCSID=_UTF8)
        try:
            value, length, returned, code, reason = mq.ibmmqc.MQINQMP(
                handle.conn_handle,
                handle.get_handle(),
                options.pack(),
                name,
                mq.PD().pack(),
                type,
                room,
            )
        except UnicodeDecodeError:
            # Cut off within a character: the binding decodes before it looks at the reason.
            code, reason, length = constants.MQCC_WARNING, reasons.PROPERTY_VALUE_TOO_BIG, room * 8
        if code == constants.MQCC_OK:
            return value, length, returned or name.decode()
        if reason == reasons.PROPERTY_NOT_AVAILABLE:
            return None
        if reason != reasons.PROPERTY_VALUE_TOO_BIG or room >= length:
            raise mq.MQMIError(code, reason)
        room = length
        if step == constants.MQIMPO_INQ_NEXT:
            step = constants.MQIMPO_INQ_PROP_UNDER_CURSOR  # the cursor has moved on already


def _typed(mq: ModuleType, handle: Any, value: Any, length: int) -> Property:
    match value:
        case None:
            return Property(PropertyType.NULL, None)
        case bytes():
            return Property(PropertyType.BYTES, value)
        case str():
            return Property(PropertyType.STRING, value)
        case float():
            return Property(_FLOATS[length], value)
        case 0 | 1 if length == 4:
            constants = mq.CMQC
            step = constants.MQIMPO_INQ_PROP_UNDER_CURSOR | constants.MQIMPO_CONVERT_TYPE
            told = _inquire(mq, handle, b"%", step, constants.MQTYPE_STRING)
            if told is not None and str(told[0]).upper() in ("TRUE", "FALSE"):
                return Property(PropertyType.BOOL, bool(value))
            return Property(PropertyType.INT32, value)
        case _:
            return Property(_INTEGERS[length], int(value))

"""The ``jms`` form: the body as it is, every header as ``jms.<name>``, typed by ``jms.types``.

Text and bytes go on unchanged; a message without a body becomes a record without a value. Map, stream and
object messages have no form here, and an object is never deserialised.
"""

from __future__ import annotations

from isthmus.errors import ConversionFailure
from isthmus.message import Body, BodyKind

CONVERTIBLE = (BodyKind.TEXT, BodyKind.BYTES, BodyKind.EMPTY)


def kafka_value(body: Body, value: bytes | None) -> bytes | None:
    """The Kafka value of a message. Raises `ConversionFailure` for a body that is neither text nor bytes."""
    if body.kind not in CONVERTIBLE:
        raise ConversionFailure(f"a {body.kind} message has no jms form")
    return body.slice(value)

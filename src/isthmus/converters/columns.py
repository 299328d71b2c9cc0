"""The built-in converters as Spark columns: the same bytes as `journaled`, without Python for a record."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from isthmus.converters.contract import NoBody
from isthmus.converters.jms import CONVERTIBLE, DESTINATION
from isthmus.converters.journaled import BASE64_FOLLOWS, WITHOUT_BODY
from isthmus.converters.registry import BODY_FORMS
from isthmus.journal import layout
from isthmus.journal.columns import MessageColumns
from isthmus.message import BodyKind


class Converted(NamedTuple):
    """A converter's result: the value, or why there is none."""

    value: Column
    error: Column
    """Null when there is a value."""


def convert(name: str, message: MessageColumns, no_body: NoBody = NoBody.NULL) -> Converted:
    """What a built-in converter makes of a message; see `isthmus.converters.journaled.kafka_value`.

    A record of another topic that has no value is a tombstone, and stays one.
    """
    converters = {
        "jms": _jms,
        "default": _default,
        "raw": _raw,
        "json": _json,
        DESTINATION: _destination,
    }
    value, error = converters[name](message)
    if name in BODY_FORMS and no_body is not NoBody.NULL:
        missing = value.isNull() & ~message.protocol.eqNullSafe("kafka")
        if no_body is NoBody.FAIL:
            error = F.coalesce(error, F.when(missing, WITHOUT_BODY))
        else:
            value = F.when(missing, F.lit(b"")).otherwise(value)
    return Converted(value, error)


def _jms(message: MessageColumns) -> Converted:
    kind = message.body_kind
    refused = F.concat(F.lit("a message of the kind "), kind, F.lit(" has no jms form"))
    return Converted(
        value=message.body_bytes,
        error=F.when(~kind.isin([kind.value for kind in CONVERTIBLE]), refused),
    )


def is_encoded(message: MessageColumns) -> Column:
    """Whether the form of a JMS destination is the encoded message; see `isthmus.converters.jms.ENCODED`."""
    convertible = message.body_kind.isin([kind.value for kind in CONVERTIBLE])
    return ~convertible & (message.protocol == "amqp")


def _destination(message: MessageColumns) -> Converted:
    value, error = _jms(message)
    encoded = is_encoded(message)
    return Converted(value=F.when(encoded, F.col("value")).otherwise(value), error=F.when(~encoded, error))


def _raw(message: MessageColumns) -> Converted:
    return Converted(
        value=F.col("value"),
        error=F.when(message.protocol != "amqp", "only a message that came over AMQP has a raw form"),
    )


def _default(message: MessageColumns) -> Converted:
    kind, structured = message.body_kind, message.conversion(layout.JSON_VALUE)
    needs_json = kind.isin(BodyKind.MAP.value, BodyKind.STREAM.value, BodyKind.OTHER.value)
    missing = F.concat(F.lit("the journal has no JSON for this "), kind, F.lit(" message"))
    return Converted(
        value=F.coalesce(structured, message.body_bytes),
        error=F.when(needs_json & structured.isNull(), missing),
    )


def _json(message: MessageColumns) -> Converted:
    head = message.conversion(layout.JSON_DOCUMENT).cast("string")
    structured = message.conversion(layout.JSON_VALUE).cast("string")
    body, default_error = _default(message)
    data, binary = (head.endswith(each.decode()) for each in BASE64_FOLLOWS)
    is_string = ~(data | binary)
    # to_json is Spark's only way to write a string of JSON, and takes no bare one.
    text = F.to_json(F.struct(body.cast("string").alias("s")))
    section = (
        F.when(structured.isNotNull(), structured)
        .when(body.isNull(), "null")
        .when(is_string, F.substring(text, len('{"s":') + 1, F.octet_length(text)))
        .otherwise(F.concat(F.lit('"'), F.base64(body), F.lit('"}')))
    )
    closing = F.when(structured.isNull() & body.isNotNull(), "}").otherwise("}}")
    is_whole = head.endswith("}")
    whole = F.when(is_whole, head).otherwise(F.concat(head, section, closing))
    return Converted(
        value=whole.cast("binary"),
        error=F.when(head.isNull(), "the message was journaled before any route asked for json")
        .when(is_whole, None)
        .when(default_error.isNotNull(), default_error)
        .when(is_string & structured.isNull() & ~F.is_valid_utf8(body), "the text is not UTF-8"),
    )

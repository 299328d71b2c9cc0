"""Converters that users wrote, run by Spark in Arrow batches: the only Python that a record can meet here.

In: rows with a route. Out: the same rows with ``by_user``, what the class of the row's route made of the
message, or why it made nothing; null for the rows of all other routes. Spark's real-time mode takes no
Python, so that a plan with such a route runs in micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from isthmus.converters import MessageConverter, converter
from isthmus.converters.journaled import as_amqp
from isthmus.errors import ConversionFailure, SoftFailure
from isthmus.journal import layout
from isthmus.routing.plan import RoutingPlan

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
BY_USER = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("key", StringType()),
        StructField("value", BinaryType()),
        StructField("headers", ArrayType(_HEADER)),
        StructField("error_code", StringType()),
        StructField("error_message", StringType()),
    ]
)


def converted_by_users(routed: DataFrame, plan: RoutingPlan) -> DataFrame:
    """The rows with the column ``by_user``, if the plan has a route that needs it."""
    classes = {place: route.convert for place, route in enumerate(plan.routes) if route.has_own_converter}
    if not classes:
        return routed
    schema = StructType([*routed.schema.fields, StructField("by_user", BY_USER)])
    return routed.mapInArrow(partial(_convert_batches, plan.journal_topic, classes), schema)


def _convert_batches(
    journal_topic: str, classes: dict[int, str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    converters = {place: converter(name) for place, name in classes.items()}
    arrow_type = to_arrow_type(BY_USER)
    for batch in batches:
        taken = ("topic", "key", "value", "headers", "route")
        rows = zip(*(batch.column(name).to_pylist() for name in taken), strict=True)
        made = [
            pa.scalar(None, arrow_type)
            if route not in converters
            else _checked(
                _convert(converters[route], topic, layout.Record(key, value, _pairs(headers)), journal_topic),
                arrow_type,
            )
            for topic, key, value, headers, route in rows
        ]
        yield batch.append_column("by_user", pa.array(made, type=arrow_type))


def _checked(made: dict[str, Any], arrow_type: pa.DataType) -> pa.Scalar:
    """What a user's class made, if Kafka takes it: a partition that is a number, a key that is text, …"""
    import pyarrow as pa

    try:
        return pa.scalar(made, arrow_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = f"the converter made what is no Kafka record: {error}"
        return pa.scalar({"error_code": ConversionFailure.code, "error_message": said}, arrow_type)


def _pairs(headers: list[dict[str, Any]] | None) -> layout.KafkaHeaders:
    return [(each["key"], each["value"]) for each in headers or ()]


def _convert(
    convert: MessageConverter, topic: str, record: layout.Record, journal_topic: str
) -> dict[str, Any]:
    try:
        journaled = topic == journal_topic
        message = layout.decode(record).message if journaled else layout.adopt(topic, record)
        made = convert.to_kafka_record(as_amqp(message))
        return {
            "partition": made.partition,
            "key": made.key,
            "value": made.value,
            "headers": [{"key": name, "value": value} for name, value in made.headers],
        }
    except SoftFailure as failure:
        return {"error_code": failure.code, "error_message": str(failure)}
    except Exception as error:  # headers that are no pairs: that message's failure, not the bridge's
        said = f"the converter made what is no Kafka record: {error}"
        return {"error_code": ConversionFailure.code, "error_message": said}

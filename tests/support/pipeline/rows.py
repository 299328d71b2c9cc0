"""Kafka records as rows of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from isthmus.journal.layout import Record

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)


def source_rows(spark: SparkSession, records: Sequence[tuple[str, Record]]) -> DataFrame:
    """Rows for (topic, record) pairs; a record's place in the list is its offset in partition 0."""
    now = datetime.now(UTC)
    rows = [
        (record.key, record.value, topic, 0, offset, now, 0, list(record.headers) or None)
        for offset, (topic, record) in enumerate(records)
    ]
    return spark.createDataFrame(rows, SCHEMA)

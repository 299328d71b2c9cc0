"""The bound on a record's size, against Kafka's own format worked out byte by byte."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.journal.layout import KafkaHeaders, Record
from isthmus.routing.size import record_size

BATCH_HEADER_BYTES = 61
"""From base offset to the number of records, in record batches of magic 2."""


def varint_bytes(value: int) -> int:
    """How long a signed number is in Kafka's format: zigzag, seven bits a byte."""
    return max(1, -(-((value << 1) ^ (value >> 63)).bit_length() // 7))


def field_bytes(data: bytes | None) -> int:
    return varint_bytes(-1) if data is None else varint_bytes(len(data)) + len(data)


def batch_bytes(record: Record) -> int:
    """The size of a batch with this record alone: attributes, two deltas, key, value and headers."""
    headers = sum(field_bytes(name.encode()) + field_bytes(value) for name, value in record.headers)
    content = 1 + varint_bytes(0) * 2 + field_bytes(record.key) + field_bytes(record.value)
    content += varint_bytes(len(record.headers)) + headers
    return BATCH_HEADER_BYTES + varint_bytes(content) + content


records = st.builds(
    Record,
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=200)), max_size=10),
)


@settings(max_examples=50)
@given(records)
def test_what_passes_here_passes_in_kafka_and_little_else_is_refused(record: Record) -> None:
    slack = record_size(record) - batch_bytes(record)
    assert 0 <= slack <= 30 + 10 * len(record.headers)


def test_names_count_in_bytes_and_not_in_characters() -> None:
    ascii_header: KafkaHeaders = [("u", b"")]
    assert record_size(Record(None, None, [("ü", b"")])) == record_size(Record(None, None, ascii_header)) + 1


def test_a_large_value_counts_in_full() -> None:
    assert record_size(Record(None, bytes(10**6), [])) - record_size(Record(None, b"", [])) == 10**6

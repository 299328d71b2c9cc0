"""How large a record is to Kafka: the figure that a topic's ``max.message.bytes`` is held against.

Kafka measures the batch that a record travels in. These are the upper bounds that its own producer
reckons with, so that what passes here passes there: a batch of one record, uncompressed, with every
length at its longest.
"""

from __future__ import annotations

from isthmus.journal.layout import Record

RECORD_OVERHEAD = 61 + 21 + 5
"""The batch's header, the record's, and the number of headers."""
HEADER_OVERHEAD = 5 + 5
"""The lengths of a header's name and value."""


def record_size(record: Record) -> int:
    """An upper bound of the record's size in bytes."""
    headers = sum(HEADER_OVERHEAD + len(name.encode()) + len(value or b"") for name, value in record.headers)
    return RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers

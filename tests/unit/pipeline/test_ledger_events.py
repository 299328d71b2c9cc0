"""What the ledger makes of a transaction's records: the plain ones that the router takes after the commit."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.routing import message

from isthmus.journal import layout
from isthmus.journal.layout import AddressTopic, Entry, Op
from isthmus.ledger.events import unpack_record
from isthmus.pipeline.ledger_tasks import COLUMNS, events

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ORDERS = AddressTopic("orders", 4, 10_000, is_destination=True)


def batch_of(record: layout.Record) -> pa.RecordBatch:
    """A record of the transaction ``tx``, its first, as Spark hands it over."""
    assert record.key is not None
    row = [Op.ADD_TX.value, 0, 7, 1, record.key, "s1", "tx", 0, 0, 0]
    assert len(row) == len(COLUMNS)
    columns = [pa.array([value]) for value in row]
    headers = pa.array([[{"key": name, "value": value} for name, value in record.headers]], HEADERS)
    names = [*COLUMNS, "value", "headers"]
    return pa.RecordBatch.from_arrays([*columns, pa.array([record.value], pa.binary()), headers], names)


@pytest.mark.parametrize("topic", [None, ORDERS])
@pytest.mark.parametrize("conversion", [(), ((layout.KEY, b"k"),)])
def test_a_committed_message_says_what_it_said_in_the_transaction(
    topic: AddressTopic | None, conversion: layout.KafkaHeaders
) -> None:
    sent = Entry(Op.ADD, message(region="EU"), conversion=list(conversion), topic=topic)
    in_transaction = layout.in_transaction(layout.encode(sent), "tx", "s1", 0)
    assert layout.decode(in_transaction).topic == topic
    [event] = events(batch_of(in_transaction))
    assert layout.decode(unpack_record(event.record)) == sent

"""An AMQP message as an entry of the journal: what it asks for is written down for the converters."""

from __future__ import annotations

import pytest

from isthmus import AmqpMessage, AmqpValue
from isthmus.codecs.amqp import Int
from isthmus.codecs.jms import to_message
from isthmus.edges.amqp.entry import entry_of
from isthmus.journal.layout import KEY, PARTITION


@pytest.mark.parametrize("prefix", ["x-opt-bridge.", ""])
@pytest.mark.parametrize(
    ("name", "value", "noted"), [("partition", Int(3), (PARTITION, b"3")), ("key", "k-7", (KEY, b"k-7"))]
)
def test_a_partition_or_key_that_a_sender_asks_for_is_noted_under_either_name(
    prefix: str, name: str, value: object, noted: tuple[str, bytes]
) -> None:
    data = AmqpMessage(message_annotations={prefix + name: value}, body=AmqpValue("x")).encode()
    entry = entry_of(to_message(data, target="orders"), data, as_json=False)
    assert tuple(entry.conversion) == (noted,)

"""The ``json`` form: all of a message that applications see, as a JSON document that any consumer can read.

From AMQP, the properties, application properties, message annotations and body; their types are kept beside
them, so that they come back. Header, delivery annotations and footer are lost: they are for the way, not for
the application. From Kafka, the document's message with the record's true place; without ``to`` it is sent to
the receiver's address. A record without a value is a message without a body.
"""

from __future__ import annotations

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters.annotations import chosen, received
from isthmus.converters.canonical import canonical
from isthmus.converters.contract import KafkaRecord, ReceivedRecord
from isthmus.converters.json_document import read_document, write_document


class JsonConverter:
    """The converter. ``compat`` also reads data that an earlier bridge encoded in Base64 twice.

    Data that is Base64 text itself is then decoded once too often: only for topics that hold such documents.
    """

    def __init__(self, *, compat: bool = False) -> None:
        self._compat = compat

    def to_kafka_record(self, message: AmqpMessage) -> KafkaRecord:
        """The record whose value is the message's document."""
        message = canonical(message)
        partition, key = chosen(message.message_annotations)
        return KafkaRecord(partition, key, write_document(message).encode())

    def to_amqp_message(self, address: str, record: ReceivedRecord) -> AmqpMessage:
        """The message of a record's document. Raises `DecodeError` for what is not one."""
        if record.value is None:
            return received(AmqpMessage(), address, record)
        return received(read_document(record.value, compat=self._compat), address, record)


_converter = JsonConverter()
to_kafka_record = _converter.to_kafka_record
to_amqp_message = _converter.to_amqp_message

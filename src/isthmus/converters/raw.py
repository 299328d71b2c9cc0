"""The ``raw`` form: the encoded AMQP message itself.

From AMQP, the bytes as they arrived. From Kafka, the message that they encode, with the record's true place;
without ``to`` it is sent to the receiver's address. Nothing else is changed. A record without a value is a
message without a body.
"""

from __future__ import annotations

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters.annotations import chosen, received
from isthmus.converters.canonical import encoded
from isthmus.converters.contract import KafkaRecord, ReceivedRecord


def to_kafka_record(message: AmqpMessage) -> KafkaRecord:
    """The record whose value is the message's encoding."""
    partition, key = chosen(message.message_annotations)
    return KafkaRecord(partition, key, encoded(message))


def to_amqp_message(address: str, record: ReceivedRecord) -> AmqpMessage:
    """The message that a record's value encodes. Raises `DecodeError` for any other bytes."""
    message = AmqpMessage() if record.value is None else AmqpMessage.decode(record.value)
    return received(message, address, record)

"""The ``default`` form: the body and nothing else.

From AMQP, text as UTF-8, bytes as they are, the data sections joined; any other value as JSON, in the form
that `isthmus.converters.json` has for it, without its types. A null, or no body, is a record without a value.
Everything else of the message is lost, but for the partition and key that its annotations ask for.

From Kafka, the value as data, sent to the receiver's address and with the record's place. A record without a
value is a message without a body.
"""

from __future__ import annotations

from isthmus.codecs.amqp import AmqpMessage, AmqpValue, Data
from isthmus.codecs.amqp.sections import Body
from isthmus.converters.annotations import chosen, received
from isthmus.converters.canonical import canonical
from isthmus.converters.contract import KafkaRecord, ReceivedRecord
from isthmus.converters.json_document import plain_json


def to_kafka_record(message: AmqpMessage) -> KafkaRecord:
    """The record whose value is the message's body."""
    message = canonical(message)
    partition, key = chosen(message.message_annotations)
    return KafkaRecord(partition, key, _value(message.body))


def _value(body: Body | None) -> bytes | None:
    match body:
        case None:
            return None
        case Data() as data:
            return data.content
        case AmqpValue(value) if value is None or type(value) is bytes:
            return value
        case AmqpValue(value) if type(value) is str:
            return value.encode()
        case _:
            return plain_json(body).encode()


def to_amqp_message(address: str, record: ReceivedRecord) -> AmqpMessage:
    """The message whose body is the record's value."""
    body = None if record.value is None else Data((record.value,))
    return received(AmqpMessage(body=body), address, record)

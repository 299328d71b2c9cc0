"""Isthmus: a bridge between message systems and Kafka.

::

    senders ──► journal (Kafka) ──► router (Spark) ──► Kafka topics ──► receivers
                                        └──► dead letters

Every message lands in the journal exactly as it arrived. The router decides where it goes, as a native Spark
plan without Python per record. ``docs/architecture.md`` says where things are.

The message formats are a library too, which needs neither Spark nor Kafka::

    AMQP 1.0 bytes ◄──► AmqpMessage ◄──► converters.default, .json, .raw, .jms ◄──► Kafka record
    NATS-MQ bytes  ◄──► BridgeMessage

``docs/converters.md`` and ``docs/message-format.md`` show how.
"""

from isthmus import converters
from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Data,
    MessageHeader,
    MessageProperties,
)
from isthmus.codecs.bridge_message import BridgeMessage
from isthmus.converters import KafkaRecord, MessageConverter, ReceivedRecord
from isthmus.errors import IsthmusError, SoftFailure

__all__ = [
    "AmqpMessage",
    "AmqpSequence",
    "AmqpValue",
    "BridgeMessage",
    "Data",
    "IsthmusError",
    "KafkaRecord",
    "MessageConverter",
    "MessageHeader",
    "MessageProperties",
    "ReceivedRecord",
    "SoftFailure",
    "converters",
]

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

import os
import sys
from typing import TYPE_CHECKING

if os.environ.get("ISTHMUS_PURE_PYTHON", "") not in ("", "0"):
    from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

    _from_source = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))

    def _of_this_package(folder: str) -> "PathEntryFinder":
        """Finds nothing but source in the folders of this package: not what was compiled from it."""
        if not folder.startswith(__path__[0]):
            raise ImportError
        return _from_source(folder)

    sys.path_hooks.insert(0, _of_this_package)
    sys.path_importer_cache.pop(__path__[0], None)

from isthmus.deferred import deferred

if TYPE_CHECKING:
    from importlib.abc import PathEntryFinder

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

__getattr__ = deferred(
    __name__,
    {
        "isthmus.codecs.amqp": (
            "AmqpMessage",
            "AmqpSequence",
            "AmqpValue",
            "Data",
            "MessageHeader",
            "MessageProperties",
        ),
        "isthmus.codecs.bridge_message": ("BridgeMessage",),
        "isthmus.converters": ("", "KafkaRecord", "MessageConverter", "ReceivedRecord"),
        "isthmus.errors": ("IsthmusError", "SoftFailure"),
    },
)

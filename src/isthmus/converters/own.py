"""A converter of the user's own, held to the contract: it raises a `SoftFailure` and nothing else.

In: an object with the two methods. Out: one whose methods turn whatever the user's code raises, or returns
in place of a record or message, into that message's `ConversionFailure`. So a mistake in it costs one
message, and never the receiver or the query that asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from isthmus.codecs.amqp import AmqpMessage
from isthmus.converters.contract import KafkaRecord, MessageConverter, ReceivedRecord
from isthmus.errors import ConversionFailure, SoftFailure

T = TypeVar("T")


class OwnConverter:
    """Calls the user's converter."""

    def __init__(self, users: MessageConverter) -> None:
        self._users = users

    def to_kafka_record(self, message: AmqpMessage) -> KafkaRecord:
        """What the user's class makes of a message."""
        return self._made(KafkaRecord, lambda: self._users.to_kafka_record(message))

    def to_amqp_message(self, address: str, record: ReceivedRecord) -> AmqpMessage:
        """What the user's class makes of a record."""
        return self._made(AmqpMessage, lambda: self._users.to_amqp_message(address, record))

    def _made(self, kind: type[T], make: Callable[[], T]) -> T:
        name = type(self._users).__qualname__
        try:
            made = make()
        except SoftFailure:
            raise
        except Exception as error:
            raise ConversionFailure(f"{name} raised {type(error).__name__}: {error}") from error
        if not isinstance(made, kind):
            raise ConversionFailure(f"{name} made no {kind.__name__} but {type(made).__name__}")
        return made

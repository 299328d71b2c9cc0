"""A message as the codec decodes it, whoever made it."""

from __future__ import annotations

from isthmus.codecs.amqp import AmqpMessage


def canonical(message: AmqpMessage) -> AmqpMessage:
    """The message with every value of the type that it has on the wire: of a plain 7 as message-id a ulong.

    Raises `EncodeError` for one that AMQP cannot carry.
    """
    return message if message.original is not None else AmqpMessage.decode(message.encode())


def encoded(message: AmqpMessage) -> bytes:
    """The bytes that the message was decoded from, or else its own."""
    return message.encode() if message.original is None else message.original

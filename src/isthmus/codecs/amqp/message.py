"""`AmqpMessage`: a message of AMQP 1.0 as an object, to and from its bytes."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from isthmus.codecs.amqp.decoder import Annotations, decode_sections
from isthmus.codecs.amqp.encoder import encode_sections
from isthmus.codecs.amqp.sections import Body, MessageHeader, MessageProperties


class AmqpMessage(msgspec.Struct, frozen=True, eq=False):
    """The sections of a message; those that are None are not there.

    Two messages are equal when their most compact encodings are: the types of values and the order of maps
    count, as in the specification, and the way in which they happened to be encoded does not.
    """

    header: MessageHeader | None = None
    delivery_annotations: Annotations | None = None
    message_annotations: Annotations | None = None
    properties: MessageProperties | None = None
    application_properties: dict[str, Any] | None = None
    body: Body | None = None
    footer: Annotations | None = None
    original: bytes | None = None
    """The bytes that the message was decoded from, as they arrived."""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The message that these bytes encode. Raises `DecodeError` for any that are not one message."""
        return cls(*decode_sections(data), data)

    def encode(self) -> bytes:
        """The most compact encoding. Raises `EncodeError` for a value that its type cannot hold."""
        return encode_sections(
            self.header,
            self.delivery_annotations,
            self.message_annotations,
            self.properties,
            self.application_properties,
            self.body,
            self.footer,
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with other sections, and without the original's bytes."""
        return msgspec.structs.replace(self, **{"original": None, **changes})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AmqpMessage):
            return NotImplemented
        return self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

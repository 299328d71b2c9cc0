"""A bridge message as msgspec writes and reads it. Nothing is checked here but what msgspec checks itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from isthmus.codecs.bridge_message.header import BridgeHeader
from isthmus.codecs.bridge_message.properties import Properties

if TYPE_CHECKING:
    Props = Raw | Properties
else:
    Props = Raw  # what the decoder is to put there


class Wire(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The three parts. Properties are encoded as long as nobody has read them."""

    body: bytes = b""
    header: BridgeHeader = msgspec.field(default_factory=BridgeHeader)
    props: Props = msgspec.field(default_factory=dict)


read: Final = msgspec.msgpack.Decoder(Wire).decode
write: Final = msgspec.msgpack.Encoder().encode
write_into: Final = msgspec.msgpack.Encoder().encode_into
write_sorted: Final = msgspec.msgpack.Encoder(order="deterministic").encode

"""Frames: the unit in which AMQP travels (part 2, 2.3)::

    4 bytes size | 1 byte doff | 1 byte type (0 AMQP, 1 SASL) | 2 bytes channel | (doff - 2) * 4 bytes | body

The body of an AMQP frame is a performative and, of a transfer, its payload. A frame without a body keeps an
idle connection alive. Before the first frame each side sends a protocol header: ``AMQP id major minor
revision``.
"""

from __future__ import annotations

import sys
from typing import Final

from isthmus.codecs.amqp import encode_value
from isthmus.edges.amqp.protocol.composite import Composite
from isthmus.edges.amqp.protocol.conditions import DECODE_ERROR, FRAMING_ERROR, ConnectionFault
from isthmus.edges.amqp.protocol.performatives import Disposition
from isthmus.edges.amqp.protocol.terms import ACCEPTED

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
HEADER_BYTES: Final = 8

MIN_MAX_FRAME_BYTES: Final = 512
"""What every peer takes, before and whatever it negotiates."""

AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1

EMPTY_FRAME: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"


def encode_frame(channel: int, body: Composite, *, frame_type: int = AMQP_FRAME) -> bytes:
    """A frame with a performative and no payload."""
    return wrap(channel, encode_value(body.described()), frame_type)


def wrap(channel: int, body: bytes, frame_type: int = AMQP_FRAME) -> bytes:
    """A frame around an encoded body."""
    head = (len(body) + 8) << 32 | 2 << 24 | frame_type << 16 | channel
    return head.to_bytes(8) + body


class FrameBuffer:
    """Puts the pieces in which bytes arrive together to what is complete.

    `take` returns all that has arrived as soon as it holds a whole frame (or protocol header); what is left
    of it after its whole frames goes back with `keep`. At most one frame is ever waited for, so the
    memory held is that of the largest frame allowed and of one read.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._held = 0
        self._wanted = HEADER_BYTES

    @property
    def held_bytes(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return self._held

    def take(self, data: bytes) -> bytes | None:
        """Add what arrived. Returns all that is held once there is enough of it."""
        if not self._pieces:
            if len(data) >= self._wanted:
                return data
        elif self._held + len(data) >= self._wanted:
            data = b"".join((*self._pieces, data))
            self._pieces.clear()
            self._held = 0
            return data
        self._pieces.append(data)
        self._held += len(data)
        return None

    def keep(self, rest: bytes, wanted: int) -> None:
        """Hold the beginning of a frame until ``wanted`` bytes are there."""
        self._wanted = wanted
        if rest:
            self._pieces.append(rest)
            self._held = len(rest)

    def wait(self) -> None:
        """Hold whatever comes until `release`."""
        self._wanted = sys.maxsize

    def release(self) -> bytes | None:
        """Wait no longer. Returns all that is held if there is enough of it."""
        self._wanted = HEADER_BYTES
        return self.take(b"") if self._held else None


def frame_end(buf: bytes, pos: int, max_frame_size: int, frame_type: int) -> int:
    """Where the frame at ``pos`` ends, of which at least the header is there. Raises `ConnectionFault`."""
    size = int.from_bytes(buf[pos : pos + 4])
    if size < 8:
        raise ConnectionFault(FRAMING_ERROR, f"a frame of {size} bytes cannot hold its own header")
    if size > max_frame_size:
        raise ConnectionFault(
            FRAMING_ERROR, f"a frame of {size} bytes is larger than the {max_frame_size} that were agreed"
        )
    doff = buf[pos + 4]
    if doff < 2 or doff * 4 > size:
        raise ConnectionFault(FRAMING_ERROR, f"a frame of {size} bytes cannot have a data offset of {doff}")
    if buf[pos + 5] != frame_type:
        raise ConnectionFault(FRAMING_ERROR, f"a frame of type {buf[pos + 5]} where {frame_type} is due")
    return pos + size


def accepts_one(buf: bytes, pos: int, end: int) -> Disposition | None:
    """The disposition in a frame's body, if it settles one delivery as accepted: nearly all of them do.

    None for any other body, and for other encodings of this one: those are to be decoded.
    """
    if end - pos < _SHORTEST or buf[pos : pos + 4] != _SHORT_DISPOSITION or buf[pos + 4] != end - pos - 5:
        return None
    role, code, rest = buf[pos + 6], buf[pos + 7], pos + 8
    if code == 0x70:
        first = int.from_bytes(buf[rest : rest + 4])
        rest += 4
    elif code == 0x52:
        first = buf[rest]
        rest += 1
    elif code == 0x43:
        first = 0
    else:
        return None
    if buf[rest] == 0x40:  # no last one
        rest += 1
    elif buf[pos + 7 : rest] == buf[rest : rest + rest - pos - 7]:  # the first is the last one
        rest += rest - pos - 7
    else:
        return None
    if _ACCEPTED_AND_SETTLED.get(buf[rest:end]) != buf[pos + 5] or not 0x41 <= role <= 0x42:
        return None
    return Disposition(role == 0x41, first, None, True, ACCEPTED)


_SHORT_DISPOSITION: Final = b"\x00\x53\x15\xc0"
_SHORTEST: Final = 14
_ACCEPTED_AND_SETTLED: Final = {
    b"\x41\x00\x53\x24\x45" + batchable: 5 + len(batchable) for batchable in (b"", b"\x40", b"\x41", b"\x42")
}
"""What stands behind the deliveries, and how many fields there are with it."""


def not_a_performative(descriptor: object) -> ConnectionFault:
    """What a frame body of an unknown kind means."""
    return ConnectionFault(DECODE_ERROR, f"{descriptor!r:.60} is not the descriptor of a performative")

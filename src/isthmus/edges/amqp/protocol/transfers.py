"""The bodies of outgoing transfer frames, written by hand: nearly every frame that is sent is one."""

from __future__ import annotations

from collections.abc import Iterator

from isthmus.edges.amqp.protocol.events import Delivery


def encode_transfer(
    delivery: Delivery,
    data: bytes,
    *,
    more: bool,
    first: bool,
    state: bytes | None,
    room: int,
    resume: bool = False,
) -> Iterator[bytes]:
    """The frame bodies of (a part of) a message, none larger than ``room`` bytes.

    A state goes with the first of them, and so does the word that a delivery is resumed.
    """
    pos = 0
    while True:
        head = _head(delivery, first=first, more=more, state=state, resume=resume)
        chunk = room - len(head)
        if len(data) - pos <= chunk:
            yield head + data[pos:] if pos else head + data
            return
        head = _head(delivery, first=first, more=True, state=state, resume=resume)
        yield head + data[pos : pos + chunk]
        pos += chunk
        first, state = False, None


def encode_abort(delivery: Delivery) -> bytes:
    """The frame body that tells the peer to forget a message."""
    return _performative(
        _uint(delivery.link.handle) + b"\x70" + delivery.id.to_bytes(4) + b"\x40" * 7 + b"\x41", 10
    )


def _head(delivery: Delivery, *, first: bool, more: bool, state: bytes | None, resume: bool) -> bytes:
    handle = _uint(delivery.link.handle)
    id = b"\x70" + delivery.id.to_bytes(4)
    flag = b"\x41" if more else b"\x42"
    if not first:
        return _performative(handle + id + b"\x40\x40\x40" + flag, 6)
    fields = (
        handle
        + id
        + b"\xa0"
        + len(delivery.tag).to_bytes()
        + delivery.tag
        + _uint(delivery.message_format)
        + (b"\x41" if delivery.settled else b"\x42")
        + flag
    )
    if resume:
        return _performative(fields + b"\x40" + (state or b"\x40") + b"\x41", 9)
    if state is None:
        return _performative(fields, 6)
    return _performative(fields + b"\x40" + state, 8)


def _performative(fields: bytes, count: int) -> bytes:
    if len(fields) < 255:
        return b"\x00\x53\x14\xc0" + (len(fields) + 1).to_bytes() + count.to_bytes() + fields
    return b"\x00\x53\x14\xd0" + (len(fields) + 4).to_bytes(4) + count.to_bytes(4) + fields


def _uint(number: int) -> bytes:
    if number < 256:
        return b"\x52" + number.to_bytes()
    return b"\x70" + number.to_bytes(4)

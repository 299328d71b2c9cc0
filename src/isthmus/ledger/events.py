"""What the ledger takes in and gives out, and both as bytes.

In: an `Event` for each journal record that concerns the ledger. Out: an `Update` for each record that it
writes to the journal: a plain record, or a tombstone. Between processes both travel many at a time, packed
with MessagePack, since what Spark does for a row costs more than what the ledger does for a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from isthmus.journal import layout
from isthmus.journal.layout import Op, Record

EVERYWHERE = -1
"""The partition of a tombstone whose message may lie in any of them."""

CLOCK = ""
"""The operation of an event that only says what time it is in its partition."""

PLAIN_FORM = {Op.ADD_TX: Op.ADD, Op.ANNOTATE_TX: Op.ANNOTATE, Op.DELETE_TX: Op.DELETE}
"""What a record of a transaction becomes when that is committed."""

SEPARATOR = layout.SEPARATOR.encode()

CHUNK_BYTES = 262_144
"""How much travels, or is held, in one piece. Smaller pieces cost calls, larger ones memory."""

PER_UPDATE_BYTES = 40
"""What an update takes beside its record, roughly."""


class Event(msgspec.Struct, array_like=True, gc=False):
    """What a journal record says to the ledger."""

    op: str
    partition: int
    offset: int
    time_ms: int
    """When the journal got it."""
    key: bytes = b""
    session: str = ""
    transaction: str = ""
    place: int = 0
    """The place in the transaction, from 0; of an outcome, how many records were before it."""
    record: bytes = b""
    """Of a record in a transaction: the plain record that it becomes, packed. The ledger does not look in."""
    expires_ms: int = 0
    """When the message expires; 0 for never."""
    due_ms: int = 0
    """Of a DELAY: when the message may be seen."""


class Update(msgspec.Struct, array_like=True, gc=False):
    """A record to write to the journal."""

    partition: int
    key: bytes = b""
    """Of a tombstone."""
    record: bytes | None = None
    """Packed, with its key; None for a tombstone."""
    due_ms: int = 0
    """Not to be written before that time; 0 if it may be at any."""


def plain_op(op: Op, headers: Iterable[tuple[str, bytes | None]]) -> Op:
    """What a record of a transaction becomes when that is committed, by its headers."""
    plain = PLAIN_FORM[op]
    is_delayed = plain is Op.ADD and any(name == layout.DELIVERY_TIME for name, _ in headers)
    return Op.DELAY if is_delayed else plain


def message_key(key: bytes) -> bytes:
    """The id of the message that a record with this key is about."""
    return key.partition(SEPARATOR)[0]


def plain_key(op: Op, key: bytes, transaction: str, place: int) -> bytes:
    """The key of the plain record that a transaction's record becomes.

    A message has one ADD and needs one DELETE, which its id names. Annotations must not replace it, nor each
    other, when the journal is compacted: they keep what tells them apart.
    """
    if op is Op.DELAY:
        return message_key(key) + layout.DELAYED.encode()
    if op is not Op.ANNOTATE_TX:
        return message_key(key)
    return key if SEPARATOR in key else key + SEPARATOR + f"{transaction}/{place}".encode()


_encoder = msgspec.msgpack.Encoder()
# Not of a Record: where that is compiled, its fields have no types that could be read.
_record_decoder = msgspec.msgpack.Decoder(tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]])
_events_decoder = msgspec.msgpack.Decoder(list[Event])
_updates_decoder = msgspec.msgpack.Decoder(list[Update])

pack = _encoder.encode
"""Anything made of what MessagePack knows, as bytes."""
unpack_events = _events_decoder.decode
unpack_updates = _updates_decoder.decode


def unpack_record(data: bytes) -> Record:
    """A record that was packed."""
    return Record(*_record_decoder.decode(data))


def in_chunks(updates: Iterable[Update]) -> Iterator[bytes]:
    """Updates, packed many at a time, in their order."""
    chunk: list[Update] = []
    size = 0
    for update in updates:
        chunk.append(update)
        size += PER_UPDATE_BYTES + len(update.record or update.key)
        if size >= CHUNK_BYTES:
            yield pack(chunk)
            chunk, size = [], 0
    if chunk:
        yield pack(chunk)

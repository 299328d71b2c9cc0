"""What transactions hold, in pages: few pieces of state, however many transactions there are.

A call to the state store takes longer than many decisions. A transaction that is open at the end of a batch
therefore shares a page with others. A page stays until all of its transactions are decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from isthmus.ledger.events import pack
from isthmus.ledger.state import Chunks

READ_PAGES = 64
"""How many pages are kept in memory during a batch: what shares one is often decided together."""

_PAGES = "held"


class Held(NamedTuple):
    """A record of a transaction without outcome."""

    key: bytes
    """What to write a tombstone for; empty if that would remove the message that the record is about."""
    record: bytes


class Summary(msgspec.Struct, array_like=True):
    """What is kept of the pages themselves."""

    next_number: int = 0
    sharers: dict[int, int] = {}
    """By page: how many transactions still have records on it."""


_page_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_held_decoder = msgspec.msgpack.Decoder(list[Held])


class Pages:
    """The pages of one shard, during one batch."""

    def __init__(self, summary: Summary, chunks: Chunks) -> None:
        self._summary = summary
        self._chunks = chunks
        self._read: dict[int, dict[str, msgspec.Raw]] = {}

    def put(self, records: Mapping[str, list[Held]]) -> int:
        """Keep what these transactions hold, on a page of its own; its number."""
        number = self._summary.next_number
        self._summary.next_number += 1
        self._summary.sharers[number] = len(records)
        self._chunks.put(_PAGES, number, pack(records))
        return number

    def take(self, number: int, transaction: str) -> list[Held] | None:
        """What a transaction has on a page, where it is kept no longer; None if the page is lost."""
        page = self._page(number)
        if page is None:
            return None
        self._summary.sharers[number] -= 1
        if not self._summary.sharers[number]:
            del self._summary.sharers[number]
            del self._read[number]
            self._chunks.remove(_PAGES, number)
        return _held_decoder.decode(page[transaction])

    def save(self) -> Summary:
        """What to go on from."""
        return self._summary

    def _page(self, number: int) -> dict[str, msgspec.Raw] | None:
        page = self._read.pop(number, None)
        if page is None:
            data = self._chunks.get(_PAGES, number)
            if data is None:
                return None
            page = _page_decoder.decode(data)
            if len(self._read) >= READ_PAGES:
                del self._read[next(iter(self._read))]  # the one that was longest not asked for
        self._read[number] = page
        return page

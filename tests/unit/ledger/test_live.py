from __future__ import annotations

from typing import NamedTuple

from isthmus.ledger.live import live


class Stored(NamedTuple):
    place: int
    number: int
    name: bytes
    content: bytes | None

    def partition(self) -> int:
        return self.place

    def offset(self) -> int:
        return self.number

    def key(self) -> bytes:
        return self.name

    def value(self) -> bytes | None:
        return self.content


def test_the_last_record_of_a_key_is_live_and_none_after_a_tombstone() -> None:
    journal = [
        Stored(0, 0, b"a", b"old"),
        Stored(0, 1, b"a", b"new"),
        Stored(0, 2, b"b", b"gone"),
        Stored(0, 3, b"b", None),
        Stored(0, 4, b"c", b"again"),
        Stored(0, 5, b"c", None),
        Stored(0, 6, b"c", b"back"),
    ]
    assert [record.content for record in live(lambda: journal)] == [b"new", b"back"]


def test_a_tombstone_in_one_partition_removes_nothing_in_another() -> None:
    journal = [Stored(0, 0, b"a", b"kept"), Stored(1, 0, b"a", b"gone"), Stored(1, 1, b"a", None)]
    assert [record.content for record in live(lambda: journal)] == [b"kept"]

from __future__ import annotations

from tests.support.pipeline.shards import TIMEOUT_MS, MemoryShard, removed

from isthmus.journal.layout import Op
from isthmus.ledger.events import EVERYWHERE, Event, Update, message_key, plain_key
from isthmus.ledger.machine import ENDS_A_TIMEOUT
from isthmus.ledger.messages import EXPIRY_STEP_MS


def delete(message: bytes) -> Event:
    return Event(Op.DELETE, 1, 0, 0, message)


def annotate(key: bytes, partition: int = 1) -> Event:
    return Event(Op.ANNOTATE, partition, 0, 0, key)


def expiring(message: bytes, expires_ms: int, partition: int = 1) -> Event:
    return Event(Op.ADD, partition, 0, 0, message, expires_ms=expires_ms)


def test_a_delete_removes_the_message_wherever_it_lies() -> None:
    assert MemoryShard().run(delete(b"ID:1")) == [Update(EVERYWHERE, b"ID:1")]


def test_a_delete_removes_every_annotation_where_that_lies() -> None:
    shard = MemoryShard()
    assert shard.run(annotate(b"ID:1\0a", 0), annotate(b"ID:1\0b", 1), annotate(b"ID:2\0a")) == []
    assert shard.run(delete(b"ID:1"))[1:] == [Update(0, b"ID:1\0a"), Update(1, b"ID:1\0b")]
    assert len(shard.chunks.pieces) == 1


def test_an_annotation_is_kept_until_its_message_goes() -> None:
    shard = MemoryShard()
    shard.run(annotate(b"ID:1\0a"))
    assert shard.run(now_ms=10**12) == []


def test_an_annotation_of_a_deleted_message_is_removed() -> None:
    shard = MemoryShard()
    shard.run(delete(b"ID:1"))
    assert shard.run(annotate(b"ID:1\0a", 0)) == [Update(0, b"ID:1\0a")]


def test_an_annotation_that_comes_twice_is_removed_once() -> None:
    shard = MemoryShard()
    shard.run(annotate(b"ID:1\0a"), annotate(b"ID:1\0a"))
    assert removed(shard.run(delete(b"ID:1"))) == ["ID:1", "ID:1\0a"]


def test_an_annotation_under_the_messages_own_key_needs_no_tombstone_of_its_own() -> None:
    shard = MemoryShard()
    assert shard.run(annotate(b"ID:1"), delete(b"ID:1")) == [Update(EVERYWHERE, b"ID:1")]


def test_a_message_is_deleted_when_it_has_expired() -> None:
    shard = MemoryShard()
    assert shard.run(expiring(b"ID:1", 25_000), expiring(b"ID:2", 95_000), annotate(b"ID:1\0a")) == []
    assert shard.due_ms is not None
    assert 25_000 < shard.due_ms <= 25_000 + EXPIRY_STEP_MS + TIMEOUT_MS // ENDS_A_TIMEOUT
    assert removed(shard.run(now_ms=shard.due_ms)) == ["ID:1", "ID:1\0a"]
    assert shard.due_ms > 95_000
    assert shard.run(now_ms=shard.due_ms) == [Update(1, b"ID:2")]
    assert shard.due_ms is None
    assert shard.chunks.pieces == {}


def test_a_message_that_comes_expired_is_deleted_at_once() -> None:
    assert MemoryShard().run(expiring(b"ID:1", 500), now_ms=1_000) == [Update(1, b"ID:1")]


def test_a_key_names_its_message() -> None:
    assert message_key(b"ID:1") == b"ID:1"
    assert message_key(b"ID:1\0t/3") == b"ID:1"


def test_a_committed_annotation_keeps_a_key_of_its_own() -> None:
    assert plain_key(Op.ADD_TX, b"ID:1\0t/3", "t", 3) == b"ID:1"
    assert plain_key(Op.DELETE_TX, b"ID:1", "t", 3) == b"ID:1"
    assert plain_key(Op.ANNOTATE_TX, b"ID:1\0x", "t", 3) == b"ID:1\0x"
    assert plain_key(Op.ANNOTATE_TX, b"ID:1", "t", 3) == b"ID:1\0t/3"

"""The journal record: what an entry looks like in Kafka, and that it reads back as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from tests.support import strategies

from isthmus.errors import EncodeError
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.message import Body, BodyKind, Header, HeaderType, Message, Span

MESSAGE = Message(
    id="ID:1",
    address="orders",
    protocol="amqp",
    value=b"\x00\x53\x77hello",
    body=Body(BodyKind.TEXT, (Span(3, 5),)),
    headers={"MessageId": Header("ID:1"), "amount": Header("3", HeaderType.INT), "region": Header("EU")},
    session="s1",
)


def test_a_record_has_the_layout_that_is_documented() -> None:
    assert layout.encode(Entry(Op.ADD, MESSAGE)) == Record(
        b"ID:1",
        b"\x00\x53\x77hello",
        [
            ("isthmus.op", b"ADD"),
            ("isthmus.address", b"orders"),
            ("isthmus.protocol", b"amqp"),
            ("isthmus.session", b"s1"),
            ("isthmus.body", b"text:3+5"),
            ("jms.MessageId", b"ID:1"),
            ("jms.amount", b"3"),
            ("jms.region", b"EU"),
            ("jms.types", b"amount=int;"),
        ],
    )


def test_a_message_of_strings_has_no_types() -> None:
    message = Message(
        id="1", address="a", protocol="mq", value=b"x", body=Body(BodyKind.BYTES), headers={"a": Header("1")}
    )
    assert [name for name, _ in layout.encode(Entry(Op.ADD, message)).headers] == [*layout.INDEX, "jms.a"]


@pytest.mark.parametrize("op", sorted(set(Op) - layout.PLAIN))
def test_a_record_of_a_transaction_says_which_and_where_after_the_index(op: Op) -> None:
    record = layout.encode(Entry(op, MESSAGE, "tx-9", 4))
    assert record.headers[5:7] == [("isthmus.tx", b"tx-9"), ("isthmus.seq", b"4")]
    assert record.headers[7][0] == "jms.MessageId"


@pytest.mark.parametrize("op", sorted(layout.PLAIN))
def test_a_plain_record_has_nothing_between_index_and_headers(op: Op) -> None:
    assert layout.encode(Entry(op, MESSAGE)).headers[5][0] == "jms.MessageId"


@pytest.mark.parametrize(
    ("ops", "key"),
    [
        ((Op.ADD, Op.DELETE), b"ID:1"),
        ((Op.ADD_TX, Op.ANNOTATE_TX, Op.DELETE_TX), b"ID:1\0tx-9/7"),
        ((Op.PREPARE, Op.COMMIT, Op.ROLLBACK), b"tx-9"),
    ],
)
def test_a_record_that_is_only_about_a_message_has_a_key_of_its_own(ops: tuple[Op, ...], key: bytes) -> None:
    for op in ops:
        assert layout.encode(Entry(op, MESSAGE, "tx-9", 7)).key == key


def test_an_annotation_replaces_the_one_of_the_same_headers_and_nothing_else() -> None:
    def key(id: str, *names: str) -> bytes | None:
        annotated = replace(MESSAGE, id=id, headers=dict.fromkeys(names, Header("x", HeaderType.STRING)))
        return layout.encode(Entry(Op.ANNOTATE, annotated)).key

    assert key("1", "seen", "by") == key("1", "by", "seen") == b"1\0by,seen"
    assert len({key("1", "seen"), key("1", "by"), key("2", "seen"), b"1"}) == 4


def test_no_id_can_be_taken_for_another_one_with_a_suffix() -> None:
    message = replace(MESSAGE, id="1\0x")
    assert layout.encode(Entry(Op.ADD, message)).key == "1\N{SYMBOL FOR NULL}x".encode()


def test_a_tombstone_keeps_its_null_value() -> None:
    message = Message(id="1", address="a", protocol="amqp", value=None, body=Body(BodyKind.EMPTY))
    record = layout.encode(Entry(Op.DELETE, message))
    assert record.value is None
    assert layout.decode(record).message == message


@settings(max_examples=50)
@given(strategies.entries)
def test_every_entry_reads_back_as_it_was(entry: Entry) -> None:
    record = layout.encode(entry)
    found = layout.decode(record)
    assert layout.encode(found) == record
    assert layout.op_of(record) is entry.op
    assert found.message.value == entry.message.value
    assert list(found.message.headers.items()) == list(entry.message.headers.items())
    if entry.op in (Op.PREPARE, Op.COMMIT, Op.ROLLBACK):  # keyed by the transaction: the id is not in it
        assert found.message.id == entry.transaction
    else:
        assert found == entry


@pytest.mark.parametrize(
    "message",
    [
        Message(id="\ud800", address="a", protocol="x", value=b"", body=Body(BodyKind.TEXT)),
        Message(id="1", address="\ud800", protocol="x", value=b"", body=Body(BodyKind.TEXT)),
        Message(
            id="1",
            address="a",
            protocol="x",
            value=b"",
            body=Body(BodyKind.TEXT),
            headers={"h": Header("\udcff")},
        ),
        Message(
            id="1",
            address="a",
            protocol="x",
            value=b"",
            body=Body(BodyKind.TEXT),
            headers={"\udcff": Header("v")},
        ),
    ],
    ids=["id", "address", "header", "name"],
)
def test_half_a_character_cannot_be_written(message: Message) -> None:
    with pytest.raises(EncodeError):
        layout.encode(Entry(Op.ADD, message))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (Body(BodyKind.TEXT), "text"),
        (Body(BodyKind.TEXT, (Span(12, 340),)), "text:12+340"),
        (Body(BodyKind.BYTES, (Span(12, 40), Span(60, 8))), "bytes:12+40,60+8"),
        (Body(BodyKind.EMPTY), "empty"),
    ],
)
def test_a_body_is_written_as_kind_and_place(body: Body, text: str) -> None:
    assert layout.encode_body(body) == text
    assert layout.decode_body(text, bytes(352)) == body


def test_the_stable_id_is_the_place_in_kafka() -> None:
    assert layout.stable_id("isthmus.b.journal", 3, 42) == "isthmus.b.journal:3:42"

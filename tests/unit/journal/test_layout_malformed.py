"""Records that are not laid out as the journal's are: a `DecodeError`, and never anything else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import strategies

from isthmus.errors import DecodeError
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.message import Body, BodyKind, Message

MESSAGE = Message(id="1", address="a", protocol="amqp", value=b"0123456789", body=Body(BodyKind.TEXT))
ADDED = layout.encode(Entry(Op.ADD, MESSAGE))
COMMITTED = layout.encode(Entry(Op.COMMIT, MESSAGE, "tx", 1))


def with_header(record: Record, name: str, value: bytes | None) -> Record:
    return record._replace(headers=[(each, value if each == name else old) for each, old in record.headers])


def decodes_or_is_refused(record: Record) -> None:
    try:
        entry = layout.decode(record)
    except DecodeError:
        return
    assert isinstance(entry, Entry)
    entry.message.body.slice(entry.message.value)


@settings(max_examples=30)
@given(strategies.damaged_records())
def test_a_damaged_record_is_refused_or_read(record: Record) -> None:
    decodes_or_is_refused(record)


index_values = st.sampled_from(
    [None, b"", b"ADD", b"COMMIT", b"text", b"text:0+1", b"7", b"\xff"]
) | st.binary(max_size=6)
anything = st.none() | st.binary(max_size=8)


@settings(max_examples=50)
@given(
    key=anything,
    value=anything,
    index=st.integers(0, 5),
    values=st.lists(index_values, min_size=5, max_size=5),
    more=st.lists(
        st.tuples(
            st.sampled_from(["isthmus.tx", "isthmus.seq", "jms.types", "jms.a"]) | st.text(max_size=4),
            anything,
        ),
        max_size=4,
    ),
)
def test_arbitrary_headers_are_refused_or_read(
    key: bytes | None,
    value: bytes | None,
    index: int,
    values: list[bytes | None],
    more: list[tuple[str, bytes | None]],
) -> None:
    headers = [*zip(layout.INDEX[:index], values[:index], strict=True), *more]
    decodes_or_is_refused(Record(key, value, headers))


@pytest.mark.parametrize("place", range(len(layout.INDEX)))
def test_a_record_without_one_header_of_the_index_is_refused(place: int) -> None:
    headers = list(ADDED.headers)
    del headers[place]
    with pytest.raises(DecodeError, match="begins with the headers"):
        layout.decode(ADDED._replace(headers=headers))


def test_the_index_in_another_order_is_refused() -> None:
    with pytest.raises(DecodeError, match="begins with the headers"):
        layout.decode(ADDED._replace(headers=list(reversed(ADDED.headers))))


def test_an_index_behind_another_header_is_refused() -> None:
    with pytest.raises(DecodeError, match="begins with the headers"):
        layout.decode(ADDED._replace(headers=[("x", b""), *ADDED.headers]))


def test_a_record_without_headers_is_refused() -> None:
    with pytest.raises(DecodeError, match="begins with the headers"):
        layout.decode(Record(b"1", b"x", []))


@pytest.mark.parametrize("op", [None, b"", b"add", b"ADD ", b"MOVE", b"\xff"])
def test_an_unknown_operation_is_refused(op: bytes | None) -> None:
    record = with_header(ADDED, layout.OP, op)
    with pytest.raises(DecodeError, match=r"unknown isthmus\.op"):
        layout.decode(record)
    with pytest.raises(DecodeError, match=r"unknown isthmus\.op"):
        layout.op_of(record)


@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b"song",
        b"TEXT",
        b"text:",
        b"text:1",
        b"text:1+",
        b"text:+1",
        b"text:-1+2",
        b"text:1+2,",
        b"text:1+2,x",
        b"text: 1+2",
        b"text:1+2\n",
        b"text\n",
        b"\xff",
        "text:٣+1".encode(),
        b"text:0+11",
        b"text:11+0",
        b"text:0+1,9+2",
        b"text:0+9999999999",
        b"text:0+" + b"9" * 5000,
    ],
)
def test_a_body_that_cannot_be_read_or_lies_outside_the_value_is_refused(body: bytes | None) -> None:
    with pytest.raises(DecodeError, match=r"isthmus\.body cannot be read"):
        layout.decode(with_header(ADDED, layout.BODY, body))


@pytest.mark.parametrize("body", [b"text:0+10", b"text:10+0", b"text:0+10,0+10", b"text:000+001"])
def test_a_body_that_just_fits_is_read(body: bytes) -> None:
    assert layout.decode(with_header(ADDED, layout.BODY, body)).message.body.spans


def test_a_span_within_no_value_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"isthmus\.body cannot be read"):
        layout.decode(with_header(ADDED, layout.BODY, b"text:0+1")._replace(value=None))


@pytest.mark.parametrize("missing", ["isthmus.tx", "isthmus.seq"])
def test_a_record_of_a_transaction_must_say_which_and_where(missing: str) -> None:
    headers = [header for header in COMMITTED.headers if header[0] != missing]
    with pytest.raises(DecodeError, match=r"COMMIT without isthmus\.tx and isthmus\.seq"):
        layout.decode(COMMITTED._replace(headers=headers))


@pytest.mark.parametrize(
    "place", [None, b"", b"x", b"-1", b"1.0", b" 1", b"\xff", "٣".encode(), "²".encode()]
)
def test_a_place_in_a_transaction_must_be_a_number(place: bytes | None) -> None:
    with pytest.raises(DecodeError, match=r"isthmus\.seq is not a number"):
        layout.decode(with_header(COMMITTED, layout.SEQUENCE, place))


def test_a_place_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"isthmus\.seq"):
        layout.decode(with_header(COMMITTED, layout.SEQUENCE, b"9" * 5000))

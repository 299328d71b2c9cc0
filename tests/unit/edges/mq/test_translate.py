"""An MQ message as headers and a body, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.edges.mq.descriptor import FIELD_BYTES, FIELDS, Mqmd, MqMessage, Property, PropertyType
from isthmus.edges.mq.names import PREFIX, property_name
from isthmus.edges.mq.replies import Requester
from isthmus.edges.mq.translate import IN_STANDARD_HEADERS, from_headers, to_message
from isthmus.errors import EncodeError
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op
from isthmus.message import BodyKind, Header, HeaderType, Message

NOW_MS = 1_700_000_000_000

FULL = Mqmd(
    Version=2,
    Report=2097152,
    MsgType=1,
    Expiry=600,
    Feedback=3,
    Encoding=273,
    CodedCharSetId=1208,
    Format="MQSTR",
    Priority=7,
    Persistence=1,
    MsgId=b"\0\0id" + b"x" * 20,
    CorrelId=b"\0corr",
    BackoutCount=2,
    ReplyToQ="REPLY.Q",
    ReplyToQMgr="QM1",
    UserIdentifier="user",
    AccountingToken=b"\0\x16token",
    ApplIdentityData="identity",
    PutApplType=28,
    PutApplName="an application",
    PutDate="20240229",
    PutTime="23595907",
    ApplOriginData="orig",
    GroupId=b"\0group",
    MsgSeqNumber=3,
    Offset=10,
    MsgFlags=24,
    OriginalLength=100,
)


def message(mq: MqMessage, **options: Any) -> Message:
    return to_message(mq, address="Q", session="s", received_ms=NOW_MS, **options)


def test_the_standard_headers_come_from_the_descriptor() -> None:
    headers = message(MqMessage(descriptor=FULL)).headers
    assert headers["MessageId"] == Header("ID:00006964" + "78" * 20)
    assert headers["CorrelationId"] == Header("ID:00636f7272" + "00" * 19)
    assert headers["ReplyTo"] == Header("REPLY.Q@QM1")
    assert headers["Priority"] == Header("7", HeaderType.INT)
    assert headers["DeliveryMode"] == Header("PERSISTENT")
    assert headers["Expiration"] == Header(str(NOW_MS + 60_000), HeaderType.LONG)
    assert headers["Timestamp"] == Header("1709251199070", HeaderType.LONG)
    assert headers["Redelivered"] == Header("true", HeaderType.BOOLEAN)
    assert headers["JMSXDeliveryCount"] == Header("3", HeaderType.INT)
    assert headers["Destination"] == Header("Q")


def test_a_message_with_nothing_set_has_only_what_every_message_has() -> None:
    made = message(MqMessage(descriptor=Mqmd(MsgId=b"m", Priority=0, Persistence=0)))
    assert set(made.headers) == {
        *("MessageId", "DeliveryMode", "Priority", "Redelivered", "JMSXDeliveryCount", "Destination")
    }
    assert made.headers["DeliveryMode"].text == "NON_PERSISTENT"
    assert not made.durable
    assert made.protocol == "mq"
    assert made.id == made.headers["MessageId"].text


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in IN_STANDARD_HEADERS])
def test_every_other_field_is_a_header_with_its_type(name: str) -> None:
    value = getattr(FULL, name)
    header = message(MqMessage(descriptor=FULL)).headers.get(f"mq.{name}")
    if value == getattr(Mqmd(), name):
        assert header is None
    else:
        assert header is not None
        assert header.value == value


def test_a_full_descriptor_survives_the_journal() -> None:
    mq = MqMessage(descriptor=FULL, body=b"text")
    journalled = layout.decode(layout.encode(Entry(Op.ADD, message(mq)))).message
    assert from_headers(journalled.headers, journalled.body.slice(journalled.value)) == mq


numbers = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=4)
queue_names = st.text("ABC.1_%/", max_size=48)


def _field(name: str) -> st.SearchStrategy[Any]:
    if name in ("ReplyToQ", "ReplyToQMgr"):
        return queue_names
    if name == "Priority":
        return st.integers(0, 9)
    if name == "Persistence":
        return st.integers(0, 1)
    if name in FIELD_BYTES:
        return st.binary(max_size=FIELD_BYTES[name]) if isinstance(getattr(FULL, name), bytes) else texts
    return numbers


descriptors = st.fixed_dictionaries({name: _field(name) for name in FIELDS}).map(lambda f: Mqmd(**f))
values = {
    PropertyType.STRING: st.text(st.characters(codec="utf-8")),
    PropertyType.INT8: st.integers(-128, 127),
    PropertyType.INT16: st.integers(-(2**15), 2**15 - 1),
    PropertyType.INT32: numbers,
    PropertyType.INT64: st.integers(-(2**63), 2**63 - 1),
    PropertyType.FLOAT32: st.floats(width=32, allow_nan=False),
    PropertyType.FLOAT64: st.floats(allow_nan=False),
    PropertyType.BOOL: st.booleans(),
    PropertyType.BYTES: st.binary(),
    PropertyType.NULL: st.none(),
}
properties = st.one_of([v.map(lambda x, t=t: Property(t, x)) for t, v in values.items()])
# What MQ takes as the name of a property: no words of its selectors, among others.
property_names = st.from_regex(r"[A-Za-ik-z_$][A-Za-z0-9_$]{0,8}(\.[a-z]{1,3})?", fullmatch=True).filter(
    lambda name: property_name(name) == name and not name.startswith((PREFIX, "JMS"))
)
messages = st.builds(
    MqMessage,
    descriptor=descriptors,
    body=st.binary(),
    properties=st.dictionaries(property_names, properties, max_size=4),
)


@given(messages)
@settings(max_examples=40)
def test_whatever_comes_from_mq_comes_back_unchanged(mq: MqMessage) -> None:
    mq = dataclasses.replace(mq, descriptor=dataclasses.replace(mq.descriptor, PutDate="20240101"))
    record = layout.encode(Entry(Op.ADD, message(mq)))
    made = layout.decode(record).message
    back = from_headers(made.headers, made.body.slice(made.value))
    assert back.descriptor == mq.descriptor
    assert back.body == mq.body
    assert dict(back.properties) == dict(mq.properties)


@pytest.mark.parametrize(
    ("descriptor", "body", "kind"),
    [
        (Mqmd(Format="MQSTR", CodedCharSetId=1208), "grün".encode(), BodyKind.TEXT),
        (Mqmd(Format="MQSTR", CodedCharSetId=819), b"ascii", BodyKind.TEXT),
        (Mqmd(Format="MQSTR", CodedCharSetId=819), "grün".encode("latin-1"), BodyKind.BYTES),
        (Mqmd(Format="MQSTR", CodedCharSetId=500), "hello".encode("cp500"), BodyKind.BYTES),
        (Mqmd(Format="MQSTR", CodedCharSetId=1200), "hello".encode("utf-16-le"), BodyKind.BYTES),
        (Mqmd(), b"ascii", BodyKind.BYTES),
        (Mqmd(Format="MQADMIN", CodedCharSetId=1208), b"ascii", BodyKind.BYTES),
    ],
)
def test_the_body_is_text_where_mq_says_so_and_it_is_utf8(
    descriptor: Mqmd, body: bytes, kind: BodyKind
) -> None:
    made = message(MqMessage(descriptor=descriptor, body=body))
    assert made.body.kind is kind
    assert made.body.slice(made.value) == body


def test_properties_are_headers_of_their_own_name_and_type() -> None:
    given = {
        "amount": Property(PropertyType.INT16, 42),
        "Priority": Property(PropertyType.STRING, "mine"),
        "mq.Format": Property(PropertyType.STRING, "mine too"),
        "isthmus_x_2dopt": Property(PropertyType.BOOL, True),
    }
    headers = message(MqMessage(properties=given)).headers
    assert headers["amount"] == Header("42", HeaderType.SHORT)
    assert headers["property.Priority"] == Header("mine")
    assert headers["property.mq.Format"] == Header("mine too")
    assert headers["x-opt"] == Header("true", HeaderType.BOOLEAN)
    assert "mq.Format" not in headers


def test_a_jms_message_gets_the_fields_that_mq_has_and_properties_for_the_rest() -> None:
    headers = {
        "MessageId": Header("ID:AMQP_NO_PREFIX:1"),
        "CorrelationId": Header("order-1"),
        "Destination": Header("somewhere"),
        "Type": Header("order"),
        "Timestamp": Header(str(NOW_MS), HeaderType.LONG),
        "Expiration": Header(str(NOW_MS + 5000), HeaderType.LONG),
        "JMSPriority": Header("12", HeaderType.INT),
        "JMSXGroupID": Header("g"),
        "amount": Header("42", HeaderType.UINT),
    }
    mq = from_headers(headers, b"hello", now_ms=NOW_MS)
    assert mq.descriptor == Mqmd(
        CorrelId=b"order-1", Priority=9, Persistence=1, Expiry=50, Format="MQSTR", CodedCharSetId=1208
    )
    assert dict(mq.properties) == {
        "isthmus_MessageId": Property(PropertyType.STRING, "ID:AMQP_NO_PREFIX:1"),
        "isthmus_CorrelationId": Property(PropertyType.STRING, "order-1"),
        "isthmus_Type": Property(PropertyType.STRING, "order"),
        "isthmus_Timestamp": Property(PropertyType.INT64, NOW_MS),
        "isthmus_JMSXGroupID": Property(PropertyType.STRING, "g"),
        "amount": Property(PropertyType.INT64, 42),
    }


def test_what_a_jms_message_had_is_there_again_after_mq() -> None:
    headers = {
        "CorrelationId": Header("order-1 with more than twenty-four bytes"),
        "Type": Header("order"),
        "Timestamp": Header(str(NOW_MS), HeaderType.LONG),
        "ReplyTo": Header("a topic with blanks"),
        "JMSXGroupID": Header("g"),
        "x-opt-jms-dest": Header("topic"),
        "property.Type": Header("mine"),
    }
    again = message(from_headers(headers, b"hello", now_ms=NOW_MS)).headers
    assert {name: again[name] for name in headers} == headers


def test_a_message_that_wants_an_answer_is_a_request() -> None:
    assert from_headers({"ReplyTo": Header("Q@QM")}, None).descriptor.MsgType == 1
    theirs = Mqmd(ReplyToQ="Q", PutDate="20240101")
    assert from_headers(message(MqMessage(descriptor=theirs)).headers, None).descriptor.MsgType == 8


def test_a_correlation_id_that_an_mq_application_sets_wins() -> None:
    mq = from_headers({"CorrelationId": Header("mine")}, None)
    answer = dataclasses.replace(mq, descriptor=dataclasses.replace(mq.descriptor, CorrelId=b"theirs"))
    assert message(answer).headers["CorrelationId"].text.startswith("ID:746865697273")


@pytest.mark.parametrize("text", ["ID:00ff", "ID:" + "0a" * 24])
def test_an_id_of_mq_s_own_form_is_its_bytes(text: str) -> None:
    mq = from_headers({"MessageId": Header(text), "CorrelationId": Header(text)}, None)
    assert mq.descriptor.MsgId == mq.descriptor.CorrelId == bytes.fromhex(text[3:])
    assert not mq.properties


def test_an_answer_goes_to_the_one_who_asked() -> None:
    made = message(MqMessage(descriptor=FULL), requester=Requester("_INBOX.me", "body"))
    assert made.headers["Destination"] == Header("_INBOX.me")
    assert made.address == "Q"


@pytest.mark.parametrize("reply_to", ["_INBOX.abc", "with blanks", "x" * 49, "Q@", "Q@not a name"])
def test_what_cannot_be_a_queue_is_none_to_reply_to(reply_to: str) -> None:
    assert from_headers({"ReplyTo": Header(reply_to)}, None).descriptor.ReplyToQ == ""


@pytest.mark.parametrize(
    ("expiration", "expiry"), [(0, -1), (NOW_MS + 50, 1), (NOW_MS - 1, 1), (NOW_MS + 1_000, 10)]
)
def test_expiry_is_what_is_left(expiration: int, expiry: int) -> None:
    headers = {"Expiration": Header(str(expiration), HeaderType.LONG)}
    assert from_headers(headers, None, now_ms=NOW_MS).descriptor.Expiry == expiry


@pytest.mark.parametrize(
    "headers",
    [
        {"Priority": Header("high")},
        {"mq.Report": Header("x", HeaderType.INT)},
        {"mq.Report": Header("1.5", HeaderType.DOUBLE)},
        {"mq.GroupId": Header("text")},
        {"mq.Format": Header("more than eight")},
        {"mq.Report": Header("99999999999", HeaderType.LONG)},
        {"count": Header("many", HeaderType.INT)},
        {"count": Header("300", HeaderType.BYTE)},
        {"ratio": Header("1e300", HeaderType.FLOAT)},
        {"data": Header("not Base64", HeaderType.BINARY)},
        {"MessageId": Header("/w==", HeaderType.BINARY)},
    ],
)
def test_a_header_that_is_not_what_its_name_says_is_a_soft_failure(headers: dict[str, Header]) -> None:
    with pytest.raises(EncodeError):
        from_headers(headers, b"")


def test_bytes_without_a_format_stay_bytes() -> None:
    assert from_headers({}, b"\xff").descriptor.Format == ""
    assert from_headers({}, "ü".encode()).descriptor.Format == "MQSTR"


def test_a_put_time_that_is_none_gives_no_timestamp() -> None:
    for date, clock in (("20241301", "00000000"), ("", ""), ("2024", "1"), ("٢٠٢٤"[:2], "0")):
        assert "Timestamp" not in message(MqMessage(descriptor=Mqmd(PutDate=date, PutTime=clock))).headers

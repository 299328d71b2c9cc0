"""The short way from an AMQP message to its journal record leads where the long way does, or nowhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.amqp import mutations
from tests.support.amqp import strategies as amqp

from isthmus.codecs.amqp import (
    AmqpMessage,
    AmqpValue,
    Byte,
    Data,
    MessageHeader,
    MessageProperties,
    Symbol,
    Timestamp,
)
from isthmus.codecs.jms import to_message
from isthmus.edges.amqp.entry import entry_of
from isthmus.errors import ConversionFailure, DecodeError
from isthmus.journal.fast_path import EncodedEntry, FastPath
from isthmus.journal.layout import Entry, Op, encode

GOLDEN = Path("tests/golden/amqp")
SESSION = "session-ü"
NOW = 1_794_780_306_920


def long_way(data: bytes, target: str) -> Any:
    message = to_message(data, target=target, fallback_id="none", session=SESSION, received_ms=NOW)
    return message, entry_of(message, data, as_json=False).conversion


def check(data: bytes, target: str = "target") -> EncodedEntry | None:
    """Go both ways. The short one may end in nothing, but never elsewhere."""
    arrival = FastPath(target, SESSION).read(data)
    if arrival is not None:
        message, conversion = long_way(data, target)
        assert arrival.address == message.address
        assert arrival.record() == encode(Entry(Op.ADD, message, conversion=conversion))
        other = dataclasses.replace(message, session="of the transaction")
        assert arrival.record_in("tx", other.session, 7) == encode(
            Entry(Op.ADD_TX, other, "tx", 7, conversion)
        )
    return arrival


def mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The rare one out of many: there are so many fields that else nearly every message has a rare one."""
    return st.integers(0, 19).flatmap(lambda dice: rare if dice == 7 else usual)


names = mostly(
    st.sampled_from(["Region", "Amount", "traceparent", "JMSXGroupID", "Type", "property.x", "ü"]),
    st.sampled_from(["types", "Isthmus.id", "jmsbridge.origin"]) | amqp.texts,
)
ids = mostly(
    st.sampled_from(["ID:1", "ID:ü", "ID:7-1"]),
    st.sampled_from(["ID:AMQP_UUID:x", "ID:AMQP_NO_PREFIX:x", "ID:a\0b", "x", ""]) | amqp.identities,
)
octets = st.binary(max_size=20)
short_texts = st.text(max_size=20)
foreign = {Symbol("x-opt-bridge.key"): "k"}


@st.composite
def jms_messages(draw: st.DrawFn) -> AmqpMessage:
    number = draw(st.sampled_from([3, 5]))
    annotations = {Symbol("x-opt-jms-msg-type"): draw(mostly(st.just(Byte(number)), amqp.simple_values))}
    for name in ("x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-delivery-time"):
        value = draw(mostly(st.none() | st.sampled_from([Byte(0), Byte(3)]), amqp.simple_values))
        if value is not None:
            annotations[Symbol(name)] = value
    is_text = draw(mostly(st.just(number == 5), st.booleans()))
    content_type = None if is_text else "application/octet-stream"
    return AmqpMessage(
        header=draw(
            mostly(st.builds(MessageHeader, durable=st.booleans(), priority=amqp.unsigned(8)), amqp.headers)
        ),
        message_annotations=annotations | draw(mostly(st.just({}), st.just(foreign))),
        properties=MessageProperties(
            message_id=draw(ids),
            user_id=draw(st.none() | mostly(short_texts.map(str.encode), octets)),
            to=draw(mostly(st.sampled_from([None, "orders", "öl"]), st.just(""))),
            subject=draw(st.none() | short_texts),
            reply_to=draw(st.none() | short_texts),
            correlation_id=draw(st.none() | ids),
            content_type=draw(mostly(st.just(content_type), st.sampled_from(["text/plain", ""]))),
            content_encoding=draw(mostly(st.none(), st.just("gzip"))),
            absolute_expiry_time=draw(st.none() | amqp.signed(64)),
            creation_time=draw(st.none() | amqp.signed(64)),
            group_id=draw(st.none() | short_texts),
            group_sequence=draw(mostly(st.none(), amqp.unsigned(32))),
            reply_to_group_id=draw(mostly(st.none(), short_texts)),
        ),
        application_properties=draw(st.none() | st.dictionaries(names, amqp.simple_values, max_size=4)),
        body=draw(
            amqp.texts.map(AmqpValue) if is_text else amqp.binaries.map(lambda content: Data((content,)))
        ),
        footer=draw(mostly(st.none(), st.just(foreign))),
    )


def test_the_messages_of_these_tests_take_both_ways() -> None:
    ways = {True: 0, False: 0}

    @settings(max_examples=200, database=None, derandomize=True)
    @given(jms_messages())
    def count(message: AmqpMessage) -> None:
        ways[FastPath("target", SESSION).read(message.encode()) is not None] += 1

    count()
    assert min(ways.values()) >= 20


@settings(max_examples=500)
@given(jms_messages())
def test_what_jms_clients_send_comes_out_the_same(message: AmqpMessage) -> None:
    check(message.encode())


@given(amqp.messages)
def test_whatever_amqp_can_carry_comes_out_the_same(message: AmqpMessage) -> None:
    check(message.encode())


@settings(max_examples=500)
@given(st.sampled_from(sorted(GOLDEN.glob("*.amqp"))), st.integers(0, 2**32))
def test_what_is_damaged_comes_out_the_same_or_not_at_all(file: Path, seed: int) -> None:
    check(mutations(file.read_bytes(), Random(seed)))


SHORT = [
    "bytes",
    "bytes_empty",
    "correlation_string",
    "every_property_type",
    "text",
    "text_empty",
    "text_large",
    "text_ten_properties",
    "topic_non_persistent_reply_to_temporary_queue",
]


@pytest.mark.parametrize("name", SHORT)
def test_plain_messages_of_qpid_jms_take_the_short_way(name: str) -> None:
    assert check((GOLDEN / f"{name}.amqp").read_bytes()) is not None


LONG = ["id_uuid", "correlation_uuid", "map", "object_serialized", "stream", "text_null", "message"]


@pytest.mark.parametrize("name", LONG)
def test_rare_messages_take_the_long_way(name: str) -> None:
    assert FastPath("target", SESSION).read((GOLDEN / f"{name}.amqp").read_bytes()) is None


TEXT = AmqpMessage(
    header=MessageHeader(durable=True),
    message_annotations={Symbol("x-opt-jms-msg-type"): Byte(5)},
    properties=MessageProperties(message_id="ID:1", to="orders"),
    body=AmqpValue("hello"),
)


def test_a_message_without_an_address_has_that_of_its_link() -> None:
    without = msgspec.structs.replace(TEXT, properties=MessageProperties(message_id="ID:1")).encode()
    arrival = check(without, target="link")
    assert arrival is not None
    assert arrival.address == "link"
    assert check(without, target="") is None


@pytest.mark.parametrize("name", ["isthmus.id", "JMSBRIDGE.origin", "jms.types"])
def test_a_name_of_the_bridge_s_own_is_left_to_the_long_way(name: str) -> None:
    message = msgspec.structs.replace(TEXT, application_properties={name: "forged"})
    assert FastPath("target", SESSION).read(message.encode()) is None
    with pytest.raises(ConversionFailure, match="the bridge's own"):
        long_way(message.encode(), "target")


def test_what_a_message_may_not_say_is_left_to_the_long_way_which_refuses_it() -> None:
    forged = msgspec.structs.replace(TEXT, application_properties={"ReplyTo\0": "forged"}).encode()
    not_utf_8 = TEXT.encode()[:-1] + b"\xff"
    for data in (forged, not_utf_8):
        assert FastPath("target", SESSION).read(data) is None
        with pytest.raises(DecodeError):
            long_way(data, "target")


def test_a_beginning_that_changes_with_every_message_is_not_kept_for_ever() -> None:
    way = FastPath("target", SESSION)
    for number in range(10_000):
        annotations = {**TEXT.message_annotations, Symbol("x-opt-jms-dest"): Timestamp(number)}
        assert way.read(msgspec.structs.replace(TEXT, message_annotations=annotations).encode()) is not None
    assert check(TEXT.encode()) is not None


TYPED_TEXT = "005372c11702a312782d6f70742d6a6d732d6d73672d747970655105"
PROPERTIES = "005373c00f03a10449443a3140a1057175657565"
BODY = "005377a1026869"


def test_the_bytes_of_the_next_test_are_a_message_but_for_what_is_wrong_with_them() -> None:
    assert check(bytes.fromhex(TYPED_TEXT + PROPERTIES + BODY)) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("005373c01808a10449443a3140a1057175657565404040400003616263", id="described field"),
        pytest.param("005373c11004a10449443a3140a105717565756540", id="properties that are a map"),
        pytest.param(PROPERTIES + "005374c00702a10161a10162", id="application properties that are a list"),
        pytest.param(PROPERTIES + "005374c1070ba10161a10162", id="more properties than there are"),
    ],
)
def test_what_only_looks_like_a_message_is_left_to_the_long_way(wrong: str) -> None:
    data = bytes.fromhex(TYPED_TEXT + wrong + BODY)
    assert FastPath("target", SESSION).read(data) is None
    with pytest.raises(DecodeError):
        to_message(data)

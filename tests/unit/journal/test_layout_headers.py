"""Headers in Kafka: text, the types beside it, what is reserved, and what other topics' records say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import strategies

from isthmus.journal import layout
from isthmus.journal.layout import KafkaHeaders, Record, decode_headers, decode_types, encode_headers
from isthmus.message import BodyKind, Header, HeaderType, property_header_name

INT = HeaderType.INT

# Anything an application may call a property, with what `jms.types` is made of among it.
property_names = (st.sampled_from("=;%3BDd25.types") | st.text(max_size=3)).flatmap(
    lambda piece: st.lists(st.sampled_from([piece, "%", ";", "=", "3D", "25"]), max_size=5).map("".join)
)


@settings(max_examples=50)
@given(st.dictionaries(property_names.map(property_header_name), strategies.headers_of_any_type, max_size=5))
def test_properties_of_any_name_and_type_read_back_as_they_were(headers: dict[str, Header]) -> None:
    assert decode_headers(encode_headers(headers)) == headers


@pytest.mark.parametrize("type", sorted(set(HeaderType) - {HeaderType.STRING}))
def test_every_type_but_string_is_noted_beside_the_text(type: HeaderType) -> None:
    encoded = encode_headers({"a": Header("text", type), "b": Header("text")})
    assert encoded == [("jms.a", b"text"), ("jms.b", b"text"), ("jms.types", f"a={type};".encode())]


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a=b", "a%3Db"), ("a;b", "a%3Bb"), ("100%", "100%25"), ("%3D", "%253D"), ("=;%", "%3D%3B%25")],
)
def test_a_name_cannot_break_the_list_of_types(name: str, escaped: str) -> None:
    assert layout.type_entry(name, INT) == f"{escaped}=int;"
    assert decode_types(f"x=long;{escaped}=int;y=byte;") == {
        "x": HeaderType.LONG,
        name: INT,
        "y": HeaderType.BYTE,
    }


@pytest.mark.parametrize("text", ["", ";", ";;=;", "a", "a=", "a=bigint;", "a=INT;", "a=int=;", "=", "a int"])
def test_types_that_cannot_be_read_leave_strings(text: str) -> None:
    assert decode_headers([("jms.a", b"1"), ("jms.types", text.encode())]) == {"a": Header("1")}


def test_a_type_for_a_header_that_is_not_there_is_no_header() -> None:
    assert decode_headers([("jms.types", b"a=int;")]) == {}


def test_of_several_headers_with_one_name_the_last_counts() -> None:
    assert decode_headers([("jms.a", b"1"), ("jms.a", b"2")]) == {"a": Header("2")}
    headers: KafkaHeaders = [("jms.types", b"a=int;"), ("jms.a", b"1"), ("jms.types", b"a=long;")]
    assert decode_headers(headers) == {"a": Header("1", HeaderType.LONG)}


def test_a_header_without_a_value_is_empty() -> None:
    assert decode_headers([("jms.a", None)]) == {"a": Header("")}


@pytest.mark.parametrize("types", [b"", b"a=string;", b"a=int;"])
def test_a_value_that_is_not_utf_8_is_binary_whatever_its_type_is_said_to_be(types: bytes) -> None:
    header = decode_headers([("jms.a", b"\xff\x00"), ("jms.types", types)])["a"]
    assert header.type is HeaderType.BINARY


def test_a_value_that_is_not_utf_8_keeps_its_bytes() -> None:
    assert decode_headers([("jms.a", b"\xff\x00")])["a"].value == b"\xff\x00"
    assert (
        layout.adopt("t", Record(None, b"", [("trace", b"\xff\x00")])).headers["trace"].value == b"\xff\x00"
    )


@pytest.mark.parametrize(
    "name",
    [
        "isthmus.op",
        "isthmus.anything",
        "ISTHMUS.ID",
        "Isthmus.",
        "jmsbridge.origin",
        "JMSBridge.Origin",
        "jmsbridge.x",
        "jms.types",
        "JMS.Types",
    ],
)
def test_names_of_the_bridges_own_are_reserved_in_any_case(name: str) -> None:
    assert layout.is_reserved(name)


@pytest.mark.parametrize(
    "name", ["isthmus", "isthmusx.op", "jmsbridge", "jms.type", "jms.types.x", "types", "jms.isthmus.op", ""]
)
def test_other_names_are_not(name: str) -> None:
    assert not layout.is_reserved(name)


def test_a_reserved_name_among_the_headers_is_no_header_of_the_message() -> None:
    assert decode_headers([("jms.TYPES", b"x"), ("isthmus.id", b"x"), ("jmsbridge.origin", b"x")]) == {}


@pytest.mark.parametrize("name", ["types", "Types", "TYPES", "MessageId", "JMSType", "property.x"])
def test_a_property_with_a_name_that_is_taken_survives(name: str) -> None:
    carried = property_header_name(name)
    standard = {"MessageId": Header("ID:1")}
    found = decode_headers(encode_headers(standard | {carried: Header("3", INT)}))
    assert found == {"MessageId": Header("ID:1"), f"property.{name}": Header("3", INT)}


# --- records of other topics ----------------------------------------------------------------------------


def test_a_record_of_another_topic_is_a_message_sent_to_it() -> None:
    message = layout.adopt("events", Record(b"k1", b"body", [("jms.region", b"EU"), ("trace", b"t1")]))
    assert (message.id, message.address, message.protocol) == ("k1", "events", "kafka")
    assert message.body.kind is BodyKind.BYTES
    assert message.body.slice(message.value) == b"body"
    assert message.headers == {"region": Header("EU"), "trace": Header("t1")}


def test_a_tombstone_of_another_topic_is_an_empty_message() -> None:
    message = layout.adopt("events", Record(b"k1", None, []))
    assert message.body.kind is BodyKind.EMPTY
    assert message.value is None


def test_a_record_without_a_key_has_no_id() -> None:
    assert layout.adopt("events", Record(None, b"x", [])).id == ""


def test_a_jms_header_outranks_a_plain_one_of_the_same_name() -> None:
    for headers in ([("jms.a", b"jms"), ("a", b"plain")], [("a", b"plain"), ("jms.a", b"jms")]):
        assert layout.adopt("t", Record(None, b"", headers)).headers == {"a": Header("jms")}


def test_types_hold_for_jms_headers_of_another_topic_too() -> None:
    record = Record(None, b"", [("jms.amount", b"3"), ("jms.types", b"amount=int;")])
    assert layout.adopt("t", record).headers == {"amount": Header("3", INT)}


def test_nothing_reserved_of_another_topic_becomes_a_header() -> None:
    record = Record(None, b"", [("isthmus.op", b"COMMIT"), ("ISTHMUS.id", b"x"), ("jmsbridge.origin", b"b")])
    assert layout.adopt("t", record).headers == {}


@settings(max_examples=50)
@given(strategies.foreign_records())
def test_any_record_of_another_topic_is_a_message(record: Record) -> None:
    message = layout.adopt("t", record)
    assert message.value == record.value
    assert not any(layout.is_reserved(name) for name in message.headers)

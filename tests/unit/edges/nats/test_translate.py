from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.edges.nats.client import parse_headers
from isthmus.edges.nats.translate import (
    TYPES,
    Arrived,
    HeaderLines,
    ToNats,
    body_only,
    from_nats,
    nats_mq_form,
    to_nats,
)
from isthmus.errors import ConversionFailure
from isthmus.journal.layout import Record, encode_headers
from isthmus.message import BodyKind, Header, HeaderType, Message, canonical_header_name


def record(headers: dict[str, Header], value: bytes | None = b"body") -> Record:
    return Record(b"key", value, encode_headers(headers))


def wire(lines: HeaderLines) -> dict[str, str]:
    """What a client reads of lines that a client wrote: blanks around a value do not count."""
    block = "".join(f"{name}: {value.strip()}\r\n" for name, value in lines)
    return parse_headers(f"NATS/1.0\r\n{block}\r\n".encode())


def returned(headers: dict[str, Header]) -> dict[str, Header]:
    outgoing = to_nats("j:0:1", "orders", record(headers))
    message = from_nats(Arrived("orders", outgoing.payload, wire(outgoing.headers), outgoing.reply), "own")
    return {name: header for name, header in message.headers.items() if name != "MessageId"}


def test_a_message_without_headers_has_its_subject_as_address_and_session() -> None:
    message = from_nats(Arrived("orders.new", b"hello"), "own-1")
    assert (message.id, message.address, message.protocol) == ("own-1", "orders.new", "nats")
    assert (message.value, message.body.kind, message.headers) == (b"hello", BodyKind.TEXT, {})
    assert message.session == "nats:orders.new"


def test_a_payload_that_is_not_utf8_is_bytes() -> None:
    assert from_nats(Arrived("s", b"\xff\xfe"), "own").body.kind is BodyKind.BYTES


def test_an_empty_payload_is_an_empty_text_and_no_tombstone() -> None:
    message = from_nats(Arrived("s", b""), "own")
    assert message.body.slice(message.value) == b""


def test_the_reply_subject_becomes_reply_to() -> None:
    assert from_nats(Arrived("s", b"", None, "_INBOX.1.2"), "own").headers["ReplyTo"] == Header("_INBOX.1.2")


def test_the_message_id_of_jetstream_becomes_the_id() -> None:
    message = from_nats(Arrived("s", b"", {"Nats-Msg-Id": "m-7"}), "own")
    assert message.id == "m-7"
    assert message.headers == {"MessageId": Header("m-7")}


def test_the_senders_own_message_id_outranks_that_of_jetstream() -> None:
    message = from_nats(Arrived("s", b"", {"Nats-Msg-Id": "m-7", "JMSMessageID": "ID:1"}), "own")
    assert message.id == "ID:1"


def test_a_header_given_several_times_keeps_all_its_values() -> None:
    block = b"NATS/1.0\r\nTag: a\r\nRegion: EU\r\nTag: b\r\n\r\n"
    headers = from_nats(Arrived("s", b"", parse_headers(block)), "own").headers
    assert headers == {"Tag": Header("a\nb"), "Region": Header("EU")}
    lines = to_nats("id", "s", record(dict(headers))).headers
    assert [line for line in lines if line[0] == "Tag"] == [("Tag", "a"), ("Tag", "b")]


def test_a_header_called_types_is_renamed() -> None:
    assert set(from_nats(Arrived("s", b"", {"Types": "x"}), "own").headers) == {"property.Types"}


def test_a_property_cannot_steer_nats() -> None:
    lines = to_nats("id", "s", record({"Nats-Rollup": Header("all"), "nats-ttl": Header("1s")})).headers
    assert [name for name, _ in lines] == ["Nats-Msg-Id", "property.Nats-Rollup", "property.nats-ttl"]


def test_the_stable_id_goes_with_every_message() -> None:
    assert to_nats("j:0:7", "s", record({})).headers == [("Nats-Msg-Id", "j:0:7")]


def test_reply_to_becomes_the_reply_subject() -> None:
    outgoing = to_nats("id", "s", record({"ReplyTo": Header("_INBOX.a.b")}))
    assert outgoing.reply == "_INBOX.a.b"
    assert "ReplyTo" not in dict(outgoing.headers)


def test_a_reply_to_that_is_no_subject_stays_a_header() -> None:
    outgoing = to_nats("id", "s", record({"ReplyTo": Header("a queue")}))
    assert outgoing.reply == ""
    assert dict(outgoing.headers)["ReplyTo"] == "a queue"


@pytest.mark.parametrize("subject", ["", "a b", "a.*", "a.>", ".a", "a.", "a..b", "a\r\nPUB x"])
def test_a_subject_that_nothing_can_be_published_to_is_refused(subject: str) -> None:
    with pytest.raises(ConversionFailure, match="not a subject"):
        to_nats("id", subject, record({}))


def test_a_tombstone_is_an_empty_message() -> None:
    assert to_nats("id", "s", record({}, None)).payload == b""


def test_without_headers_only_the_body_travels() -> None:
    outgoing = body_only("id", "s", record({"a": Header("1"), "ReplyTo": Header("r")}))
    assert outgoing.headers == [("Nats-Msg-Id", "id")]


@pytest.mark.parametrize("form", [to_nats, body_only])
def test_in_every_form_an_answer_goes_where_the_map_of_replies_says(form: ToNats) -> None:
    request = record({"ReplyTo": Header("RQ@QM")})
    assert form("id", "s", request, {"RQ@QM": "answers"}.get).reply == "answers"
    assert form("id", "s", request, {}.get).reply == ""


def test_without_headers_a_reply_queue_that_has_no_subject_stays_behind() -> None:
    outgoing = body_only("id", "s", record({"ReplyTo": Header("RQ@QM")}), {}.get)
    assert outgoing.headers == [("Nats-Msg-Id", "id")]


def test_a_type_that_is_not_known_leaves_a_string() -> None:
    message = from_nats(Arrived("s", b"", {"a": "1", "b": "2", TYPES: "a=roman;b=int;c"}), "own")
    assert message.headers == {"a": Header("1"), "b": Header("2", HeaderType.INT)}


def test_base64_that_is_none_leaves_the_text() -> None:
    assert from_nats(Arrived("s", b"", {"a": "%", TYPES: "a=string/base64;"}), "own").headers == {
        "a": Header("%")
    }


def test_names_with_percent_signs_of_others_stay_as_they_are() -> None:
    assert set(from_nats(Arrived("s", b"", {"a%20b": "1"}), "own").headers) == {"a%20b"}


TYPED = [
    Header.of(True),
    Header.of(-5, HeaderType.BYTE),
    Header.of(2**40),
    Header.of(1.5),
    Header.of(b"\x00\xff"),
    Header.of(None),
    Header.of("text"),
    Header.of(" blanks "),
    Header.of("two\r\nlines\n"),
    Header.of("\n"),
    Header.of("grün"),
    Header.of("x", HeaderType.CHAR),
    Header.of(" ", HeaderType.CHAR),
]


@pytest.mark.parametrize("header", TYPED, ids=repr)
def test_a_typed_header_survives_the_way_to_nats_and_back(header: Header) -> None:
    assert returned({"p": header}) == {"p": header}


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda name: (
        canonical_header_name(name) == name
        and name.strip() == name
        and not name.lower().startswith(("types", "nats-", "isthmus-", "status", "description", "property."))
        and name not in ("ReplyTo", "MessageId")
    )
)
values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=20),
    st.none(),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.text(string.whitespace + "ab", max_size=6),
)


@given(st.dictionaries(names, values.map(Header.of), max_size=6))
def test_any_headers_survive_the_way_to_nats_and_back(headers: dict[str, Header]) -> None:
    assert returned(headers) == headers


def test_the_nats_mq_form_goes_through_its_codec_both_ways() -> None:
    def decode(payload: bytes, address: str, own_id: str) -> Message:
        inner = from_nats(Arrived(address, payload[4:]), own_id)
        return Message(**{**{s: getattr(inner, s) for s in inner.__slots__}, "protocol": "mq"})

    read, write = nats_mq_form(lambda message: b"MQ::" + (message.value or b""), decode)
    outgoing = write("id", "s", record({"ReplyTo": Header("r"), "a": Header("1")}, b"x"))
    assert outgoing == ("s", b"MQ::x", [("Nats-Msg-Id", "id")], "r")
    message = read(Arrived("s", outgoing.payload, None, "r"), "own")
    assert (message.value, message.protocol, message.headers["ReplyTo"].text) == (b"x", "nats", "r")

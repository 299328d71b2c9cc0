"""The journal record: what a `Message` looks like in Kafka, and how to read one back.

==========================  ==================================================================
part                        content
==========================  ==================================================================
key                         see `key_of`
value                       the message as it arrived; null for a tombstone
headers 0 to 4              the index, always all five, always in this order:
``isthmus.op``              what the record does: see `Op`
``isthmus.address``         where the message was sent
``isthmus.protocol``        over what
``isthmus.session``         who produced it
``isthmus.body``            kind and spans of the body: ``text``, ``text:12+340``, ``bytes:12+40,60+8``
then, in a transaction      ``isthmus.tx`` and ``isthmus.seq``: which one, and the sequence in it
then, if the address has    ``isthmus.topic``: see `AddressTopic`
then, for converters        those of `CONVERSION` that apply, in that order
then ``jms.<name>``         the message's headers as text, in their order: see `kafka_name`
last ``jms.types``          ``name=type;`` for each header that is not a string
==========================  ==================================================================

The index has fixed positions so that Spark reads it by them: that halves the cost of routing a record,
compared with finding each header by its name. Most plain records (those that the router takes) have nothing
but ``isthmus.topic`` between the index and the message's own headers. No other module knows a position: those
who need one have it from `position`, `OPTIONAL_POSITIONS` and `own_headers`, or have their headers put in
order by `index_headers`, `with_topic` and `in_transaction`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from isthmus.errors import DecodeError, EncodeError
from isthmus.message import TRACE_CONTEXT, Body, BodyKind, Header, HeaderType, Message, Span


class Op(StrEnum):
    """What a journal record does. The router takes ADD; the ledger takes all others."""

    ADD = "ADD"
    DELAY = "DELAY"
    """An ADD that is not to be seen before its delivery time."""
    ADD_TX = "ADD_TX"
    ANNOTATE = "ANNOTATE"
    ANNOTATE_TX = "ANNOTATE_TX"
    DELETE = "DELETE"
    DELETE_TX = "DELETE_TX"
    PREPARE = "PREPARE"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


PLAIN = frozenset({Op.ADD, Op.DELAY, Op.ANNOTATE, Op.DELETE})
"""The operations outside of any transaction."""

OP = "isthmus.op"
ADDRESS = "isthmus.address"
PROTOCOL = "isthmus.protocol"
SESSION = "isthmus.session"
BODY = "isthmus.body"
INDEX = (OP, ADDRESS, PROTOCOL, SESSION, BODY)
"""The headers with a fixed position, in that order."""

SEPARATOR = "\0"
"""In a key, what stands between a message's id and the rest. No id has it: see `key_of`."""

DELAYED = f"{SEPARATOR}delay"
"""What stands behind a message's id in the key of a DELAY: its ADD is another record."""

TRANSACTION = "isthmus.tx"
SEQUENCE = "isthmus.seq"

TOPIC = "isthmus.topic"
"""The Kafka topic of the message's address: see `AddressTopic`."""

PARTITION = "isthmus.partition"
"""The partition of the destination that the sender asks for."""
PARTITION_NUMBER = "[0-9]{1,9}"
"""What it looks like. Anything else is no partition that there is."""
KEY = "isthmus.key"
"""The Kafka key that the sender asks for."""
JSON_VALUE = "isthmus.value"
"""The JSON text of a body that is neither text nor bytes."""
JSON_DOCUMENT = "isthmus.json"
"""The JSON document of the message up to its body, which Spark adds."""
CONVERSION = (PARTITION, KEY, JSON_VALUE, JSON_DOCUMENT)
"""What converters need beyond the index, and Spark cannot read in the message itself."""
OPTIONAL = (TOPIC, *CONVERSION)
"""The headers that may follow the index, in that order."""

RESERVED_PREFIX = "isthmus."
HEADER_PREFIX = "jms."
TYPES = "jms.types"
ORIGIN = "jmsbridge.origin"
"""The id of a bridge that published the record: what keeps messages from going in circles."""
DESTINATION = "isthmus.destination"
"""In an outbox: the subject, queue or address that the record goes to."""
DELIVERY_TIME = f"{HEADER_PREFIX}DeliveryTime"
"""Of a message that is not to be seen before: milliseconds of Unix time."""
EXPIRATION = "[0-9]{1,18}"
"""What ``jms.Expiration`` looks like: milliseconds of Unix time, 0 for never. Anything else is never, too."""
STABLE_ID = "isthmus.id"
"""``<topic>:<partition>:<offset>`` of the record that a published one was made from."""
CLIENT = "isthmus.client"
"""The client id of who sent the message: a header that intake adds for those who ask not to get their own."""
ERROR_CODE = "isthmus.error.code"
ERROR_MESSAGE = "isthmus.error.message"
ERROR_ROUTE = "isthmus.error.route"
"""What a dead letter says of itself; its `STABLE_ID` is the position in the journal."""
REPLAYS = "isthmus.replays"
"""How often the message was replayed after it had been dead-lettered."""
HISTORY = "isthmus.history"
"""One for each of these times: which dead letter it was and why, as JSON."""

BODY_POSITION: Final = INDEX.index(BODY)
OPTIONAL_POSITIONS: Final = range(len(INDEX), len(INDEX) + len(OPTIONAL))
"""Where a plain record may have headers of `OPTIONAL`, without a gap; `TOPIC` has but the first of them."""

KafkaHeader = tuple[str, bytes | None]
KafkaHeaders = Sequence[KafkaHeader]


class Record(NamedTuple):
    """A Kafka record, wherever it lies."""

    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders


class AddressTopic(NamedTuple):
    """The Kafka topic of a message's address, as the edge found it before it accepted the message.

    The router publishes to it without asking anybody: it cannot know of topics that are younger than its
    plan. As text: ``orders 4 1048588``, and `IS_DESTINATION` behind that.
    """

    name: str
    partitions: int
    """How many it had."""
    max_message_bytes: int
    """How large a record it took."""
    is_destination: bool = False
    """Whether an AMQP client sent the message, so that those who receive from the address must get it."""


IS_DESTINATION: Final = " jms"
"""What the text of an `AddressTopic` ends with, if it is a JMS destination."""


class Entry(NamedTuple):
    """What a journal record says."""

    op: Op
    message: Message
    transaction: str | None = None
    sequence: int | None = None
    conversion: KafkaHeaders = ()
    """Those of `CONVERSION` that apply."""
    topic: AddressTopic | None = None
    """None if the address has no topic, or nobody has looked."""


def stable_id(topic: str, partition: int, offset: int) -> str:
    """The id that every record published from this one carries, however often it is published."""
    return f"{topic}:{partition}:{offset}"


def is_reserved(name: str) -> bool:
    """Whether a Kafka header of this name is the bridge's own, so that no client may set it."""
    lowered = name.lower()
    return lowered.startswith((RESERVED_PREFIX, "jmsbridge.")) or lowered == TYPES


def position(name: str) -> int:
    """Where a header of the index stands, or one that says which transaction a record is in."""
    return _POSITIONS[name]


_POSITIONS: Final = {name: number for number, name in enumerate((*INDEX, TRANSACTION, SEQUENCE))}


def index_headers(
    op: KafkaHeader, address: KafkaHeader, protocol: KafkaHeader, session: KafkaHeader, body: KafkaHeader
) -> list[KafkaHeader]:
    """The index, in its order. A body that is not known yet is put at `BODY_POSITION` later."""
    return [op, address, protocol, session, body]


def in_transaction(record: Record, transaction: str, session: str, sequence: int) -> Record:
    """The ADD_TX of a message by the record of its ADD, which must have an id for its key."""
    headers = list(record.headers)
    headers[_POSITIONS[OP]] = _ADD_TX
    headers[_POSITIONS[SESSION]] = (SESSION, session.encode())
    headers[_POSITIONS[TRANSACTION] : _POSITIONS[TRANSACTION]] = [
        (TRANSACTION, transaction.encode()),
        (SEQUENCE, str(sequence).encode()),
    ]
    key = (record.key or b"") + f"{SEPARATOR}{transaction}/{sequence}".encode()
    return Record(key, record.value, headers)


_ADD_TX: Final[KafkaHeader] = (OP, Op.ADD_TX.encode())


def topic_header(topic: AddressTopic) -> KafkaHeader:
    """The header that says which topic the address has."""
    destination = IS_DESTINATION if topic.is_destination else ""
    return TOPIC, f"{topic.name} {topic.partitions} {topic.max_message_bytes}{destination}".encode()


def with_topic(record: Record, header: KafkaHeader) -> Record:
    """The record of an ADD outside of any transaction, with the `topic_header` that it does not have yet."""
    headers = list(record.headers)
    headers.insert(len(INDEX), header)
    return Record(record.key, record.value, headers)


def find_topic(headers: KafkaHeaders) -> AddressTopic | None:
    """The topic of the address that the headers of any record of the journal say; None if they say none."""
    value = next((value for name, value in headers if name == TOPIC), None)
    parsed = _TOPIC.fullmatch(_text(value))
    if parsed is None:
        return None
    return AddressTopic(parsed[1], int(parsed[2]), int(parsed[3]), parsed[4] is not None)


TOPIC_TEXT = "([a-zA-Z0-9._-]{1,249}) ([0-9]{1,9}) ([0-9]{1,9})(" + IS_DESTINATION + ")?"
"""What the text of an `AddressTopic` looks like. Python and Java read this pattern alike."""
_TOPIC = re.compile(TOPIC_TEXT)


def encode(entry: Entry) -> Record:
    """The journal record of an entry. Raises `EncodeError` for text that UTF-8 cannot carry."""
    message, op = entry.message, entry.op
    headers = index_headers(
        (OP, op.encode()),
        (ADDRESS, _utf8(message.address)),
        (PROTOCOL, _utf8(message.protocol)),
        (SESSION, _utf8(message.session)),
        (BODY, encode_body(message.body).encode()),
    )
    if op not in PLAIN:
        headers.append((TRANSACTION, _utf8(entry.transaction or "")))
        headers.append((SEQUENCE, _utf8(str(entry.sequence or 0))))
    if entry.topic is not None:
        headers.append(topic_header(entry.topic))
    headers += entry.conversion
    headers += encode_headers(message.headers)
    return Record(_utf8(key_of(entry)), message.value, headers)


def key_of(entry: Entry) -> str:
    """The key, by which a later record replaces an earlier one when the journal is compacted.

    A message goes by its id, and so does what deletes it; an outcome by its transaction. What is only about a
    message, or may never come into force, must not replace it: behind the id and a `SEPARATOR` stands what
    tells it apart.
    """
    id = entry.message.id.replace(SEPARATOR, "\N{SYMBOL FOR NULL}")
    match entry.op:
        case Op.ADD | Op.DELETE:
            return id
        case Op.DELAY:
            return id + DELAYED
        case Op.ANNOTATE:
            names = ",".join(sorted(entry.message.headers))
            return id + SEPARATOR + names.replace(SEPARATOR, "\N{SYMBOL FOR NULL}")
        case Op.ADD_TX | Op.ANNOTATE_TX | Op.DELETE_TX:
            return f"{id}{SEPARATOR}{entry.transaction or ''}/{entry.sequence or 0}"
        case _:
            return entry.transaction or ""


def op_of(record: Record) -> Op:
    """What a journal record does. Raises `DecodeError` for a record that is not laid out as one."""
    if tuple(name for name, _ in record.headers[: len(INDEX)]) != INDEX:
        raise DecodeError(f"a journal record begins with the headers {', '.join(INDEX)}")
    op = _text(record.headers[_POSITIONS[OP]][1])
    if op not in Op.__members__:
        raise DecodeError(f"unknown {OP}: {op}")
    return Op(op)


def decode(record: Record) -> Entry:
    """The entry of a journal record. Raises `DecodeError` for a record that is not laid out as one."""
    op = op_of(record)
    _, address, protocol, session, body = (_text(value) for _, value in record.headers[: len(INDEX)])
    transaction: str | None = None
    sequence: int | None = None
    start = len(INDEX)
    if op not in PLAIN:
        stated = record.headers[start : start + 2]
        if tuple(name for name, _ in stated) != (TRANSACTION, SEQUENCE):
            raise DecodeError(f"{op} without {TRANSACTION} and {SEQUENCE}")
        transaction, number = (_text(value) for _, value in stated)
        if not re.fullmatch("[0-9]{1,18}", number):
            raise DecodeError(f"{SEQUENCE} is not a number that can be a sequence: {number[:20]}")
        sequence = int(number)
        start += 2
    first = record.headers[start : start + 1]
    topic = find_topic(first)
    if topic is None and first and first[0][0] == TOPIC:
        raise DecodeError(f"{TOPIC} cannot be read: {_text(first[0][1])}")
    own = own_headers(record.headers, start)
    message = Message(
        id=_text(record.key).partition(SEPARATOR)[0],
        address=address,
        protocol=protocol,
        value=record.value,
        body=decode_body(body, record.value),
        headers=decode_headers(own),
        session=session,
    )
    conversion = [header for header in record.headers[start:] if header[0] in CONVERSION]
    return Entry(op, message, transaction, sequence, conversion, topic)


def own_headers(headers: KafkaHeaders, start: int = len(INDEX)) -> KafkaHeaders:
    """What the sender set: the headers from ``start`` on, without those of `OPTIONAL` that come first."""
    for name, _ in headers[start : start + len(OPTIONAL)]:
        if name not in OPTIONAL:
            break
        start += 1
    return headers[start:]


def partition_asked_for(record: Record) -> str | None:
    """The partition that the sender of an ADD asks for, as it stands there; None if for none."""
    for name, value in record.headers[len(INDEX) : len(INDEX) + len(OPTIONAL)]:
        if name == PARTITION:
            return _text(value)
        if name not in OPTIONAL:
            break
    return None


def encode_headers(headers: Mapping[str, Header]) -> list[tuple[str, bytes | None]]:
    """A message's headers as Kafka headers: each as text, then one with the types of those not strings."""
    encoded: list[tuple[str, bytes | None]] = []
    types = ""
    for name, (text, type) in headers.items():
        encoded.append((_kafka_names.get(name) or _kafka_name(name), _utf8(text)))
        if type is not _STRING:
            types += _type_entries.get((name, type)) or _type_entry(name, type)
    if types:
        encoded.append((TYPES, types.encode()))
    return encoded


_STRING = HeaderType.STRING
_NAMES_KEPT = 4096
_NAME_KEPT_LENGTH = 64
_kafka_names: Final[dict[str, str]] = {}
_type_entries: Final[dict[tuple[str, HeaderType], str]] = {}
"""What was made of names before: the same few come with every message."""


def kafka_name(name: str) -> str:
    """The Kafka header that a message's header is. Those who trace look for theirs by their own names."""
    return name if name in TRACE_CONTEXT else HEADER_PREFIX + name


def _kafka_name(name: str) -> str:
    made = _utf8(kafka_name(name)).decode()
    if len(_kafka_names) < _NAMES_KEPT and len(name) <= _NAME_KEPT_LENGTH:
        _kafka_names[name] = made
    return made


def _type_entry(name: str, type: HeaderType) -> str:
    made = type_entry(name, type)
    if len(_type_entries) < _NAMES_KEPT and len(name) <= _NAME_KEPT_LENGTH:
        _type_entries[name, type] = made
    return made


def decode_headers(headers: KafkaHeaders) -> dict[str, Header]:
    """The message's headers among Kafka headers; of several with one name the last counts.

    A value that is not UTF-8 is binary, whatever its type is said to be.
    """
    values: dict[str, bytes] = {}
    types: Mapping[str, HeaderType] = {}
    for name, value in headers:
        own = _own_names[name] if name in _own_names else _own_name(name)
        if own is not None:
            values[own] = value or b""
        elif name == TYPES:
            types = _types(value or b"")
    return {name: header_of(value, types.get(name, _STRING)) for name, value in values.items()}


_own_names: Final[dict[str, str | None]] = {}


def is_own(name: str) -> bool:
    """Whether a Kafka header is one of a message's: ``jms.<name>``, or one that has no prefix."""
    return (name.startswith(HEADER_PREFIX) or name in TRACE_CONTEXT) and not is_reserved(name)


def _own_name(name: str) -> str | None:
    """The name of a message's header by that of the Kafka header; None if it is none."""
    own = is_own(name)
    made = name.removeprefix(HEADER_PREFIX) if own else None
    if len(_own_names) < _NAMES_KEPT and len(name) <= _NAME_KEPT_LENGTH:
        _own_names[name] = made
    return made


def types_of(headers: KafkaHeaders) -> Mapping[str, HeaderType]:
    """The types that Kafka headers say of others, by the name of the message's header."""
    for name, value in reversed(headers):  # it comes last
        if name == TYPES:
            return _types(value or b"")
    return _NO_TYPES


def _types(value: bytes) -> Mapping[str, HeaderType]:
    return _known_types(value) if len(value) <= _TYPES_KEPT_BYTES else decode_types(_text(value))


_NO_TYPES: Final[Mapping[str, HeaderType]] = {}
_TYPES_KEPT_BYTES = 512


@lru_cache(1024)
def _known_types(value: bytes) -> Mapping[str, HeaderType]:
    return decode_types(_text(value))


def adopt(topic: str, record: Record) -> Message:
    """A record of another Kafka topic as the message that it is to the router: its address is its topic.

    Headers ``jms.<name>`` are the message's headers; any other is one of its own name, unless that is taken.
    """
    foreign = {
        name: header_of(value or b"", HeaderType.STRING)
        for name, value in record.headers
        if not is_own(name) and not is_reserved(name)
    }
    return Message(
        id=_text(record.key),
        address=topic,
        protocol="kafka",
        value=record.value,
        body=Body(BodyKind.EMPTY if record.value is None else BodyKind.BYTES),
        headers=foreign | decode_headers(record.headers),
    )


def header_of(value: bytes, type: HeaderType) -> Header:
    """The header of a Kafka header's value; one that is not UTF-8 is binary, whatever it is said to be."""
    try:
        return cast(Header, _make(Header, (value.decode(), type)))
    except UnicodeDecodeError:
        return Header.of(value)


_make: Final = cast(Any, tuple.__new__)
"""Makes a named tuple faster than its class does."""


_TYPES = frozenset(type.value for type in HeaderType)


def type_entry(name: str, type: HeaderType) -> str:
    """One entry of ``jms.types``. Spark looks for this very text."""
    return f"{_escape(name)}={type};"


def decode_types(text: str) -> dict[str, HeaderType]:
    """What ``jms.types`` says. An entry that cannot be read, or of a type yet unknown, leaves a string."""
    types = {}
    for entry in text.split(";"):
        name, _, type_name = entry.partition("=")
        if type_name in _TYPES:
            types[_unescape(name)] = HeaderType(type_name)
    return types


def encode_body(body: Body) -> str:
    """The text of ``isthmus.body``."""
    spans = body.spans
    if len(spans) == 1:  # nearly always
        offset, length = spans[0]
        return f"{body.kind}:{offset}+{length}"
    text = ",".join(f"{offset}+{length}" for offset, length in spans)
    return f"{body.kind}:{text}" if text else str(body.kind)


_BODY_KINDS = frozenset(kind.value for kind in BodyKind)
SPANS = r"[0-9]{1,9}\+[0-9]{1,9}(?:,[0-9]{1,9}\+[0-9]{1,9})*+"
"""Where a body lies: ``offset+length``, once or more often. Python and Java read this pattern alike.

The repetition is possessive: any other one of a group is a recursion in Java, and ends in a stack overflow.
"""
_BODY = re.compile(rf"([a-z]+)(?::({SPANS}))?")


def decode_body(text: str, value: bytes | None) -> Body:
    """Where the body is. Raises `DecodeError` when that cannot be read, or lies outside the value."""
    parsed = _BODY.fullmatch(text)
    if parsed is not None and parsed[1] in _BODY_KINDS:
        spans = tuple(Span(*map(int, span.split("+"))) for span in (parsed[2] or "").split(",") if span)
        if all(offset + length <= len(value or b"") for offset, length in spans):
            return Body(BodyKind(parsed[1]), spans)
    raise DecodeError(f"{BODY} cannot be read: {text}")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise EncodeError(f"not text that UTF-8 can carry: {text[:50]!r}") from None


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _escape(name: str) -> str:
    return name.replace("%", "%25").replace(";", "%3B").replace("=", "%3D")


def _unescape(name: str) -> str:
    return name.replace("%3D", "=").replace("%3B", ";").replace("%25", "%")

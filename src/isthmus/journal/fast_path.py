"""From the bytes of an AMQP message straight to its journal record. Compiled with mypyc where there is a C
compiler.

The general path is `isthmus.codecs.jms.to_message` and `isthmus.journal.layout.encode`: it makes a `Message`
with a dictionary of headers, of which it then makes Kafka's. That is for everything. The fast path is for
what nearly every message of a JMS client is, in a quarter of the time: text or bytes, with ids and addresses
that are strings and properties of any type. What comes out is the same record, header for header.

What the fast path is not for, it says so, by None: rare fields, foreign annotations, names of the bridge's
own, a body that is neither text nor bytes, and all that is wrong with a message. The general path finds out.

Header and annotations come first in a message, and a producer's are the same bytes in all of its messages, so
what they mean is kept from one message to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from isthmus.codecs.amqp.constructors import TYPES
from isthmus.codecs.amqp.indexer import check_text, header_of_value, index
from isthmus.codecs.amqp.reader import Reader, u32
from isthmus.codecs.jms.headers import header_name, standard_headers
from isthmus.codecs.jms.kinds import IMPLIED_CONTENT_TYPES, MESSAGE_TYPES
from isthmus.codecs.jms.names import DESTINATION_TYPE, MESSAGE_TYPE, REPLY_TO_TYPE
from isthmus.errors import IsthmusError
from isthmus.journal import layout
from isthmus.journal.layout import (
    ADDRESS,
    BODY,
    BODY_POSITION,
    HEADER_PREFIX,
    OP,
    PROTOCOL,
    SESSION,
    KafkaHeader,
    Op,
    Record,
    encode_headers,
    in_transaction,
    index_headers,
    is_reserved,
    kafka_name,
    type_entry,
    with_topic,
)
from isthmus.message import BodyKind, Header, HeaderType

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

_ADD: Final[KafkaHeader] = (OP, Op.ADD.encode())
_AMQP: Final[KafkaHeader] = (PROTOCOL, b"amqp")
_NO_BODY: Final[KafkaHeader] = (BODY, None)
_MESSAGE_ID: Final = "jms.MessageId"
_CORRELATION_ID: Final = "jms.CorrelationId"
_USER_ID: Final = "jms.JMSXUserID"
_DESTINATION: Final = "jms.Destination"
_TIMESTAMP: Final = "jms.Timestamp"
_EXPIRATION: Final = "jms.Expiration"
_TIMESTAMP_TYPE: Final = type_entry("Timestamp", HeaderType.LONG)
_EXPIRATION_TYPE: Final = type_entry("Expiration", HeaderType.LONG)

_ALWAYS: Final = 4
"""How many headers every message has, whatever it says: the first ones of `standard_headers`."""
_FIELDS: Final = bytes.fromhex("a1 a0 a1 a1 a1 a1 a3 40 83 83 a1 40 40")
"""The fields of the properties, in order: the constructor that they have, or null for a rare field."""
_LATER_FIELDS: Final = [(4, "jms.ReplyTo"), (3, "jms.Type"), (10, "jms.JMSXGroupID")]
"""Those that become a header as they are, behind what annotations say."""

_KINDS: Final = {number: kind for kind, number in MESSAGE_TYPES.items()}
_BYTES_TYPE: Final = IMPLIED_CONTENT_TYPES[BodyKind.BYTES].encode()
_ANNOTATIONS: Final = frozenset({MESSAGE_TYPE, DESTINATION_TYPE, REPLY_TO_TYPE})
"""Those of usual messages. One with a delivery time is another operation of the journal, perhaps."""

_TEXT: Final = BodyKind.TEXT
_BYTES: Final = BodyKind.BYTES
_STRING: Final = HeaderType.STRING
_INT: Final = HeaderType.INT
# An enumeration's members are found slowly, and every message asks for these.

_make: Final = cast(Any, tuple.__new__)
"""Makes a named tuple faster than its class does."""

_KEPT: Final = 4096
_KEPT_BYTES: Final = 256
_beginnings: Final[dict[bytes, Beginning]] = {}
_names: Final[dict[bytes, str]] = {}
_type_entries: Final[dict[tuple[str, HeaderType], str]] = {}
_addresses: Final[dict[bytes, tuple[str, KafkaHeader, KafkaHeader]]] = {}
"""What was seen before: the same few come with every message."""


class Beginning:
    """What the sections before the properties say."""

    def __init__(self, data: bytes) -> None:
        parts = index(data)
        number = parts.annotations.get(MESSAGE_TYPE)
        self.kind = _KINDS.get(number) if isinstance(number, int) else None
        """What the annotation says that the message is."""
        headers = list(standard_headers(parts, self.kind or BodyKind.TEXT, None).items())
        self.first, self.first_types = _encoded(dict(headers[:_ALWAYS]))
        """What stands before the properties' own headers, and the types of that."""
        self.then, self.then_types = _encoded(dict(headers[_ALWAYS:]))
        """What stands behind the times among them."""
        self.ttl = parts.header.ttl is not None
        self.rare = not _ANNOTATIONS.issuperset(parts.annotations)


class EncodedEntry:
    """A message on its way to the journal: where it was sent, and its record as an ADD."""

    def __init__(self, address: str, record: Record) -> None:
        self.address: str = address
        self._record: Record = record

    def set_topic(self, header: KafkaHeader) -> None:
        """Have its record say which topic the address has. Call it once, before any other method."""
        self._record = with_topic(self._record, header)

    def record(self) -> Record:
        """Its record outside of any transaction."""
        return self._record

    def record_of(self, session: str) -> Record:
        """Its record outside of any transaction, of a session that need not be the link's."""
        key, value, headers = self._record
        name = session.encode()
        if headers[3][1] == name:
            return self._record
        own = list(headers)
        own[3] = (SESSION, name)
        return Record(key, value, own)

    def record_in(self, transaction: str, session: str, sequence: int) -> Record:
        """Its record as an ADD_TX."""
        return in_transaction(self._record, transaction, session, sequence)


class FastPath:
    """For the messages of one link."""

    def __init__(self, target: str, session: str) -> None:
        self._target: bytes = target.encode()
        self._session: KafkaHeader = (SESSION, session.encode())

    def read(self, data: bytes) -> EncodedEntry | None:
        """The message of these bytes; None if only the general path can tell what it is."""
        try:
            return self._read(data)
        except (IndexError, UnicodeDecodeError, IsthmusError):
            return None  # there is something wrong with it

    def _read(self, data: bytes) -> EncodedEntry | None:
        pos: i64 = 0
        while data[pos] == 0 and data[pos + 1] == 0x53 and data[pos + 2] < 0x73:
            pos = _end_of(data, pos + 3)
        if data[pos] != 0 or data[pos + 1] != 0x53 or data[pos + 2] != 0x73:
            return None
        beginning = _beginning(data[:pos])
        if beginning.rare:
            return None

        reader = Reader(data, pos + 3)
        fields = _strings(reader)
        if fields is None:
            return None
        id = fields[0]
        to = fields[2] or self._target
        if id is None or not to or id[:3] != b"ID:" or id[:8] == b"ID:AMQP_" or b"\0" in id:
            return None
        address, address_header, destination = _address(to)
        headers = index_headers(_ADD, address_header, _AMQP, self._session, _NO_BODY)
        types = beginning.first_types
        headers += beginning.first
        headers.append((_MESSAGE_ID, id))
        correlation_id = fields[5]
        if correlation_id is not None:
            if correlation_id[:8] == b"ID:AMQP_":
                return None
            headers.append((_CORRELATION_ID, correlation_id))
        user_id = fields[1]
        if user_id is not None:
            headers.append((_USER_ID, user_id))
        timestamp, expiration = fields[9], fields[8]
        if timestamp is not None:
            headers.append((_TIMESTAMP, timestamp))
            types += _TIMESTAMP_TYPE
        if expiration is not None:
            headers.append((_EXPIRATION, expiration))
            types += _EXPIRATION_TYPE
        elif beginning.ttl:
            return None
        if beginning.then:
            headers += beginning.then
            types += beginning.then_types
        for number, name in _LATER_FIELDS:
            value = fields[number]
            if value is not None:
                headers.append((name, value))
        headers.append(destination)

        pos = reader.pos
        if data[pos] == 0 and data[pos + 1] == 0x53 and data[pos + 2] == 0x74:
            reader.pos = pos + 3
            more_types = _properties(reader, headers)
            if more_types is None:
                return None
            types += more_types
            pos = reader.pos
        body = _body(data, pos, beginning.kind, fields[6])
        if body is None:
            return None
        headers[BODY_POSITION] = (BODY, body.encode())
        if types:
            headers.append((layout.TYPES, types.encode()))
        return EncodedEntry(address, cast(Record, _make(Record, (id, data, headers))))


def _end_of(data: bytes, pos: i64) -> i64:
    """Where the list or map ends whose constructor is at this position."""
    code: i64 = data[pos]
    if code == 0x45:
        return pos + 1
    if code == 0xC0 or code == 0xC1:
        return pos + 2 + data[pos + 1]
    return pos + 5 + u32(data, pos + 1)


def _beginning(data: bytes) -> Beginning:
    known = _beginnings.get(data)
    if known is None:
        known = Beginning(data)
        if len(_beginnings) >= _KEPT:
            _beginnings.clear()  # some clients have another one in every message
        if len(data) <= _KEPT_BYTES:
            _beginnings[data] = known
    return known


def _encoded(headers: dict[str, Header]) -> tuple[list[KafkaHeader], str]:
    """Headers as Kafka's, and what their types are."""
    encoded = encode_headers(headers)
    if encoded and encoded[-1][0] == layout.TYPES:
        return encoded[:-1], (encoded[-1][1] or b"").decode()
    return encoded, ""


def _address(to: bytes) -> tuple[str, KafkaHeader, KafkaHeader]:
    known = _addresses.get(to)
    if known is None:
        known = (to.decode(), (ADDRESS, to), (_DESTINATION, to))
        if len(_addresses) < _KEPT and len(to) <= _KEPT_BYTES:
            _addresses[to] = known
    return known


def _strings(reader: Reader) -> list[bytes | None] | None:
    """The fields of the properties, as headers have them; None if there is a rare one among them."""
    buf = reader.buf
    fields: list[bytes | None] = [None] * len(_FIELDS)
    outer = reader.end
    compound: i64 = buf[reader.pos]
    if compound != 0xC0 and compound != 0xD0:
        return None
    reader.pos += 1
    count = reader.open(compound)
    if count > len(_FIELDS):
        return None
    pos = reader.pos
    for number in range(count):
        code: i64 = buf[pos]
        if code == 0x40:
            pos += 1
            continue
        if code != _FIELDS[number]:
            return None
        if code == 0x83:
            fields[number] = _number(buf, pos + 1, 8)
            pos += 9
            continue
        start = pos + 2
        pos = start + buf[pos + 1]
        text = buf[start:pos]
        check_text(text)
        fields[number] = text
    reader.pos = pos
    reader.close(outer)
    return fields


def _properties(reader: Reader, headers: list[KafkaHeader]) -> str | None:
    """Add the application properties to the headers; return their types, or None if there is a rare one."""
    buf = reader.buf
    types = ""
    outer = reader.end
    compound: i64 = buf[reader.pos]
    if compound != 0xC1 and compound != 0xD1:
        return None
    reader.pos += 1
    count = reader.open(compound) >> 1
    pos = reader.pos
    seen: set[str] = set()
    for _ in range(count):
        if buf[pos] != 0xA1:
            return None
        start = pos + 2
        pos = start + buf[pos + 1]
        raw_name = buf[start:pos]
        name = _names.get(raw_name) or _name(raw_name)
        if name is None:
            return None
        seen.add(name)
        code: i64 = buf[pos]
        if code == 0xA1:
            start = pos + 2
            pos = start + buf[pos + 1]
            text = buf[start:pos]
            check_text(text)
            headers.append((name, text))
            continue
        if code == 0x71:
            headers.append((name, _number(buf, pos + 1, 4)))
            pos += 5
            type = _INT
        elif code == 0x54:
            headers.append((name, _number(buf, pos + 1, 1)))
            pos += 2
            type = _INT
        elif code >= 0xC0 or code == 0x45 or TYPES[code] == 0:
            return None
        else:
            reader.pos = pos
            value_text, type = header_of_value(reader.value())
            pos = reader.pos
            headers.append((name, value_text.encode()))
        if type is not _STRING:
            types += _type_entries.get((name, type)) or _type_entry(name, type)
    reader.pos = pos
    reader.close(outer)
    return types if len(seen) == count else None


def _number(buf: bytes, pos: i64, size: i64) -> bytes:
    """The text of a signed number of so many bytes. One that is cut off does not end where it should."""
    return str(int.from_bytes(buf[pos : pos + size], "big", signed=True)).encode()


def _name(raw: bytes) -> str | None:
    """The name of the Kafka header of a property; None if it is one of the bridge's own."""
    name = header_name(raw.decode())
    if is_reserved(name.removeprefix("property.")):
        return None
    made = kafka_name(name)
    if len(_names) < _KEPT and len(raw) <= _KEPT_BYTES:
        _names[raw] = made
    return made


def _type_entry(name: str, type: HeaderType) -> str:
    made = type_entry(name.removeprefix(HEADER_PREFIX), type)
    if len(_type_entries) < _KEPT and len(name) <= _KEPT_BYTES:
        _type_entries[name, type] = made
    return made


def _body(data: bytes, pos: i64, kind: BodyKind | None, content_type: bytes | None) -> str | None:
    """What the journal says of the body that begins here and ends the message: a text or bytes."""
    if data[pos] != 0 or data[pos + 1] != 0x53:
        return None
    section: i64 = data[pos + 2]
    code: i64 = data[pos + 3]
    start: i64
    length: i64
    if code == 0xA0 or code == 0xA1:
        start = pos + 5
        length = data[pos + 4]
    elif code == 0xB0 or code == 0xB1:
        start = pos + 8
        length = u32(data, pos + 4)
    else:
        return None
    if start + length != len(data):
        return None
    if section == 0x77 and code & 1 == 1 and kind is _TEXT and content_type is None:
        check_text(data[start:])
        return f"text:{start}+{length}"
    if section == 0x75 and code & 1 == 0 and kind is _BYTES and content_type == _BYTES_TYPE:
        return f"bytes:{start}+{length}"
    return None

"""NATS messages ↔ `Message`: a NATS header ``X`` is the header ``X`` of the message, in both directions.

================================  ====================================================================
in NATS                           in the message
================================  ====================================================================
payload                           value and body: ``text`` if it is UTF-8, else ``bytes``
subject                           address, and session: messages of one subject keep their order
reply subject                     ``ReplyTo``
``MessageId``, ``Nats-Msg-Id``    id and ``MessageId``; without either the id is the edge's own
``Isthmus-Types``                 the types of headers that are not strings, as in ``jms.types``
a header given several times      one header, its values in lines of their own
``traceparent``, ``tracestate``   the same, however they are capitalised
any other ``X``                   ``X``; standard headers may have their JMS names, ``types`` is renamed
================================  ====================================================================

NATS carries lines of text without blanks at their ends, under names of printable ASCII. What does not fit
comes back as it was all the same: a name is percent-encoded, a value is written in Base64 and
``Isthmus-Types`` says so (``name=string/base64;``). Nobody steers NATS with a property: on the way out,
``Nats-Rollup`` and its like become ``property.Nats-Rollup``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote, unquote

from isthmus.errors import ConversionFailure
from isthmus.journal import layout
from isthmus.journal.layout import Record
from isthmus.message import (
    TRACE_CONTEXT,
    Body,
    BodyKind,
    Header,
    HeaderType,
    Message,
    canonical_header_name,
    property_header_name,
)

TYPES = "Isthmus-Types"
MESSAGE_ID = "Nats-Msg-Id"
_BASE64 = "/base64"
_RESERVED = re.compile(r"(?:nats-|isthmus-types$|status$|description$)", re.IGNORECASE)
"""Headers that mean something to a server or to a client library, or to us."""
_SAFE_NAME = "!#$&'*+-.^_`|~"
"""What a name may have beside letters and digits; ``%`` itself is escaped."""
_SUBJECT = re.compile(r"[^\s.*>]+(?:\.[^\s.*>]+)*")
# A line that every client hands on as it is: no control characters, and no blanks that could be trimmed.
_LINE = re.compile(r"(?![\s])[^\x00-\x1f\x7f\u0085\u2028\u2029]*(?<!\s)|")

HeaderLines = Sequence[tuple[str, str]]


class Arrived(NamedTuple):
    """A message as NATS hands it out."""

    subject: str
    payload: bytes
    headers: Mapping[str, str] | None = None
    """Several values under one name stand in lines of their own."""
    reply: str = ""


class Outgoing(NamedTuple):
    """A message as NATS takes it."""

    subject: str
    payload: bytes
    headers: HeaderLines
    """Name and value; several of one name are several values."""
    reply: str = ""


def from_nats(arrived: Arrived, own_id: str) -> Message:
    """The message that arrived. ``own_id`` is its id unless it brings one."""
    headers = _headers(arrived.headers) if arrived.headers else {}
    if arrived.reply:
        headers["ReplyTo"] = Header(arrived.reply)
    if "MessageId" not in headers and arrived.headers and (given := arrived.headers.get(MESSAGE_ID)):
        headers["MessageId"] = Header(given)
    identity = headers.get("MessageId")
    return Message(
        id=identity.text if identity is not None and identity.text else own_id,
        address=arrived.subject,
        protocol="nats",
        value=arrived.payload,
        body=Body(_kind(arrived.payload)),
        headers=headers,
        session=_session(arrived.subject),
    )


Replies = Callable[[str], str | None]
"""From a ``ReplyTo`` to the subject that answers to it go to, if there is one."""
FromNats = Callable[[Arrived, str], Message]
ToNats = Callable[[str, str, Record, Replies], Outgoing]


def own_subject(reply_to: str) -> str | None:
    """The subject that a ``ReplyTo`` is, where there is no map of replies."""
    return reply_to


def to_nats(stable_id: str, subject: str, record: Record, replies: Replies = own_subject) -> Outgoing:
    """What is published for a record: its value, its headers, and the id to drop duplicates by.

    A ``ReplyTo`` for which there is no subject stays a header. Raises `ConversionFailure` for a subject that
    nothing can be published to.
    """
    headers = layout.decode_headers(record.headers)
    if reply := _reply_subject(headers, replies):
        del headers["ReplyTo"]
    return _outgoing(subject, record.value, _lines(stable_id, headers), reply)


def body_only(stable_id: str, subject: str, record: Record, replies: Replies = own_subject) -> Outgoing:
    """What is published for a record whose headers stay behind: value, id, trace, where an answer goes."""
    headers = layout.decode_headers(record.headers)
    reply = _reply_subject(headers, replies)
    return _outgoing(subject, record.value, _lines(stable_id, _trace(headers)), reply)


def nats_mq_form(
    encode: Callable[[Message], bytes], decode: Callable[[bytes, str, str], Message]
) -> tuple[FromNats, ToNats]:
    """The two ways for payloads in the message format of the NATS-MQ bridge, on top of a codec for it.

    ``decode`` is given payload, subject and the id that the message has unless it brings one. A reply subject
    outranks what the payload says of replies, and NATS' own headers what it says of the trace: so they do on
    the way out. Both raise what their codec raises for what it cannot take.
    """

    def read(arrived: Arrived, own_id: str) -> Message:
        message = decode(arrived.payload, arrived.subject, own_id)
        reply = {"ReplyTo": Header(arrived.reply)} if arrived.reply else {}
        trace = _trace(_headers(arrived.headers)) if arrived.headers else {}
        return replace(
            message,
            address=arrived.subject,
            protocol="nats",
            headers={**message.headers, **trace, **reply},
            session=_session(arrived.subject),
        )

    def write(stable_id: str, subject: str, record: Record, replies: Replies = own_subject) -> Outgoing:
        message = layout.adopt(subject, record)
        reply = _reply_subject(message.headers, replies)
        return _outgoing(subject, encode(message), _lines(stable_id, _trace(message.headers)), reply)

    return read, write


def _trace(headers: Mapping[str, Header]) -> dict[str, Header]:
    return {name: headers[name] for name in TRACE_CONTEXT if name in headers}


def _reply_subject(headers: Mapping[str, Header], replies: Replies) -> str:
    reply = headers.get("ReplyTo")
    if reply is None or reply.type is not HeaderType.STRING:
        return ""
    subject = replies(reply.text)
    return subject if subject and _SUBJECT.fullmatch(subject) else ""


def _outgoing(subject: str, payload: bytes | None, headers: HeaderLines, reply: str) -> Outgoing:
    if not _SUBJECT.fullmatch(subject):
        raise ConversionFailure(f"not a subject that can be published to: {subject[:100]!r}")
    return Outgoing(subject, payload or b"", headers, reply)


def _session(subject: str) -> str:
    return f"nats:{subject}"


def _kind(payload: bytes) -> BodyKind:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return BodyKind.BYTES
    return BodyKind.TEXT


def _headers(given: Mapping[str, str]) -> dict[str, Header]:
    types = given.get(TYPES)
    type_of = {} if types is None else dict(_type_entries(types))
    headers: dict[str, Header] = {}
    for written, text in given.items():
        if written in (TYPES, MESSAGE_ID):
            continue
        name = written if types is None else unquote(written)
        lowered = name.lower()
        if lowered in TRACE_CONTEXT:
            name = lowered
        else:
            name = property_header_name(name) if lowered == "types" else canonical_header_name(name)
        type = type_of.get(written)
        headers.setdefault(name, Header(text) if type is None else _header(text, type))
    return headers


def _type_entries(text: str) -> list[tuple[str, str]]:
    entries = (entry.rpartition("=") for entry in text.split(";"))
    return [(name, type) for name, _, type in entries if name]


def _header(text: str, type: str) -> Header:
    """The header that the text stands for. What cannot be read as its type says is a string."""
    name = type.removesuffix(_BASE64)
    known = HeaderType(name) if name in _TYPE_NAMES else HeaderType.STRING
    if type.endswith(_BASE64):
        try:
            text = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return Header(text)
    return Header(text, known)


_TYPE_NAMES = frozenset(type.value for type in HeaderType)


def _lines(stable_id: str, headers: Mapping[str, Header]) -> list[tuple[str, str]]:
    lines = [(MESSAGE_ID, stable_id)]
    types: list[str] = []
    escaped = False
    for name, (text, type) in headers.items():
        written = quote(f"property.{name}" if _RESERVED.match(name) else name, safe=_SAFE_NAME)
        escaped |= "%" in written
        if _LINE.fullmatch(text):
            lines.append((written, text))
            if type is not HeaderType.STRING:
                types.append(f"{written}={type};")
        elif "\n" in text and type is HeaderType.STRING and all(map(_LINE.fullmatch, text.split("\n"))):
            lines += [(written, line) for line in text.split("\n")]
        else:
            lines.append((written, base64.b64encode(text.encode()).decode()))
            types.append(f"{written}={type}{_BASE64};")
    if types or escaped:
        lines.append((TYPES, "".join(types) or ";"))
    return lines

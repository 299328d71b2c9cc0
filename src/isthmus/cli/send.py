"""``isthmus send``: one message, or one a line, into the journal."""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isthmus.cli.bridge import ConfigFile, connect, read_settings
from isthmus.errors import EncodeError
from isthmus.message import (
    INTEGER_RANGES,
    STANDARD_HEADERS,
    Body,
    BodyKind,
    Header,
    HeaderType,
    Message,
    canonical_header_name,
    property_header_name,
)

if TYPE_CHECKING:
    from isthmus.config import Settings
    from isthmus.journal.layout import AddressTopic
    from isthmus.kafka.options import Kafka

_STANDARD_TYPES = {
    "DeliveryTime": HeaderType.LONG,
    "Expiration": HeaderType.LONG,
    "Priority": HeaderType.INT,
    "Redelivered": HeaderType.BOOLEAN,
    "Timestamp": HeaderType.LONG,
}
"""The standard headers that are not strings."""


def send(
    file: ConfigFile = None,
    address: Annotated[str, typer.Option("--address", "-a", help="Where the message is sent.")] = ...,  # type: ignore[assignment]
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", help="A header, [bold]name=value[/], e.g. CorrelationId=42. Repeatable."
        ),
    ] = None,
    property: Annotated[
        list[str] | None,
        typer.Option(
            "--property", "-p", help="A property with its type, [bold]name:type=value[/], e.g. amount:int=3."
        ),
    ] = None,
    body: Annotated[str | None, typer.Option("--body", "-b", help="The body, as text.")] = None,
    body_file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A file whose bytes are the body.", exists=True)
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="One message a line of the input.")] = False,
    session: Annotated[
        str | None, typer.Option("--session", help="Who sends: the messages of one session keep their order.")
    ] = None,
) -> None:
    """Send a message through the journal, as an edge would. The body comes from an option or standard input.

    Prints the place of each message in the journal once Kafka has it there.
    """
    if body is not None and body_file is not None:
        raise typer.BadParameter("--body and --file exclude each other")
    headers = dict(header_of(text) for text in header or ()) | dict(
        property_of(text) for text in property or ()
    )
    if body is not None:
        content = os.fsencode(body)  # as the shell gave it, were it no text at all
    else:
        content = body_file.read_bytes() if body_file else sys.stdin.buffer.read()
    bodies = content.splitlines() if lines else [content]
    _send(file, address, headers, bodies, session or f"send-{uuid.uuid4()}")


def _send(
    file: Path | None, address: str, headers: dict[str, Header], bodies: list[bytes], session: str
) -> None:
    from isthmus.converters.conversion_headers import conversion_headers
    from isthmus.journal.layout import Entry, Op
    from isthmus.journal.writer import JournalWriter

    settings = read_settings(file)
    kafka = connect(settings)
    topic = _topic(settings, kafka, address)
    with JournalWriter(kafka, settings.journal) as writer:
        places = []
        for content in bodies:
            message_id = headers.get("MessageId", Header(f"ID:{uuid.uuid4()}"))
            standard = {
                "MessageId": message_id,
                "Timestamp": Header.of(time.time_ns() // 1_000_000, HeaderType.LONG),
            }
            message = Message(
                id=message_id.text,
                address=address,
                protocol="isthmus",
                value=content,
                body=Body(BodyKind.TEXT if _is_text(content) else BodyKind.BYTES),
                headers=standard | headers,
                session=session,
            )
            conversion = conversion_headers(message, json=settings.uses_json)
            places.append(writer.write(Entry(Op.ADD, message, conversion=conversion, topic=topic)))
        for place in places:
            typer.echo(place.result())


def _topic(settings: Settings, kafka: Kafka, address: str) -> AddressTopic | None:
    """The topic of the address, which an edge would have looked for."""
    from isthmus.config.model.values import is_topic_name
    from isthmus.edges.addresses import address_topic
    from isthmus.kafka.blocking import describe
    from isthmus.routing.route import topic_of_address

    name = topic_of_address(address)
    if not (settings.keeps_destinations or settings.message_convert) or name in settings.reserved_topics:
        return None
    if not is_topic_name(name):
        return None
    facts = describe(kafka, [name]).get(name)
    return None if facts is None else address_topic(name, facts, keep=settings.keeps_destinations)


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def header_of(text: str) -> tuple[str, Header]:
    """The header that ``name=value`` on the command line stands for."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not name=value")
    canonical = canonical_header_name(name)
    if canonical in STANDARD_HEADERS:
        return canonical, _typed(value, _STANDARD_TYPES.get(canonical, HeaderType.STRING))
    return property_header_name(name), Header(value)


def property_of(text: str) -> tuple[str, Header]:
    """The property that ``name:type=value`` on the command line stands for."""
    named, equals, value = text.partition("=")
    name, colon, type_name = named.rpartition(":")
    if not name or not equals or not colon:
        raise typer.BadParameter(f"{text!r} is not name:type=value")
    try:
        type = HeaderType(type_name)
    except ValueError:
        known = ", ".join(HeaderType)
        raise typer.BadParameter(f"{type_name!r} is not a type; there are {known}") from None
    return property_header_name(name), _typed(value, type)


def _typed(text: str, type: HeaderType) -> Header:
    """The header that a text on the command line stands for. Checked: the journal tells no lies."""
    try:
        if type in INTEGER_RANGES:
            return Header.of(int(text), type)
        match type:
            case HeaderType.BOOLEAN if text in ("true", "false"):
                return Header(text, type)
            case HeaderType.FLOAT | HeaderType.DOUBLE:
                return Header.of(float(text), type)
            case HeaderType.NULL if not text:
                return Header("", type)
            case HeaderType.STRING | HeaderType.SYMBOL:
                return Header(text, type)
            case HeaderType.CHAR if len(text) == 1:
                return Header(text, type)
            case HeaderType.UUID:
                return Header(str(uuid.UUID(text)), type)
            case HeaderType.BINARY:
                return Header.of(bytes.fromhex(text), type)
    except (ValueError, EncodeError) as error:
        raise typer.BadParameter(f"{text!r} is not a {type}: {error}") from None
    raise typer.BadParameter(f"{text!r} is not a {type}")

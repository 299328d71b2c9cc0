"""``isthmus send``: one message, or one a line, into the journal or over AMQP."""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isthmus.cli.amqp import PANEL, Login, Password, TlsCa, Url, User
from isthmus.cli.bridge import ConfigFile, connect, read_settings
from isthmus.errors import EncodeError
from isthmus.message import (
    INTEGER_RANGES,
    STANDARD_HEADERS,
    STANDARD_TYPES,
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

Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", help="A header, `name=value`, e.g. CorrelationId=42. Repeatable."),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-p",
        help="A property with its type, `name:type=value`, e.g. amount:int=3. Repeatable.",
    ),
]


def send(
    file: ConfigFile = None,
    address: Annotated[
        str,
        typer.Option(
            "--address", "-a", help="Where the message is sent. With --amqp, topic://news is a JMS topic."
        ),
    ] = ...,  # type: ignore[assignment]
    header: Headers = None,
    property: Properties = None,
    body: Annotated[str | None, typer.Option("--body", "-b", help="The body, as text.")] = None,
    body_file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A file whose bytes are the body.", exists=True)
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="One message a line of the input.")] = False,
    session: Annotated[
        str | None, typer.Option("--session", help="Who sends: the messages of one session keep their order.")
    ] = None,
    amqp: Annotated[
        bool, typer.Option("--amqp", rich_help_panel=PANEL, help="Send over AMQP 1.0, as a JMS client does.")
    ] = False,
    url: Url = None,
    user: User = None,
    password: Password = None,
    tls_ca: TlsCa = None,
    as_bytes: Annotated[
        bool,
        typer.Option("--bytes", rich_help_panel=PANEL, help="A bytes message, even where the body is text."),
    ] = False,
) -> None:
    """Send a message: straight into the journal, or with --amqp over AMQP, as a JMS client does.

    The body comes from an option or standard input. Prints the position of each message in the journal once
    Kafka has it there; with --amqp, the message id of each once the bridge has accepted it.

    For example:

      isthmus send --amqp -a orders -H CorrelationId=c-7 -p n:int=42 --body hello
      isthmus send --amqp --url amqps://bridge:5671 --user shop -a orders -f a.bin
      isthmus send -a orders --lines bridge.properties < orders.txt
    """
    login = Login(url, user, password, tls_ca)
    if not amqp and (as_bytes or login.is_given):
        raise typer.BadParameter("--url, --user, --tls-ca and --bytes need --amqp")
    if amqp and session is not None:
        raise typer.BadParameter("--session is for messages that are not sent with --amqp")
    headers = dict(header_of(text) for text in header or ()) | dict(
        property_of(text) for text in property or ()
    )
    bodies = bodies_of(body, body_file, lines=lines)
    if amqp:
        _send_amqp(read_settings(file, warn=False), login, address, headers, bodies, as_bytes=as_bytes)
    else:
        _send(file, address, headers, bodies, session or f"send-{uuid.uuid4()}")


def bodies_of(text: str | None, file: Path | None, *, lines: bool, option: str = "--body") -> list[bytes]:
    """What is to be sent: of the option, of the file, or of standard input."""
    if text is not None and file is not None:
        raise typer.BadParameter(f"{option} and --file exclude each other")
    if text is not None:
        content = os.fsencode(text)  # as the shell gave it, were it no text at all
    else:
        content = file.read_bytes() if file else sys.stdin.buffer.read()
    return content.splitlines() if lines else [content]


def _send(
    file: Path | None, address: str, headers: dict[str, Header], bodies: list[bytes], session: str
) -> None:
    from isthmus.converters.conversion_headers import conversion_headers
    from isthmus.journal.layout import Entry, Op
    from isthmus.journal.writer import JournalWriter

    settings = read_settings(file, warn=False)
    kafka = connect(settings)
    topic = _topic(settings, kafka, address)
    with JournalWriter(kafka, settings.journal) as writer:
        places = []
        for content in bodies:
            all_headers = _standard() | headers
            message = Message(
                id=all_headers["MessageId"].text,
                address=address,
                protocol="isthmus",
                value=content,
                body=Body(BodyKind.TEXT if _is_text(content) else BodyKind.BYTES),
                headers=all_headers,
                session=session,
            )
            conversion = conversion_headers(message, json=settings.uses_json)
            places.append(writer.write(Entry(Op.ADD, message, conversion=conversion, topic=topic)))
        for place in places:
            typer.echo(place.result())


def _send_amqp(
    settings: Settings,
    login: Login,
    address: str,
    headers: dict[str, Header],
    bodies: list[bytes],
    *,
    as_bytes: bool,
) -> None:
    from isthmus.codecs.jms import to_amqp
    from isthmus.codecs.jms.names import DESTINATION_TYPE
    from isthmus.config.model.brokers import Node
    from isthmus.edges.amqp.client.exchange import send_all

    node = Node.of(address)
    own = {"DeliveryMode": Header("PERSISTENT"), DESTINATION_TYPE: Header(node.capability)}
    ids, messages = [], []
    for content in bodies:
        all_headers = _standard() | own | headers
        kind = BodyKind.TEXT if _is_text(content) and not as_bytes else BodyKind.BYTES
        ids.append(all_headers["MessageId"].text)
        messages.append(to_amqp(all_headers, kind, content, address=node.address).encode())
    send_all(login.broker(settings), node, messages, lambda number: typer.echo(ids[number]))


def _standard() -> dict[str, Header]:
    """The headers that a message has unless it brings them."""
    return {
        "MessageId": Header(f"ID:{uuid.uuid4()}"),
        "Timestamp": Header.of(time.time_ns() // 1_000_000, HeaderType.LONG),
    }


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
        return canonical, _typed(value, STANDARD_TYPES.get(canonical, HeaderType.STRING))
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
    except EncodeError as error:
        raise typer.BadParameter(f"{text!r} is not of the type {type}: {error}") from None
    except ValueError:
        pass  # what Python says of it is about Python
    raise typer.BadParameter(f"{text!r} is not of the type {type}")

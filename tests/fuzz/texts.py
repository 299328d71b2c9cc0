"""The doors that take a text or a document: selectors, predicates, configuration, HTTP, and the codecs."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from tests.fuzz import amqp, bridge_message
from tests.fuzz.door import Door, Opening, damaged_text
from tests.support.monitor import watched
from uvicorn.server import ServerState

from isthmus import config
from isthmus.codecs.amqp import AmqpMessage, AmqpValue, MessageProperties
from isthmus.config.syntax import properties
from isthmus.converters import ReceivedRecord, converter
from isthmus.edges.addresses import _possible
from isthmus.edges.amqp.server.receivers.selector import Selector
from isthmus.errors import ConfigError, DecodeError, PredicateError, SelectorError, SoftFailure
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.monitor.app import MonitorApp
from isthmus.monitor.explaining import typed_headers
from isthmus.monitor.guard import Access
from isthmus.monitor.server import http_config
from isthmus.routing.predicate import matches, parse
from isthmus.telemetry.metrics import RouterMetrics

TRIED_WHOLE = 100
"""Of so many configurations one is judged as a whole, which takes longer than to read it."""

SELECTORS = [
    "region = 'EU' AND amount > 3",
    "JMSPriority BETWEEN 3 AND 7 OR JMSType IN ('a', 'b') AND NOT (x IS NULL)",
    "name LIKE '%a%a%a%a%a%a%b' ESCAPE '\\'",
    "price * 2 + -1.5e3 / rate <> 0x1F AND flag = TRUE",
    "((((a = 1))))",
    "JMSCorrelationID = 'it''s' AND name NOT LIKE '_x%'",
]
SELECTOR_PARTS = [
    "(",
    ")",
    "NOT ",
    "'",
    "%",
    "_",
    " AND ",
    " OR ",
    "a",
    "=",
    "0",
    "9",
    "-",
    "LIKE ",
    "IN (",
    "1e999",
]
PREDICATES = [
    "msg.address==orders && msg.header.Region==EU",
    "msg.address =~ '^orders[.](eu|us)$' || exists(msg.header.x)",
    "!(msg.header.amount > 3) && msg.address in ('a', \"b\")",
    "msg.header['a b'] <= 7",
]
PREDICATE_PARTS = [
    "(",
    ")",
    "!",
    "&&",
    "||",
    "'",
    "=~",
    "a",
    "(a+)+",
    "msg.",
    ".",
    "9",
    "[",
    "\\",
    "in (",
    "*",
]
CONFIGURATIONS = [
    "bridge.id=b\nroutes.x.predicate=msg.address==x\nroutes.x.dest.topic=t\nroutes.x.conv.key=msg.header.K\n",
    "amqp.port=0\namqp.users.file=users\namqps.port=1\nmonitor.host=0.0.0.0\nmonitor.token=${env:T}\n",
    "nats.servers=nats://a:1\nnats.intake.i.subject=a.>\nconnectors.c.type=Queue2NATS\n",
    "kafka.x\\ y=\\u00e9\\\n z\n",
    "# comment\n!x\npipeline.real-time.batch=120s\njournal.partitions=4\nrouting.source.topics=a,b\n",
]
CONFIGURATION_PARTS = [
    "=",
    ":",
    "\\",
    "\\u",
    "${",
    "${env:",
    "${file:",
    "}",
    "\n",
    "routes.",
    "#",
    " ",
    ".",
    "9",
    "*",
]
REQUESTS = [
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
    "GET /healthz HTTP/1.0\r\nHost: 127.0.0.1:9464\r\nAuthorization: Bearer abcdefghijklmnop\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: [::1]\r\nAuthorization: Basic dTpwYXNzd29yZA==\r\nContent-Length: 3\r\n\r\nabc",
    "POST /varz HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
]
REQUEST_PARTS = [
    "\r\n",
    ":",
    " ",
    "/",
    "%00",
    "Host: ",
    "HTTP/",
    "1.1",
    "\n",
    "\t",
    "x",
    "9",
    "Bearer ",
    "Basic ",
    "=",
]
TYPED_HEADERS = [
    "region: EU\namount: {long: 5}\nflag: true\nnothing:\n",
    "at: {timestamp: 2026-02-03T04:05:06Z}\n'a b': \"x\\n\"\nprice: -1.5e3\n",
    "a0: &a {k: v}\na1: &b {<<: [*a, *a, *a, *a]}\na2: {<<: [*b, *b, *b, *b]}\n",
]
TYPED_HEADER_PARTS = [
    ": ",
    "{",
    "}",
    "[",
    "&a ",
    "*a",
    "<<: ",
    "!!bool ",
    "!!timestamp ",
    "2026-02-30",
    "0x_",
    "|\n",
    "- ",
    "? ",
    "---",
    "9",
]
DOCUMENT_PARTS = [
    '"',
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "1e999",
    "\\u",
    "\\ud800",
    "-",
    "9",
    "NaN",
    "types",
]

MESSAGES = [
    AmqpMessage(
        properties=MessageProperties(message_id="ID:1", to="orders", correlation_id="it's"),
        application_properties={
            "region": "EU",
            "amount": 5,
            "a": 1,
            "name": "a" * 80,
            "x": None,
            "flag": True,
        },
        body=AmqpValue("x"),
    ),
    AmqpMessage(application_properties={"price": 2.5, "rate": 0, "name": "ab" * 4000}),
]
ROUTED = [
    Message(
        id="m",
        address=address,
        protocol="amqp",
        value=b"",
        body=Body(BodyKind.TEXT),
        headers={"Region": Header("EU"), "amount": Header("4"), "x": Header("a" * 200)},
    )
    for address in ("orders", "orders.eu", "a" * 200)
]


def text_doors(folder: Path) -> dict[str, Opening]:
    """Those that need nothing else to run."""
    return {
        "codec": _codec,
        "msgpack": _door("msgpack", _msgpack_input, bridge_message.survives),
        "json": _door("json", _json_input, _read_document),
        "selectors": _door("selectors", _text(SELECTORS, SELECTOR_PARTS), _select),
        "predicates": _door("predicates", _text(PREDICATES, PREDICATE_PARTS), _route),
        "typed headers": _door("typed headers", _text(TYPED_HEADERS, TYPED_HEADER_PARTS), _type_headers),
        "properties": _door("properties", _text(CONFIGURATIONS, CONFIGURATION_PARTS), _configure(folder)),
        "http": _http,
    }


def _door(name: str, make: Callable[[Random], object], take: Callable[..., bool]) -> Opening:
    async def taken(data: object) -> bool:
        return take(data)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Door]:
        yield Door(name, make, taken)

    return opened


def _text(sound: list[str], telling: list[str]) -> Callable[[Random], str]:
    return lambda random: damaged_text(sound, telling, random)


@asynccontextmanager
async def _codec() -> AsyncIterator[Door]:
    golden = [path.read_bytes() for path in sorted(amqp.GOLDEN.glob("*.amqp"))]
    keys = _many_keys()

    async def take(data: bytes) -> bool:
        taken = False
        for read in amqp.WAYS:
            try:
                read(data)
                taken = True
            except DecodeError:
                pass
            await asyncio.sleep(0)
        return taken

    yield Door(
        "codec",
        lambda random: keys if random.randrange(10_000) == 0 else amqp.inputs(random, golden),
        take,
    )


def _many_keys() -> bytes:
    """A message of half a megabyte whose map has integer keys that a ``dict`` would put into few places."""
    modulus = 2**61 - 1
    parts = b"".join(b"\x80" + struct.pack(">Q", n * modulus % 2**64) + b"\x40" for n in range(50_000))
    return b"\x00\x53\x77\xd1" + struct.pack(">II", len(parts) + 4, 100_000) + parts


def _msgpack_input(random: Random) -> bytes:
    match random.randrange(4):
        case 0:
            return bridge_message.any_bytes(random)
        case 1:
            return bridge_message.right_keys(random)
        case 2:
            return bridge_message.sound_message(random).encode()
        case _:
            return bridge_message.damaged(random, bridge_message.sound_message(random).encode())


def _json_input(random: Random) -> bytes:
    value = converter("json").to_kafka_record(random.choice(MESSAGES)).value or b""
    text = damaged_text([value.decode(), json.dumps(json.loads(value), indent=1)], DOCUMENT_PARTS, random)
    data = text.encode(errors="replace")
    return amqp.mutations(data, random) if random.randrange(4) == 0 else data


def _read_document(data: bytes) -> bool:
    try:
        message = converter("json").to_amqp_message("a", ReceivedRecord("t", 0, 0, None, data))
    except SoftFailure:
        return False
    message.encode()
    return True


def _select(text: str) -> bool:
    try:
        selector = Selector(text)
    except SelectorError:
        return False
    for message in MESSAGES:
        selector.wants(message)
    return True


def _route(text: str) -> bool:
    try:
        predicate = parse(text)
    except PredicateError:
        return False
    for message in ROUTED:
        _possible(predicate, message.address)  # what the AMQP server asks
        matches(predicate, message)
    return True


def _type_headers(text: str) -> bool:
    try:
        typed_headers(text)
    except ConfigError:
        return False
    return True


def _configure(folder: Path) -> Callable[[str], bool]:
    file, count = folder / "fuzz.properties", 0

    def configure(text: str) -> bool:
        nonlocal count
        count += 1
        file.write_bytes(text.encode(errors="surrogatepass"))
        if count % TRIED_WHOLE:
            return properties.read(file)[0] is not None
        return not config.read(file, {"T": "x" * 16}).errors

    return configure


class _Client(asyncio.Transport):
    """A client of the monitor, which gets an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = bytearray()
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.answer += data

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


@asynccontextmanager
async def _http() -> AsyncIterator[Door]:
    bridge = watched(RouterMetrics("b", {"r": "t"}))
    tokens = (None, "abcdefghijklmnop")
    configs = [http_config(MonitorApp(bridge, Access("127.0.0.1", token))) for token in tokens]
    for each in configs:
        each.load()

    async def take(data: bytes) -> bool:
        taken = True
        for served in configs:
            client, state = _Client(), ServerState()
            connection = served.http_protocol_class(config=served, server_state=state, app_state={})
            connection.connection_made(client)
            if data:  # asyncio hands over nothing else
                connection.data_received(data)
            while state.tasks:
                await asyncio.wait(state.tasks)
            connection.connection_lost(None)
            assert not client.answer.startswith(b"HTTP/1.1 5")
            taken = taken and client.answer.startswith(b"HTTP/1.1 200 ")
        return taken

    make = _text(REQUESTS, REQUEST_PARTS)
    yield Door("http", lambda random: make(random).encode("latin-1", "replace"), take)

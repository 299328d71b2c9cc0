"""Messages for the page, read from Kafka when somebody looks.

Bodies are left out unless ``monitor.show-bodies`` says otherwise, also where a header has one as JSON; how
long they are is always there.
"""

from __future__ import annotations

import codecs
import heapq
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Message

from isthmus.config.model.settings import Settings
from isthmus.errors import ConfigError, DecodeError
from isthmus.journal import layout
from isthmus.journal.layout import KafkaHeaders, Op, Record
from isthmus.kafka.blocking import read_last
from isthmus.kafka.options import Kafka
from isthmus.kafka.received import record_of
from isthmus.routing.route import Route

LAST: Final = 20
LAST_OF_JOURNAL: Final = 50
MAX_SHOWN: Final = 4_000
"""How much of a value the page gets, in bytes."""

Shown = dict[str, Any]


def route_named(settings: Settings, name: str) -> Route:
    """The route. Raises `ConfigError` if there is none of that name."""
    for route in settings.routes:
        if route.name == name:
            return route
    raise ConfigError(f"there is no route {name}")


def last_published(settings: Settings, kafka: Kafka, name: str) -> Shown:
    """The last records that the bridge has published to where the route publishes, the youngest first."""
    route = route_named(settings, name)
    origin = (layout.ORIGIN, settings.bridge_id.encode())
    destination = None if route.destination is None else (layout.DESTINATION, route.destination.encode())
    found = []
    for message in read_last(kafka, route.topic, 5 * LAST):
        record = record_of(message)
        if origin in record.headers and (destination is None or destination in record.headers):
            found.append(_shown(message, record, record.value, bodies=settings.monitor.show_bodies))
    others = [each.name for each in settings.routes if each.topic == route.topic and each.name != name]
    return {
        "messages": _youngest(found, LAST),
        "shared_with": [] if destination is not None else others,
        "bodies": settings.monitor.show_bodies,
    }


def last_journaled(settings: Settings, kafka: Kafka, count: int = LAST_OF_JOURNAL) -> list[Shown]:
    """The last messages of the journal, the youngest first."""
    return _youngest(
        [
            {
                **_shown(message, record, None, bodies=settings.monitor.show_bodies),
                "address": entry.message.address,
                "protocol": entry.message.protocol,
            }
            for message, record, entry in journaled(settings, kafka, count)
        ],
        count,
    )


def journaled(settings: Settings, kafka: Kafka, count: int) -> Iterator[tuple[Message, Record, layout.Entry]]:
    """About so many of the last messages of each partition of the journal."""
    for message in read_last(kafka, settings.journal.topic, count):
        record = record_of(message)
        try:
            entry = layout.decode(record)
        except DecodeError:
            continue
        if entry.op is Op.ADD:
            yield message, record, entry


def _youngest(found: list[Shown], count: int) -> list[Shown]:
    return heapq.nlargest(
        count, found, key=lambda each: (each["time_ms"], int(each["position"].rpartition(":")[2]))
    )


def _shown(message: Message, record: Record, body: bytes | None, *, bodies: bool) -> Shown:
    return {
        "position": layout.stable_id(message.topic() or "", message.partition() or 0, message.offset() or 0),
        "time_ms": message.timestamp()[1],
        **shown_record(record, body, bodies=bodies),
    }


def shown_record(record: Record, body: bytes | None, *, bodies: bool) -> Shown:
    """A record, with its body if that may be seen."""
    return {
        "key": text_of(record.key),
        "headers": shown_headers(record.headers, bodies=bodies),
        "size": len(record.value or b""),
        "body": text_of(body) if bodies else None,
    }


def shown_headers(headers: KafkaHeaders, *, bodies: bool) -> list[tuple[str, str | None]]:
    """A record's headers, without the one that is the body if that may not be seen."""
    return [(name, text_of(value)) for name, value in headers if bodies or name != layout.JSON_VALUE]


def text_of(data: bytes | None) -> str | None:
    """Bytes for people: as text where they are UTF-8, in hex where they are not; not more than fits."""
    if data is None:
        return None
    cut = "" if len(data) <= MAX_SHOWN else f" … ({len(data)} bytes)"
    try:
        text, _ = codecs.utf_8_decode(data[:MAX_SHOWN], "strict", not cut)  # the last one may be cut in two
    except UnicodeDecodeError:
        return data[: MAX_SHOWN // 4].hex(" ") + cut
    return text + cut

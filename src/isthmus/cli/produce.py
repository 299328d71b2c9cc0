"""``isthmus produce``: one record, or one a line, straight into a Kafka topic."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isthmus.cli.bridge import ConfigFile, connect, read_settings
from isthmus.cli.send import Properties, bodies_of, property_of
from isthmus.errors import ConfigError, HardFailure

if TYPE_CHECKING:
    from isthmus.config import Settings
    from isthmus.kafka.options import Kafka


def produce(
    file: ConfigFile = None,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic.")] = ...,  # type: ignore[assignment]
    key: Annotated[str | None, typer.Option("--key", "-k", help="The record's key.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="A header as Kafka has it, `name=value`. Repeatable."),
    ] = None,
    property: Properties = None,
    value: Annotated[str | None, typer.Option("--value", "-v", help="The record's value, as text.")] = None,
    value_file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A file whose bytes are the value.", exists=True)
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="One record a line of the input.")] = False,
    tombstone: Annotated[bool, typer.Option("--tombstone", help="A record without a value.")] = False,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="The partition, in place of the key's.")
    ] = None,
) -> None:
    """Produce a record to a Kafka topic, as any Kafka application does: JMS clients receive it from there.

    The value comes from an option or standard input. A header `jms.CorrelationId` is JMSCorrelationID
    to a JMS client; a property with its type, which --property gives, is a property of that type. On the
    embedded Kafka the topic is made if it is not there. Prints the position of each record once Kafka has it.

    For example:

      isthmus produce --topic answers --key c-7 -p status:int=200 --value done
      isthmus receive --amqp -a answers
    """
    if tombstone and (value is not None or value_file is not None or lines):
        raise typer.BadParameter("--tombstone is in place of a value")
    from isthmus.journal.layout import Record, encode_headers
    from isthmus.kafka.blocking import produce_all

    properties = dict(property_of(text) for text in property or ())
    headers = [*map(_header, header or ()), *encode_headers(properties)]
    values = [None] if tombstone else bodies_of(value, value_file, lines=lines, option="--value")
    settings = read_settings(file, warn=False)
    if topic in settings.reserved_topics:
        raise ConfigError(f"{topic} is Kafka's or the bridge's own: others write nothing there")
    kafka = connect(settings)
    _need_topic(settings, kafka, topic)
    octets = None if key is None else os.fsencode(key)
    records = [Record(octets, each, headers) for each in values]
    for position in produce_all(kafka, topic, records, partition):
        typer.echo(position)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not name=value")
    return name, os.fsencode(value)


def _need_topic(settings: Settings, kafka: Kafka, topic: str) -> None:
    """See that the topic is there; make it where an AMQP client's address would get one."""
    from isthmus.config.model.values import is_topic_name
    from isthmus.kafka.blocking import create_topics, describe

    if not is_topic_name(topic):
        raise ConfigError(f"no topic can have the name {topic!r:.300}")
    if topic in describe(kafka, [topic]):
        return
    creates = settings.kafka.embedded if settings.amqp.auto_create is None else settings.amqp.auto_create
    if not creates:
        raise HardFailure(
            f"there is no topic {topic}", remedy="make it, or set amqp.auto-create=true, then try again"
        )
    create_topics(kafka, [topic], 1)  # as a JMS queue has: its receivers find the records in order

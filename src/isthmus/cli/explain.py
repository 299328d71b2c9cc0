"""``isthmus explain FILE``: which route takes a message, and why each before it does not.

Nothing is published. The message comes from options, from a file, or from a position in the journal. Exit 0
if it would be published or left as the configuration says, 1 if it would be a soft failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from isthmus.cli.bridge import Place, connect, position_of, read_settings
from isthmus.cli.send import header_of, property_of
from isthmus.cli.show import as_json, print_record, printable
from isthmus.config import Settings
from isthmus.converters.captured import line_record
from isthmus.errors import ConfigError, SoftFailure
from isthmus.journal.layout import Record
from isthmus.message import Header
from isthmus.routing.plan import Outcome

if TYPE_CHECKING:
    from isthmus.kafka.options import Kafka
    from isthmus.routing.explain import Explanation, Result, Term

_MEANINGS = {
    Outcome.UNMATCHED: "no route takes it: it stays in the journal",
    Outcome.LOOPED: "this bridge published it itself: it is left",
    Outcome.NON_DURABLE: "it is not durable, and routing.non-durable is skip: it stays in the journal",
    Outcome.EXPIRED: "its Expiration is past: it stays in the journal",
    Outcome.IGNORED: "not a message for the router: a tombstone, or a record for the ledger",
    Outcome.SKIPPED: "a soft failure: it is skipped, and stays in the journal",
    Outcome.STOPPED: "a soft failure that stops the bridge",
}


def explain(
    file: Annotated[Path, typer.Argument(help="The bridge's configuration file.")],
    address: Annotated[str | None, typer.Option("--address", "-a", help="Where the message is sent.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="A header, `name=value`, e.g. region=EU. Repeatable."),
    ] = None,
    property: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", help="A property with its type, `name:type=value`."),
    ] = None,
    body: Annotated[str | None, typer.Option("--body", "-b", help="The body, as text.")] = None,
    position: Annotated[
        str | None,
        typer.Option(
            "--position",
            "-P",
            help="A message that is there already: `partition:offset` in the journal, or an "
            "`isthmus.id` (topic:partition:offset of the journal or of a source topic).",
        ),
    ] = None,
    captured: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            help="A captured message: an encoded AMQP message, or a line of `isthmus receive --json` "
            "on the journal or a source topic; `-` for standard input.",
        ),
    ] = None,
    connected: Annotated[
        bool, typer.Option("--connect", help="Ask Kafka about topics, their sizes and partitions.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Explain what becomes of a message: which route takes it, and why each earlier one does not, term by
    term; its key; and the record that would be published, or the soft failure. Nothing is published.

    For example `isthmus explain bridge.properties -a orders -H region=EU --body hello`, or
    `isthmus explain bridge.properties --position 0:17` for one that the journal has.
    """
    if sum(each is not None for each in (body, position, captured)) > 1:
        raise typer.BadParameter("--body, --position and --file exclude each other")
    if (header or property) and (position is not None or captured is not None):
        raise typer.BadParameter("a message that is given by --position or --file has its headers already")
    if position is None and captured is None and address is None:
        raise typer.BadParameter("which message? --address with -H and --body, --position, or --file")
    from isthmus.journal.explained import explanation, known_place, stored_record

    settings = read_settings(file)
    headers = dict(map(header_of, header or ())) | dict(map(property_of, property or ()))
    kafka = connect(settings) if connected or position is not None else None
    place: Place | None = None
    if kafka is not None and position is not None:
        place = known_place(settings, position_of(position, settings.journal.topic))
        record = stored_record(kafka, place)
    elif captured is not None:
        place, record = _captured(settings, kafka, captured, address)
    else:
        record = _given(settings, kafka, address or "", headers, body)
    explained = explanation(settings, kafka, record, place)
    if json:
        typer.echo(as_json(**asdict(explained)))
    else:
        _print(Console(highlight=False, soft_wrap=True, markup=False), explained)
    if any(each.code is not None for each in explained.results):
        raise typer.Exit(1)


def _given(
    settings: Settings, kafka: Kafka | None, address: str, headers: dict[str, Header], body: str | None
) -> Record:
    from isthmus.journal.explained import topic_for
    from isthmus.routing.explain import sample

    content = None if body is None else os.fsencode(body)
    topic = topic_for(settings, kafka, address)
    try:
        return sample(address, headers, content, json=settings.uses_json, topic=topic)
    except SoftFailure as error:
        raise ConfigError(f"the bridge refuses such a message: {error}") from None


def _captured(
    settings: Settings, kafka: Kafka | None, name: str, address: str | None
) -> tuple[Place | None, Record]:
    from isthmus.codecs.jms import to_message
    from isthmus.journal.explained import known_place, topic_for
    from isthmus.routing.explain import journaled

    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        if data.lstrip().startswith(b"{"):  # an AMQP message begins with a zero
            received = line_record(data)
            place = known_place(settings, (received.topic, received.partition, received.offset))
            return place, Record(received.key, received.value, received.headers)
        message = to_message(data, target=address or "", fallback_id="ID:captured", session="sample")
        topic = topic_for(settings, kafka, message.address)
        return None, journaled(message, json=settings.uses_json, topic=topic)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from None
    except SoftFailure as error:
        raise ConfigError(f"{name} is not a message that the bridge takes: {error}") from None


def _print(console: Console, explanation: Explanation) -> None:
    where = explanation.address if explanation.address is not None else "a record that cannot be read"
    console.print(Text.assemble((printable(where), "bold"), "  ", explanation.position or ""))
    for route in explanation.routes:
        mark, style = ("✓", "bold green") if route.takes else ("✗", "bold red")
        console.print(
            Text.assemble(
                (f"{mark} {route.name}", style), " takes it" if route.takes else " does not take it"
            )
        )
        for line in _term_lines(route.term, 1):
            console.print(line)
        if route.why_not is not None:
            console.print(f"    {route.why_not}")
    for result in explanation.results:
        _print_result(console, result)
    for each in explanation.assumed:
        console.print(Text(f"assumed: {each}", "dim"))


def _term_lines(term: Term, depth: int) -> Iterator[Text]:
    mark, style = ("✓", "green") if term.holds else ("✗", "red")
    if term.field is None:
        found = ""
    else:
        name = term.field.removeprefix("msg.header.")
        found = f"   {name} is not there" if term.found is None else f"   {name} is {term.found!r}"
    yield Text.assemble("  " * depth, (mark, style), " ", printable(term.text), (printable(found), "dim"))
    for each in term.terms:
        yield from _term_lines(each, depth + 1)


def _print_result(console: Console, result: Result) -> None:
    by = f" by {result.route}" if result.route is not None else ""
    if result.code is not None:
        failure = f"soft failure{by}: {printable(result.reason or '')} (code {result.code})"
        console.print(Text(failure, "bold yellow"))
    if result.topic is None:
        console.print(_MEANINGS[result.outcome])
        return
    partition = "" if result.partition is None else f", partition {result.partition}"
    key = "" if result.key_from is None else f", with the key from {result.key_from}"
    console.print(Text.assemble(f"{result.outcome}{by} to ", (result.topic, "bold"), partition, key))
    print_record(console, (), Record(result.key, result.value, result.headers), result.value)

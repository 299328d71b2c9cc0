"""``isthmus receive``: what is in a Kafka topic, readably."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from rich.console import Console

from isthmus.cli.bridge import ConfigFile, connect, read_settings
from isthmus.cli.show import as_json, print_record, record_of


def receive(
    file: ConfigFile = None,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic to read.")] = ...,  # type: ignore[assignment]
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Only what comes from now on; implies --follow.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show the records of a Kafka topic: key, headers with their types, and body."""
    from isthmus.kafka.blocking import read_topic

    console = Console(highlight=False, soft_wrap=True)
    records = read_topic(connect(read_settings(file)), topic, from_beginning=not new, follow=follow or new)
    try:
        for message in islice(records, count):
            record = record_of(message)
            place = f"{topic}:{message.partition()}:{message.offset()}"
            if json:
                typer.echo(as_json(place=place, **record._asdict()))
            else:
                print_record(console, [(place, "bold green")], record, record.value)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    finally:
        records.close()

"""``isthmus journal``: what is in a bridge's journal, readably, and commands that write into it.

``isthmus journal FILE`` is short for ``isthmus journal show FILE``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from isthmus.cli.bridge import ConfigFile, connect, read_settings
from isthmus.cli.journal_writing import annotate, commit, delete, prepare, rollback
from isthmus.cli.lazy import Group, group
from isthmus.cli.show import as_json, print_record, record_of
from isthmus.errors import DecodeError
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.ledger.live import live as live_records
from isthmus.routing.predicate import matches, parse

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage


class _ShownByDefault(Group):
    """Takes ``show`` for granted where no other command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command's name where it was left out."""
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["show", *args])


journal = group(
    "journal", "Read a bridge's journal, or write into it what the ledger is to do.", cls=_ShownByDefault
)


@journal.command()
def show(
    file: ConfigFile = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", help="Only messages for which a route's predicate holds.")
    ] = None,
    op: Annotated[Op | None, typer.Option("--op", help="Only records that do this.")] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Only what is neither deleted, nor decided, nor replaced.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Read a bridge's journal: every message as it arrived, with its index.

    For example `isthmus journal --where 'msg.address==orders && msg.header.amount>100'`.
    """
    from isthmus.kafka.blocking import read_topic

    if live and follow:
        raise typer.BadParameter("what is live can change with every record to come", param_hint="--live")
    predicate = None if where is None else parse(where)
    settings = read_settings(file)
    console = Console(highlight=False, soft_wrap=True)
    kafka, topic = connect(settings), settings.journal.topic
    records = (
        live_records(lambda: read_topic(kafka, topic)) if live else read_topic(kafka, topic, follow=follow)
    )

    def wanted(entry: Entry | None) -> bool:
        if entry is None:
            return predicate is None and op is None
        return (op is None or entry.op is op) and (predicate is None or matches(predicate, entry.message))

    try:
        for place, record, entry in islice(filter(lambda each: wanted(each[2]), _entries(records)), count):
            body = record.value if entry is None else entry.message.body.slice(record.value)
            if json:
                address = None if entry is None else entry.message.address
                about = {"op": entry and entry.op, "address": address}
                typer.echo(as_json(place=place, **about, key=record.key, headers=record.headers, body=body))
            else:
                unread = "tombstone" if record.value is None else "not a journal record"
                what = unread if entry is None else f"{entry.op} {entry.message.address}"
                print_record(console, [(place, "bold green"), (what, "bold")], record, body)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    finally:
        records.close()


for command in (delete, annotate, prepare, commit, rollback):
    journal.command()(command)


def _entries(messages: Iterable[KafkaMessage]) -> Iterator[tuple[str, Record, Entry | None]]:
    """Each record with its place, and with its entry if it is laid out as one."""
    for message in messages:
        record = record_of(message)
        try:
            entry = layout.decode(record)
        except DecodeError:
            entry = None
        yield f"{message.partition()}:{message.offset()}", record, entry

"""``isthmus journal delete``, ``annotate``, ``prepare``, ``commit`` and ``rollback``: records for the ledger.

A message is named by its id, which ``isthmus journal show`` prints as the record's key. Each command prints
the position of what it wrote once Kafka has it.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from isthmus.cli.bridge import ConfigFile, connect, read_settings
from isthmus.cli.send import header_of, property_of
from isthmus.config import Settings
from isthmus.config.model.settings import LEDGER
from isthmus.errors import ConfigError, DecodeError
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op
from isthmus.message import Body, BodyKind, Header, Message

Ids = Annotated[list[str], typer.Option("--id", help="The id of a message. Repeatable.")]
Transaction = Annotated[str, typer.Option("--transaction", "-t", help="The id of the transaction.")]
Of = Annotated[str | None, typer.Option("--session", help="Whose it is, if several sessions have it.")]


def delete(file: ConfigFile = None, id: Ids = ...) -> None:  # type: ignore[assignment]
    """Delete messages and their annotations from the journal. What is published stays where it is."""
    _write(read_settings(file), [Entry(Op.DELETE, _about(each)) for each in id])


def annotate(
    file: ConfigFile = None,
    id: Ids = ...,  # type: ignore[assignment]
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="A header, `name=value`. Repeatable."),
    ] = None,
    property: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", help="A property with its type, `name:type=value`."),
    ] = None,
) -> None:
    """Annotate messages with headers, which stay in the journal for as long as the messages do."""
    headers = dict(header_of(text) for text in header or ()) | dict(
        property_of(text) for text in property or ()
    )
    if not headers:
        raise typer.BadParameter("an annotation needs a --header or a --property")
    _write(read_settings(file), [Entry(Op.ANNOTATE, _about(each, headers)) for each in id])


def prepare(file: ConfigFile = None, transaction: Transaction = ..., session: Of = None) -> None:  # type: ignore[assignment]
    """Prepare a transaction: it is held until its commit or rollback, whatever its time-out."""
    _end(file, Op.PREPARE, transaction, session)


def commit(file: ConfigFile = None, transaction: Transaction = ..., session: Of = None) -> None:  # type: ignore[assignment]
    """Commit a transaction, for instance one that was prepared and whose client is gone."""
    _end(file, Op.COMMIT, transaction, session)


def rollback(file: ConfigFile = None, transaction: Transaction = ..., session: Of = None) -> None:  # type: ignore[assignment]
    """Roll a transaction back, for instance one that was prepared and whose client is gone."""
    _end(file, Op.ROLLBACK, transaction, session)


def _end(file: Path | None, op: Op, transaction: str, session: str | None) -> None:
    settings = read_settings(file)
    counts = _records_of(settings, transaction)
    if session is not None:
        counts = {name: count for name, count in counts.items() if name == session}
    if not counts:
        raise ConfigError(f"the journal has no records of a transaction {transaction!r:.100}")
    if len(counts) > 1:
        raise ConfigError(f"several sessions have it: --session {', '.join(sorted(counts))}")
    ((owner, count),) = counts.items()
    _write(settings, [Entry(op, _about("", session=owner), transaction, count)])


def _records_of(settings: Settings, transaction: str) -> dict[str, int]:
    """How many records of a transaction the journal has, by session."""
    from isthmus.cli.show import record_of
    from isthmus.kafka.blocking import read_topic

    sequences: dict[str, int] = {}
    for message in read_topic(connect(settings), settings.journal.topic):
        try:
            entry = layout.decode(record_of(message))
        except DecodeError:
            continue
        if entry.transaction == transaction and entry.op in (Op.ADD_TX, Op.ANNOTATE_TX, Op.DELETE_TX):
            owner = entry.message.session
            sequences[owner] = max(sequences.get(owner, 0), (entry.sequence or 0) + 1)
    return sequences


def _about(id: str, headers: dict[str, Header] | None = None, session: str | None = None) -> Message:
    return Message(
        id=id,
        address="",
        protocol="isthmus",
        value=b"",  # not null, which compaction would take for a tombstone
        body=Body(BodyKind.EMPTY),
        headers=headers or {},
        session=f"journal-{uuid.uuid4()}" if session is None else session,
    )


def _write(settings: Settings, entries: list[Entry]) -> None:
    from isthmus.journal.wake_ledger import LOOK_S
    from isthmus.journal.writer import JournalWriter
    from isthmus.kafka.blocking import producer
    from isthmus.pipeline.clock import wake_ledger

    if LEDGER not in settings.queries:
        said = "warning: this bridge runs no ledger, so nothing follows: set pipeline.queries=router,ledger"
        Console(stderr=True, highlight=False, soft_wrap=True).print(said)
    kafka = connect(settings)
    with JournalWriter(kafka, settings.journal) as writer:
        for written in [writer.write(entry) for entry in entries]:
            typer.echo(written.result())
    if LEDGER in settings.queries:
        waking = producer(kafka, {})
        wake_ledger(waking, settings.clock_topic)
        waking.flush(LOOK_S)  # if Kafka does not take it, the ledger looks by itself

"""``isthmus receive``: what is in a Kafka topic, or what comes over AMQP, readably."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from isthmus.cli.amqp import PANEL, Login, Password, TlsCa, Url, User
from isthmus.cli.bridge import ConfigFile, connect, read_settings
from isthmus.cli.show import as_json, print_message, print_record, record_of

if TYPE_CHECKING:
    from isthmus.config import Settings

TIMEOUT_S = 10.0


def receive(
    file: ConfigFile = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="The Kafka topic to read.")] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records or messages.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Only what comes to the Kafka topic from now on; implies --follow.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    amqp: Annotated[
        bool,
        typer.Option("--amqp", rich_help_panel=PANEL, help="Receive over AMQP 1.0, as a JMS client does."),
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            "-a",
            rich_help_panel=PANEL,
            help="The queue to take messages from; topic://news is a JMS topic.",
        ),
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=0,
            rich_help_panel=PANEL,
            metavar="SECONDS",
            help="Stop when no message came for so long; 10 unless --follow is given.",
        ),
    ] = None,
    url: Url = None,
    user: User = None,
    password: Password = None,
    tls_ca: TlsCa = None,
) -> None:
    """Show the records of a Kafka topic, or with --amqp take messages as a JMS client does.

    Each with its headers and their types, and its body. Reading a Kafka topic changes nothing. With --amqp a
    message of a queue is consumed once it was printed; of a topic come those that are sent from now on.

    For example:

      isthmus receive --topic orders-eu --follow
      isthmus receive --amqp -a orders --count 1 --follow
      isthmus receive --amqp --url amqps://bridge:5671 --user shop -a topic://news
    """
    login = Login(url, user, password, tls_ca)
    console = Console(highlight=False, soft_wrap=True)
    try:
        if amqp:
            if topic is not None or new or address is None:
                raise typer.BadParameter("--amqp wants --address, and neither --topic nor --new")
            timeout_s = None if follow else TIMEOUT_S if timeout_s is None else timeout_s
            settings = read_settings(file, warn=False)
            _receive_amqp(console, settings, login, address, count=count, timeout_s=timeout_s, json=json)
        else:
            if topic is None or address is not None or timeout_s is not None or login.is_given:
                raise typer.BadParameter("say which --topic to read; --address and the like need --amqp")
            _read(console, read_settings(file, warn=False), topic, count, follow=follow, new=new, json=json)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _read(
    console: Console,
    settings: Settings,
    topic: str,
    count: int | None,
    *,
    follow: bool,
    new: bool,
    json: bool,
) -> None:
    from isthmus.kafka.blocking import read_topic

    records = read_topic(connect(settings), topic, from_beginning=not new, follow=follow or new)
    empty = True
    try:
        for message in islice(records, count):
            empty = False
            record = record_of(message)
            place = f"{topic}:{message.partition()}:{message.offset()}"
            if json:
                typer.echo(as_json(place=place, **record._asdict()))
            else:
                print_record(console, [(place, "bold green")], record, record.value)
    finally:
        records.close()
    if empty:
        _tell(f"{topic} is empty. Add --follow to wait for what comes.")


def _receive_amqp(
    console: Console,
    settings: Settings,
    login: Login,
    address: str,
    *,
    count: int | None,
    timeout_s: float | None,
    json: bool,
) -> None:
    from isthmus.codecs.jms import to_message
    from isthmus.config.model.brokers import Node
    from isthmus.edges.amqp.client.exchange import receive_all
    from isthmus.journal.layout import Record, encode_headers

    node, shown = Node.of(address), 0

    def show(data: bytes) -> None:
        nonlocal shown
        shown += 1
        message = to_message(data, target=node.address)
        body = message.body.slice(message.value)
        record = Record(message.id.encode(), body, encode_headers(message.headers))
        if json:
            typer.echo(as_json(address=message.address, **record._asdict()))
        else:
            print_message(console, message.address, record)

    receive_all(login.broker(settings), node, show, count=count, timeout_s=timeout_s)
    if not shown:
        _tell(f"nothing came from {address} within {timeout_s:g} s. Add --follow to wait on.")


def _tell(text: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(text)

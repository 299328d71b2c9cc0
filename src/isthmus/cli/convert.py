"""``isthmus convert``: a captured message in another form.

In comes an encoded AMQP message, or a Kafka record as a converter writes it; out comes the same message in
any of these forms. Exit 0 if there is one, 1 if the input is malformed or has no such form.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from isthmus.cli.show import as_json, print_record
from isthmus.codecs.amqp import AmqpMessage, boundaries
from isthmus.config.syntax.problem import printable
from isthmus.converters import KafkaRecord, ReceivedRecord, converter
from isthmus.converters.canonical import encoded
from isthmus.converters.captured import line_record
from isthmus.errors import ConfigError, DecodeError, SoftFailure
from isthmus.journal.layout import Record

AMQP = "amqp"
_FORMS = "`amqp`, `default`, `json`, `raw`, `jms` or package.module:Class"


def convert(
    file: Annotated[str, typer.Argument(help="The captured message; `-` for standard input.")],
    source: Annotated[str, typer.Option("--from", help=f"The form that it has: {_FORMS}.")] = AMQP,
    target: Annotated[str, typer.Option("--to", help="The form to show: one of the same.")] = "json",
    address: Annotated[
        str, typer.Option("--address", "-a", help="The receiver's address, for a Kafka record.")
    ] = "topic",
    record: Annotated[
        bool, typer.Option("--record", help="The input is a line of `isthmus receive --json`.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file for the result, byte for byte.")
    ] = None,
) -> None:
    """Show a captured message in another form, as the bridge would convert it.

    `amqp` is an encoded AMQP message; every other form is the value of a Kafka record. A terminal gets
    the result readably: JSON indented, bytes in hex, a `jms` record with its headers. A file or a pipe
    gets the bytes; of `jms` a line of JSON with the headers too.

    For example `isthmus convert --from amqp --to json order.amqp`, or
    `isthmus receive -t orders -n 1 --json | isthmus convert --record --from jms --to amqp -`.
    """
    data = _read(file)
    try:
        message = _message(source, data, address, from_record=record)
        if target == AMQP:
            _write_bytes(encoded(message), output, sections=True)
        else:
            _write(target, converter(target).to_kafka_record(message), output)
    except SoftFailure as error:
        _fail(f"{'standard input' if file == '-' else file}: {error}")


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


def _message(form: str, data: bytes, address: str, *, from_record: bool) -> AmqpMessage:
    received = line_record(data) if from_record else ReceivedRecord("topic", 0, 0, None, data)
    if form != AMQP:
        return converter(form).to_amqp_message(address, received)
    if received.value is None:
        raise DecodeError("the record has no value, so no AMQP message")
    return AmqpMessage.decode(received.value)


def _write(form: str, record: KafkaRecord, output: Path | None) -> None:
    value = record.value
    if output is not None or not sys.stdout.isatty():
        if record.headers:
            value = (as_json(**record._asdict()) + "\n").encode()
        _write_bytes(value, output)
        return
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if record.headers:
        key = None if record.key is None else record.key.encode()
        print_record(console, [(form, "bold")], Record(key, value, record.headers), value)
        return
    if value is None:
        console.print("null")
    elif form == "json":
        console.print(_printable(msgspec.json.format(value, indent=2).decode()))
    elif form == "raw":
        _write_bytes(value, output, sections=True)
    elif (text := _text(value)) is not None:
        console.print(_printable(text))
    else:
        _write_bytes(value, output)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _printable(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


def _write_bytes(data: bytes | None, output: Path | None, *, sections: bool = False) -> None:
    """Bytes as they are for a file or a pipe; for a terminal in hex, an AMQP message section by section."""
    if output is not None:
        output.write_bytes(data or b"")
    elif not sys.stdout.isatty():
        sys.stdout.buffer.write(data or b"")
    elif data is not None:
        console = Console(highlight=False, soft_wrap=True, markup=False)
        spans = [(each.name, each.offset, each.end) for each in boundaries(data)] if sections else []
        for name, start, end in spans or [("", 0, len(data))]:
            if name:
                console.print(Text(name, "bold"))
            for line in range(start, end, 16):
                console.print(_hex_line(line, data[line : min(line + 16, end)]))


def _hex_line(offset: int, data: bytes) -> str:
    shown = "".join(chr(octet) if 0x20 <= octet < 0x7F else "." for octet in data)
    return f"{offset:08x}  {data.hex(' '):<47}  {shown}"


def _fail(problem: str) -> NoReturn:
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        Text.assemble(("error: ", "bold red"), problem)
    )
    raise typer.Exit(1)

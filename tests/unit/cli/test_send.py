"""``isthmus send``: what the options mean, and what ends up in the journal."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import pytest
import typer
from typer.testing import CliRunner, Result

from isthmus.cli.send import header_of, property_of, send
from isthmus.config.model.settings import JournalSettings
from isthmus.errors import IsthmusError
from isthmus.journal import layout, writer
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import Position
from isthmus.message import INTEGER_RANGES, BodyKind, Header, HeaderType, Message

T = HeaderType
UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"


# --- properties -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "header"),
    [
        ("x:string=a b", "x", Header("a b")),
        ("x:string=", "x", Header("")),
        ("x:string=a=b:c", "x", Header("a=b:c")),
        ("x:boolean=true", "x", Header("true", T.BOOLEAN)),
        ("x:boolean=false", "x", Header("false", T.BOOLEAN)),
        ("x:float=0.1", "x", Header("0.1", T.FLOAT)),
        ("x:double=1e3", "x", Header("1000.0", T.DOUBLE)),
        ("x:double=NaN", "x", Header("NaN", T.DOUBLE)),
        ("x:double=-Infinity", "x", Header("-Infinity", T.DOUBLE)),
        ("x:binary=00ff", "x", Header("AP8=", T.BINARY)),
        ("x:binary=", "x", Header("", T.BINARY)),
        ("x:null=", "x", Header("", T.NULL)),
        ("x:char=ü", "x", Header("ü", T.CHAR)),
        ("x:symbol=a:b", "x", Header("a:b", T.SYMBOL)),
        (f"x:uuid={UUID_TEXT.upper()}", "x", Header(UUID_TEXT, T.UUID)),
        ("a:b:int=3", "a:b", Header("3", T.INT)),
        ("Type:int=3", "property.Type", Header("3", T.INT)),
        ("types:int=3", "property.types", Header("3", T.INT)),
    ],
)
def test_a_property_has_a_name_a_type_and_a_value(text: str, name: str, header: Header) -> None:
    assert property_of(text) == (name, header)


@pytest.mark.parametrize("type", INTEGER_RANGES)
def test_every_integer_type_takes_its_range_and_no_more(type: HeaderType) -> None:
    low, high = INTEGER_RANGES[type]
    for value in (low, high):
        assert property_of(f"x:{type}={value}") == ("x", Header(str(value), type))
    for outside in (low - 1, high + 1):
        with pytest.raises(typer.BadParameter, match="out of range"):
            property_of(f"x:{type}={outside}")


@pytest.mark.parametrize(
    "text",
    ["", "x", "x=1", "x:int", ":int=1", "=1", "x:=1", "x:number=1", "x:INT=1", "x: int=1"],
)
def test_what_is_not_name_type_and_value_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is not (name:type=value|a type)"):
        property_of(text)


def test_an_unknown_type_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(typer.BadParameter, match="'number' is not a type; there are string, boolean, byte"):
        property_of("x:number=1")


@pytest.mark.parametrize(
    "text",
    [
        *[f"x:{type}={value}" for type in sorted(INTEGER_RANGES) for value in ("", "a", "1.5", "9" * 5000)],
        "x:boolean=",
        "x:boolean=TRUE",
        "x:boolean=1",
        "x:float=",
        "x:float=a",
        "x:float=3.5e38",
        "x:float=3.40282357e38",
        "x:double=1,5",
        "x:null=null",
        "x:char=",
        "x:char=ab",
        "x:uuid=123",
        "x:binary=0",
        "x:binary=xy",
        "x:decimal32=1",
        "x:decimal64=1",
        "x:decimal128=1",
    ],
)
def test_a_value_that_is_not_of_its_type_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not of the type"):
        property_of(text)


def test_a_refused_number_is_told_without_words_of_pythons() -> None:
    with pytest.raises(typer.BadParameter) as refused:
        property_of("x:int=ten")
    assert str(refused.value) == "'ten' is not of the type int"


def test_every_type_is_accounted_for_in_this_file() -> None:
    assert set(HeaderType) == set(INTEGER_RANGES) | {
        *[T.STRING, T.BOOLEAN, T.FLOAT, T.DOUBLE, T.BINARY, T.NULL, T.CHAR, T.SYMBOL, T.UUID],
        *[T.DECIMAL32, T.DECIMAL64, T.DECIMAL128],
    }


# --- headers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "header"),
    [
        ("CorrelationId=42", "CorrelationId", Header("42")),
        ("JMSCorrelationID=42", "CorrelationId", Header("42")),
        ("JMSPriority=7", "Priority", Header("7", T.INT)),
        ("Expiration=0", "Expiration", Header("0", T.LONG)),
        ("Redelivered=true", "Redelivered", Header("true", T.BOOLEAN)),
        ("DeliveryMode=NON_PERSISTENT", "DeliveryMode", Header("NON_PERSISTENT")),
        ("region=EU", "region", Header("EU")),
        ("region=", "region", Header("")),
        ("a=b=c", "a", Header("b=c")),
        ("types=x", "property.types", Header("x")),
        ("property.x=y", "property.property.x", Header("y")),
    ],
)
def test_a_header_has_a_name_and_a_value(text: str, name: str, header: Header) -> None:
    assert header_of(text) == (name, header)


@pytest.mark.parametrize("text", ["", "x", "=x", "="])
def test_what_is_not_name_and_value_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not name=value"):
        header_of(text)


@pytest.mark.parametrize(
    "text", ["Priority=high", "Timestamp=", "Redelivered=yes", "Expiration=9999999999999999999"]
)
def test_a_standard_header_holds_what_its_name_says(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not of the type"):
        header_of(text)


# --- the command ----------------------------------------------------------------------------------------


class Journal:
    """Stands for the journal's writer: what was written is read back from its record."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def __call__(self, kafka: object, journal: JournalSettings) -> Self:
        assert journal.topic == "isthmus.b.journal"
        return self

    def write(self, entry: Entry) -> Future[Position]:
        assert entry.op is Op.ADD
        self.messages.append(layout.decode(layout.encode(entry)).message)
        place: Future[Position] = Future()
        place.set_result(Position("j", 0, len(self.messages)))
        return place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    journal = Journal()
    monkeypatch.setattr(writer, "JournalWriter", journal)
    # By its full name: the package has the command under the name of its module.
    monkeypatch.setattr(import_module("isthmus.cli.send"), "connect", lambda _: None)
    return journal


@pytest.fixture
def run(tmp_path: Path, journal: Journal) -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(send)
    file = tmp_path / "b.properties"
    file.write_text("bridge.id=b\nkafka.bootstrap.servers=h:1\n")

    def run_with(*options: str, **more: Any) -> Result:
        return CliRunner().invoke(app, [str(file), *options], **more)

    return run_with


def test_a_message_is_written_and_its_place_printed(run: Callable[..., Result], journal: Journal) -> None:
    result = run("-a", "orders", "-H", "CorrelationId=42", "-p", "amount:int=3", "-b", "Grüße")
    assert (result.exit_code, result.stdout) == (0, "j:0:1\n")
    (message,) = journal.messages
    assert (message.address, message.protocol) == ("orders", "isthmus")
    assert (message.body.kind, message.value) == (BodyKind.TEXT, "Grüße".encode())
    assert message.headers["CorrelationId"] == Header("42")
    assert message.headers["amount"] == Header("3", T.INT)


def test_a_message_gets_an_id_and_a_timestamp(run: Callable[..., Result], journal: Journal) -> None:
    run("-a", "orders", "-b", "x")
    run("-a", "orders", "-b", "x")
    first, second = journal.messages
    assert first.id.startswith("ID:")
    assert first.id != second.id
    assert first.headers["MessageId"] == Header(first.id)
    assert first.headers["Timestamp"].type is T.LONG
    assert first.session != second.session


def test_an_id_of_ones_own_is_kept(run: Callable[..., Result], journal: Journal) -> None:
    run("-a", "orders", "-H", "JMSMessageID=mine", "-H", "Timestamp=5", "-b", "x")
    (message,) = journal.messages
    assert message.id == "mine"
    assert message.headers["MessageId"] == Header("mine")
    assert message.headers["Timestamp"] == Header("5", T.LONG)


def test_the_body_comes_from_standard_input(run: Callable[..., Result], journal: Journal) -> None:
    run("-a", "orders", input=b"\x00\xff")
    (message,) = journal.messages
    assert (message.body.kind, message.value) == (BodyKind.BYTES, b"\x00\xff")


def test_the_body_comes_from_a_file(run: Callable[..., Result], journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"line\r\n")
    run("-a", "orders", "--file", str(tmp_path / "body"))
    assert [message.value for message in journal.messages] == [b"line\r\n"]


def test_every_line_can_be_a_message_of_one_session(run: Callable[..., Result], journal: Journal) -> None:
    result = run("-a", "orders", "--lines", "--session", "s", input=b"one\ntwo\n\nfour")
    assert result.stdout.splitlines() == ["j:0:1", "j:0:2", "j:0:3", "j:0:4"]
    assert [message.value for message in journal.messages] == [b"one", b"two", b"", b"four"]
    assert {message.session for message in journal.messages} == {"s"}
    assert len({message.id for message in journal.messages}) == 4


@pytest.mark.parametrize(
    "options",
    [
        ["-b", "x"],
        ["-a", "orders", "-b", "x", "--file", __file__],
        ["-a", "orders", "-b", "x", "-H", "nothing"],
        ["-a", "orders", "-b", "x", "-p", "x:int=a"],
        ["-a", "orders", "--file", "/no/such/file"],
    ],
)
def test_wrong_usage_ends_with_2_and_writes_nothing(
    run: Callable[..., Result], journal: Journal, options: list[str]
) -> None:
    assert run(*options).exit_code == 2
    assert journal.messages == []


@pytest.mark.parametrize(
    "options",
    [
        ["-a", "orders", "-b", "\udcff"],
        ["-a", "\udcff", "-b", "x"],
        ["-a", "orders", "-b", "x", "-H", "region=\udcff"],
        ["-a", "orders", "-b", "x", "-p", "region:string=\udcff"],
        ["-a", "orders", "-b", "x", "-p", "\udcff:int=1"],
    ],
    ids=["body", "address", "header", "property", "name"],
)
def test_bytes_on_the_command_line_that_are_no_text_never_end_in_a_trace(
    run: Callable[..., Result], options: list[str]
) -> None:
    result = run(*options)
    assert result.exit_code in (0, 2) or isinstance(result.exception, IsthmusError), result.exception

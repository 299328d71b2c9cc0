"""Kafka records for people: on a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from isthmus.cli.show import MAX_SHOWN_BYTES, as_json, print_record, record_of
from isthmus.journal.layout import KafkaHeaders, Record


def printed(
    headers: KafkaHeaders = (),
    body: bytes | None = b"body",
    key: bytes | None = b"k",
    title: Sequence[tuple[str, str]] = (("t:0:1", "bold"),),
) -> list[str]:
    out = StringIO()
    console = Console(file=out, width=80, highlight=False, soft_wrap=True)
    print_record(console, title, Record(key, body, headers), body)
    return out.getvalue().splitlines()


def test_a_record_has_its_place_key_headers_and_body() -> None:
    assert printed([("jms.region", b"EU"), ("trace", b"t1")]) == [
        "t:0:1  key k",
        "  jms.region EU",
        "  trace t1",
        "  body",
    ]


def test_every_header_that_has_a_type_shows_it() -> None:
    lines = printed([("jms.amount", b"3"), ("jms.x", b"y"), ("jms.types", b"amount=int;")])
    assert lines[1:3] == ["  jms.amount 3  int", "  jms.x y"]
    assert not any("jms.types" in line for line in lines)


def test_types_are_shown_however_many_there_are() -> None:
    names = [f"property-{number:03}" for number in range(200)]
    types = "".join(f"{name}=int;" for name in names).encode()
    assert len(types) > MAX_SHOWN_BYTES
    lines = printed([*((f"jms.{name}", b"1") for name in names), ("jms.types", types)])
    assert lines[1:-1] == [f"  jms.{name} 1  int" for name in names]


def test_what_is_not_there_is_null() -> None:
    assert printed([("x", None)], body=None, key=None) == ["t:0:1  key null", "  x null", "  null"]


def test_text_is_shown_as_it_is_and_never_taken_for_markup() -> None:
    assert printed(body="[bold]Grüße[/] 世界".encode())[-1] == "  [bold]Grüße[/] 世界"
    assert printed([("[red]x", b"[/red]")])[1] == "  [red]x [/red]"


def test_bytes_that_are_no_text_are_shown_in_hex() -> None:
    assert printed([("x", b"\xff\x00")], body=b"\x00\xfe", key=b"\xff") == [
        "t:0:1  key ff",
        "  x ff 00",
        "  00 fe",
    ]


def test_many_bytes_that_are_no_text_are_shown_in_hex_too() -> None:
    line = printed(body=b"\x00\xff" * MAX_SHOWN_BYTES)[-1]
    assert line.startswith("  00 ff 00 ff")
    assert line.endswith(f"… ({2 * MAX_SHOWN_BYTES} bytes)")


@pytest.mark.parametrize("character", ["x", "ü", "世", "🚀"])
def test_a_long_text_is_cut_between_characters_and_says_how_long_it_is(character: str) -> None:
    body = ("." + character * MAX_SHOWN_BYTES).encode()
    line = printed(body=body)[-1]
    shown = line.removeprefix("  ").removesuffix(f" … ({len(body)} bytes)")
    assert shown != line.removeprefix("  ")
    assert 0 <= MAX_SHOWN_BYTES - len(shown.encode()) < len(character.encode())
    assert shown == "." + character * (len(shown) - 1)


HOSTILE = "\x1b[2Jgone\x07\r\x9b31m"


@pytest.mark.parametrize(
    "shown",
    [
        {"body": HOSTILE.encode()},
        {"key": HOSTILE.encode()},
        {"headers": [("x", HOSTILE.encode())]},
        {"headers": [(HOSTILE, b"x")]},
        {"title": [(HOSTILE, "bold")]},
    ],
    ids=["body", "key", "value", "name", "title"],
)
def test_a_message_cannot_steer_the_terminal(shown: dict[str, Any]) -> None:
    text = "\n".join(printed(**shown))
    assert "gone" in text
    assert not {"\x1b", "\x07", "\r", "\x9b"} & set(text)


# --- JSON -----------------------------------------------------------------------------------------------


def test_json_is_one_line_with_text_where_bytes_are_text() -> None:
    line = as_json(place="t:0:1", key=b"k", value="Grüße\n".encode(), headers=[("x", b"1"), ("y", None)])
    assert "\n" not in line
    assert "Grüße" in line
    assert json.loads(line) == {
        "place": "t:0:1",
        "key": "k",
        "value": "Grüße\n",
        "headers": [["x", "1"], ["y", None]],
    }


def test_bytes_that_are_no_text_are_base64_and_can_be_told_apart() -> None:
    assert json.loads(as_json(value=b"\xff\x00", key=None)) == {"value": {"base64": "/wA="}, "key": None}


def test_json_shows_all_of_a_long_body() -> None:
    assert json.loads(as_json(value=b"x" * 100_000)) == {"value": "x" * 100_000}


def test_what_has_no_json_form_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="has no JSON form"):
        as_json(value=object())


# --- Kafka's client -------------------------------------------------------------------------------------


def client_message(headers: object) -> Any:
    return SimpleNamespace(key=lambda: b"k", value=lambda: b"v", headers=lambda: headers)


def test_a_record_that_the_client_read_is_taken_over() -> None:
    assert record_of(client_message([("x", b"1")])) == Record(b"k", b"v", [("x", b"1")])


def test_a_record_without_headers_has_an_empty_list() -> None:
    assert record_of(client_message(None)) == Record(b"k", b"v", [])

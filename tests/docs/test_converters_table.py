"""Every cell of the tables in docs/converters.md is what the converters do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from isthmus import (
    AmqpMessage,
    AmqpSequence,
    AmqpValue,
    Data,
    MessageHeader,
    MessageProperties,
    ReceivedRecord,
)
from isthmus.codecs import amqp
from isthmus.codecs.amqp.constructors import CONSTRUCTORS
from isthmus.converters import converter
from isthmus.converters.json_document import PROPERTIES
from isthmus.errors import ConversionFailure

PAGE = Path(__file__).parents[2] / "docs" / "converters.md"
FORMS = ("default", "json", "raw", "jms")
ADDRESS = "receiver's address"
NAMES: dict[str, Any] = {
    **{name: getattr(amqp, name) for name in amqp.__all__},
    **{"UUID": UUID, "MessageHeader": MessageHeader, "MessageProperties": MessageProperties},
}


def table(first_header: str, second_header: str) -> list[list[str]]:
    """The rows of the table whose header begins so; cells without backticks around them."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(
        number
        for number, line in enumerate(lines)
        if line.startswith(f"| {first_header} | {second_header} |")
    )
    columns = lines[start].count("|") - 1
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = re.split(r" ?\| ?", line)[1:-1]
        assert len(cells) == columns, line
        rows.append([cell[1:-1] if re.fullmatch("`[^`]+`", cell) else cell for cell in cells])
    return rows


SECTIONS = table("section", "example")
VALUES = table("type", "example")
SIMPLE = table("type", "example | `json` | its type | `jms.<name>`")


def example(text: str) -> AmqpMessage:
    return as_sent(eval(f"AmqpMessage({text})", NAMES))


def as_sent(message: AmqpMessage) -> AmqpMessage:
    """The message with the types that its values have on the wire."""
    return AmqpMessage.decode(message.encode())


def published(form: str, message: AmqpMessage) -> ReceivedRecord:
    record = converter(form).to_kafka_record(message)
    return ReceivedRecord("topic", 3, 17, None, record.value, record.headers)


def there_and_back(form: str, message: AmqpMessage) -> AmqpMessage:
    return as_sent(converter(form).to_amqp_message(ADDRESS, published(form, message)))


def part(message: AmqpMessage, name: str) -> Any:
    section, _, field = name.partition(" ")
    found = getattr(message, section)
    return getattr(found, field) if field and found is not None else found


def same(one: object, other: object) -> bool:
    """Equal, and of the same type all the way down."""
    return amqp.encode_value(one) == amqp.encode_value(other)


# --- sections -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", SECTIONS, ids=lambda row: f"{row[0]} {row[1]}")
def test_the_table_of_sections_says_what_comes_back(row: list[str], form: str) -> None:
    name, message, said = row[0], example(row[1]), row[2 + FORMS.index(form)]
    if said == "fails":
        with pytest.raises(ConversionFailure):
            there_and_back(form, message)
        return
    back = there_and_back(form, message)
    if name.startswith("body"):
        assert body_outcome(message, back.body) == said
    elif name == "message_annotations":
        assert annotation_outcome(message, back) == said
    else:
        assert outcome(part(message, name), part(back, name)) == said


def outcome(before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        after = {name: value for name, value in after.items() if not name.startswith("JMS_kafka_")} or None
    if after is None:
        return "lost"
    if after == ADDRESS:
        return "address"
    return "kept" if same(after, before) else f"changed to {after!r}"


def annotation_outcome(message: AmqpMessage, back: AmqpMessage) -> str:
    ((name, value),) = (message.message_annotations or {}).items()
    after = (back.message_annotations or {}).get(name, msgspec.UNSET)
    if after is msgspec.UNSET:
        return "lost"
    return "kept" if same(after, value) else "replaced" if after == 3 else f"changed to {after!r}"


def body_outcome(message: AmqpMessage, after: Any) -> str:
    before = message.body
    if after is None:
        return "no body"
    if AmqpMessage(body=after) == message:
        return "kept"
    match after:
        case AmqpValue(None):
            return "null"
        case Data((content,)) if isinstance(before, Data):
            return "joined" if content == before.content else "other data"
        case Data((content,)):
            return "data" if content == published("default", message).value else "other data"
    return repr(after)


def test_the_table_of_sections_has_every_section_and_field() -> None:
    names = {row[0] for row in SECTIONS}
    for struct, section in ((MessageHeader, "header"), (MessageProperties, "properties")):
        assert {f"{section} {field.name}" for field in msgspec.structs.fields(struct)} <= names
    assert {"delivery_annotations", "message_annotations", "application_properties", "footer"} <= names
    bodies = [example(row[1]).body for row in SECTIONS if row[0].startswith("body")]
    assert {type(body) for body in bodies} == {type(None), Data, AmqpValue, AmqpSequence}


# --- types ----------------------------------------------------------------------------------------------


def shown(value: bytes | None) -> str:
    if value is None:
        return "no value"
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def published_as(form: str, message: AmqpMessage) -> str:
    try:
        return shown(published(form, message).value)
    except ConversionFailure:
        return "fails"


@pytest.mark.parametrize("row", VALUES, ids=lambda row: f"{row[0]} {row[1]}")
def test_the_table_of_types_says_what_is_published(row: list[str]) -> None:
    _, text, default, section, type_entry, jms, *_ = row
    message = AmqpMessage(body=AmqpValue(eval(text, NAMES)))
    document = published("json", message).value or b""
    types = msgspec.json.decode(document).get("types", {})
    assert document.decode().endswith(f'"section":{section}}}}}')
    assert types.get("/body/section", "") == type_entry
    assert published_as("default", message) == default
    assert published_as("jms", message) == jms


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", VALUES, ids=lambda row: f"{row[0]} {row[1]}")
def test_the_table_of_types_says_what_comes_back(row: list[str], form: str) -> None:
    value, said = eval(row[1], NAMES), row[6 + FORMS.index(form)]
    message = AmqpMessage(body=AmqpValue(value))
    if published_as(form, message) == "fails":
        assert said == ""
        return
    match there_and_back(form, message).body:
        case None:
            assert said == "no body"
        case Data() as data:
            assert said == "data"
            assert data.content == published(form, message).value
        case AmqpValue(after):
            assert said == "same"
            assert same(after, value)


def test_the_table_of_types_has_every_type() -> None:
    assert {row[0] for row in VALUES} >= {*CONSTRUCTORS, "described"}
    assert {row[0] for row in SIMPLE} == {*CONSTRUCTORS} - {"list", "map", "array"}


@pytest.mark.parametrize("row", SIMPLE, ids=lambda row: f"{row[0]} {row[1]}")
def test_the_table_of_properties_is_what_happens(row: list[str]) -> None:
    _, text, as_json, type_entry, header, header_type = row
    value = eval(text, NAMES)
    message = AmqpMessage(application_properties={"name": value})
    document = published("json", message).value or b""
    assert document.decode().startswith(f'{{"applicationProperties":{{"name":{as_json}}}')
    assert msgspec.json.decode(document).get("types", {}).get("/applicationProperties/name", "") == type_entry
    headers = dict(published("jms", message).headers)
    assert headers["jms.name"] == header.encode()
    types = (headers["jms.types"] or b"").decode()
    assert re.findall("name=([^;]*);", types) == ([header_type] if header_type else [])
    assert not there_and_back("default", message).application_properties
    for form in ("json", "raw", "jms"):
        assert same((there_and_back(form, message).application_properties or {})["name"], value)


def test_the_table_of_the_document_has_every_property_with_its_type() -> None:
    rows = {name: type for name, _, type in table("`properties`", "AMQP")}
    assert {name: type.partition(",")[0] for name, type in rows.items()} == PROPERTIES
    assert list(rows) == list(PROPERTIES)

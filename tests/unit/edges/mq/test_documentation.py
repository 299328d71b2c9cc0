"""The tables of docs/mq.md say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.edges.mq.test_translate import FULL

from isthmus.codecs.bridge_message.header import FIELDS as BRIDGE_HEADER_FIELDS
from isthmus.config.model.mq import MqIntakeSettings, MqSettings
from isthmus.edges.mq.bridge import BRIDGE_FIELDS, NOT_PUT
from isthmus.edges.mq.descriptor import FIELDS, Mqmd, MqMessage
from isthmus.edges.mq.reasons import REASONS, Outcome
from isthmus.edges.mq.translate import HEADER_TYPES, IN_STANDARD_HEADERS, to_message

PAGE = (Path(__file__).parents[4] / "docs" / "mq.md").read_text(encoding="utf-8")
WIRE_NAMES = {field.name: field.encode_name for field in BRIDGE_HEADER_FIELDS}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without their back-quotes."""
    table = re.search(rf"^## {re.escape(heading)}\n.*?\n(\|.*?\n)(?:\n|$)", PAGE, re.DOTALL | re.MULTILINE)
    assert table, heading
    lines = table[1].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def test_every_field_of_the_descriptor_is_in_the_table_with_its_header_and_bridge_field() -> None:
    headers = to_message(
        MqMessage(descriptor=Mqmd(**{name: getattr(FULL, name) for name in FIELDS} | {"Version": 1})),
        address="Q",
        session="s",
        received_ms=0,
    ).headers
    documented = {row[0]: row[1:] for row in rows("MQMD and headers")}
    assert list(documented) == list(FIELDS)
    for name, (header, kind, bridge, into_mq) in documented.items():
        said = IN_STANDARD_HEADERS.get(name) or f"mq.{name}"
        assert said in header
        assert headers[said].type.value == kind
        assert bridge == WIRE_NAMES[BRIDGE_FIELDS[name]]
        assert into_mq == ("ignored" if name in NOT_PUT else "set")


def test_every_reason_is_in_the_table_with_what_it_means() -> None:
    documented = {
        int(code): (name, row[0])
        for row in rows("Reason codes")
        for code, name in re.findall(r"(\d{4}) ([A-Z_]+)", row[1])
    }
    assert documented == {code: (known.name, known.outcome.value) for code, known in REASONS.items()}
    assert {row[0] for row in rows("Reason codes")} == {outcome.value for outcome in Outcome}


def test_every_type_of_a_property_is_in_the_table() -> None:
    documented = {row[0]: row[1] for row in rows("Properties")}
    assert documented == {property.name.lower(): header.value for property, header in HEADER_TYPES.items()}


@pytest.mark.parametrize(
    ("section", "heading"), [(MqSettings, "Settings"), (MqIntakeSettings, "What is taken")]
)
def test_every_setting_is_in_the_table_with_its_meaning(section: type[MqSettings], heading: str) -> None:
    documented = {row[0]: row[2] for row in rows(heading)}
    fields = section.fields.values()
    known = {field.key: field.meaning.replace("`", "") for field in fields}
    assert documented == known

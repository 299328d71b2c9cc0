"""The examples in the documentation of the message format do what they say."""

import re
from pathlib import Path

import msgspec

from isthmus.codecs.bridge_message import BridgeHeader

PAGE = Path(__file__).parents[4] / "docs" / "message-format.md"


def test_the_examples_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)


def test_the_table_has_every_header_field_with_its_name_and_kind() -> None:
    kinds = {int: "int32", str: "text", bytes: "bytes"}
    rows = re.findall(r"\| `(\w+)` \| `(\w+)` \| (int32|text|bytes) ", PAGE.read_text())
    fields = msgspec.structs.fields(BridgeHeader)
    assert sorted(rows) == sorted((f.name, f.encode_name, kinds[type(f.default)]) for f in fields)

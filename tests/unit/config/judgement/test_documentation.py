"""docs/configuration.md lists every key with its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from isthmus.config.judgement.keys import FIXED, Key, all_keys, split_key
from isthmus.config.syntax.environment import variable_name

PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"


def row(key: Key) -> str:
    if key.required:
        default = "required"
    elif key.default is None:
        default = "none"
    else:
        default = key.default if " " in key.default else f"`{key.default}`"
    return f"| `{key.name}` | {default} | {key.meaning} |"


def test_the_page_lists_every_key_with_its_default_and_no_other():
    keys = PAGE.read_text().partition("## Keys")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `.*", keys, re.MULTILINE)
    assert sorted(rows) == sorted(row(key) for key in all_keys())


def test_the_variables_on_the_page_stand_for_the_keys_beside_them():
    pairs = re.findall(r"^\| `(ISTHMUS_\w+)` \| `([^`]+)`", PAGE.read_text(), re.MULTILINE)
    assert len(pairs) >= 4
    for variable, key in pairs:
        assert variable_name(key) == variable
        assert key in FIXED or split_key(key) or key.startswith("kafka.")


def test_the_example_on_the_page_loads(loaded, tmp_path):
    example = re.search(r"```properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "kafka-password").write_text("pw\n")
    settings = loaded(example[1])
    assert [route.name for route in settings.routes] == ["eu", "rest"]
    assert 'password="pw"' in settings.kafka.client["sasl.jaas.config"]


def test_every_key_says_what_it_means():
    assert all(key.meaning for key in all_keys())

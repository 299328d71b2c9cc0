"""docs/configuration.md names variables and shows an example that are as it says."""

from __future__ import annotations

import re
from pathlib import Path

from isthmus.config.judgement.keys import FIXED, split_key
from isthmus.config.syntax.environment import variable_name

PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"


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

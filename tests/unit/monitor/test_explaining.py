"""What somebody types to have it explained: refused with a reason before Kafka is asked."""

from __future__ import annotations

import pytest

from isthmus.config import Settings
from isthmus.errors import ConfigError
from isthmus.kafka.options import Kafka
from isthmus.monitor.explaining import explain_sample, place_of, typed_headers

NOWHERE = Kafka("127.0.0.1:1")


def refused(headers: str) -> str:
    with pytest.raises(ConfigError) as caught:
        explain_sample(Settings(), NOWHERE, "orders", headers, None)
    return str(caught.value)


def bomb(levels: int, item: str) -> str:
    """Each line stands for eight times the one before."""
    lines = [f"a0: &a0 {item.format('x')}"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} {item.format(', '.join([f'*a{level - 1}'] * 8))}")
    return "\n".join(lines)


def merge_bomb(levels: int) -> str:
    merges = (f"a{each}: &a{each} {{<<: [{', '.join([f'*a{each - 1}'] * 8)}]}}" for each in range(1, levels))
    return "\n".join(["a0: &a0 {k: v}", *merges])


@pytest.mark.parametrize("headers", [bomb(40, "[{}]"), "a: &a 1\nb: *a", "b: *a"])
def test_a_value_that_stands_for_another_is_refused_before_it_is_looked_up(headers: str) -> None:
    assert "write that out" in refused(headers)


@pytest.mark.parametrize(
    "headers", [merge_bomb(40), "[" * 60_000, "{" * 60_000, "- " * 30_000, "? " * 30_000]
)
def test_what_is_nested_is_refused_before_anything_is_made_of_it(headers: str) -> None:
    """YAML's own parser overflows the stack of the process."""
    assert "a value is nested" in refused(headers)


def test_what_only_looks_like_it_is_text() -> None:
    assert typed_headers('glob: "*.txt"\nand: a & b\nlist: "[[["\namount: {long: 42}') == {
        "glob": "*.txt",
        "and": "a & b",
        "list": "[[[",
        "amount": {"long": 42},
    }
    assert typed_headers("") == {}


@pytest.mark.parametrize(
    "headers",
    [
        "day: 2026-02-30",
        "a: 0x_",
        "a: !!bool x",
        "a: !!int ''",
        "a: !!timestamp x",
        "a: " + "9" * 5_000,
        "a: 1:1" + ":1" * 400 + ".0",
    ],
)
def test_a_value_that_yaml_trips_over_is_refused_with_what_to_do(headers: str) -> None:
    assert "if it is text, quote it" in refused(headers)


@pytest.mark.parametrize(
    "position",
    [
        "",
        "a",
        "a:0",
        "a:0:x",
        ":0:0",
        "a:b:0:0",
        "a:-1:0",
        "a:²:0",
        "a:0:" + "9" * 5_000,
        "a:" + "9" * 10 + ":0",
    ],
)
def test_what_is_no_position_is_refused(position: str) -> None:
    with pytest.raises(ConfigError, match="is not topic:partition:offset") as caught:
        place_of(position)
    assert len(str(caught.value)) < 200


def test_a_position_is_a_topic_a_partition_and_an_offset() -> None:
    assert place_of("isthmus.b.journal:3:14") == ("isthmus.b.journal", 3, 14)

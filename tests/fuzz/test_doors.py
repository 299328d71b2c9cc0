"""A few inputs for every door: ``make fuzz`` has more of them, and looks at how long they take."""

from __future__ import annotations

import pytest

pytest.importorskip("wsproto", reason="wsproto is not installed")

from tests.fuzz.__main__ import run

DOORS = {
    "codec",
    "msgpack",
    "json",
    "selectors",
    "predicates",
    "typed headers",
    "properties",
    "http",
    "frames",
    "sasl",
    "websocket",
}


def test_every_door_takes_or_refuses_whatever_comes() -> None:
    results = run(150, seed=1)
    assert {each.door for each in results} == DOORS
    for each in results:
        assert each.inputs == 150
        assert 0 < each.refused < 150, f"{each.door}: the inputs are all of one kind"

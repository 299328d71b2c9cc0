"""What a running bridge can take over, and what needs a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.config import Reading, needs_restart, read

BASE = "amqp.port=1\namqp.users.file=u\nroutes.r.predicate=msg.address==a\nroutes.r.dest.topic=t\n"


@pytest.fixture
def reading(write: Callable[[str], Path]) -> Callable[[str], Reading]:
    return lambda text: read(write(text), {})


@pytest.mark.parametrize(
    "other",
    [
        BASE,
        BASE.replace("topic=t", "topic=u"),
        BASE.replace("users.file=u", "users.file=v"),
        BASE + "routes.n.predicate=msg.address==b\nroutes.n.dest.topic=n\nrouting.on-error=skip\n",
        f"# a remark\n\n{BASE}",
    ],
)
def test_routes_users_and_certificates_can_change(reading, other: str) -> None:
    assert needs_restart(reading(BASE), reading(other)) == []


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (BASE.replace("amqp.port=1", "amqp.port=2"), "amqp.port"),
        (f"{BASE}bridge.id=b\n", "bridge.id"),
        (f"{BASE}kafka.linger.ms=5\n", "kafka.linger.ms"),
        (f"{BASE}state.dir=s\n", "state.dir"),
        (BASE.replace("amqp.users.file=u\n", ""), "amqp.users.file, for the first time or no longer"),
        (f"{BASE}routes.r.conv.message=json\n", "a route with the converter json, the first one"),
        (
            f"{BASE}amqp.connect.m.url=amqp://h\nroutes.q.predicate=msg.address==q\nroutes.q.dest.address=m:q\n",
            "a route to amqp.m, the first one",
        ),
    ],
)
def test_what_cannot_change_is_named(reading, other: str, why: str) -> None:
    assert why in needs_restart(reading(BASE), reading(other))

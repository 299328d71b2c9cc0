"""One fixture for everything that must hold on every queue manager."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.mq.backends import (
    Backend,
    Memory,
    NotPossible,
    Real,
    StandIn,
    build_stand_in,
    why_no_stand_in,
)

from isthmus.edges.mq.port import Connection


@pytest.fixture(scope="session")
def mqi_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library with the MQI's entry points, built for this run."""
    if why := why_no_stand_in():
        pytest.skip(why)
    return build_stand_in(tmp_path_factory.mktemp("mqi"))


@pytest.fixture
def stand_in(mqi_library: Path) -> StandIn:
    """IBM's binding on our library."""
    return StandIn(mqi_library)


@pytest.fixture(params=["memory", "ibmmq", "real"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each queue manager in turn."""
    match request.param:
        case "memory":
            return Memory()
        case "ibmmq":
            stand_in: StandIn = request.getfixturevalue("stand_in")
            return stand_in
        case _:
            if "MQSERVER" not in os.environ:
                pytest.skip("MQSERVER names no real queue manager")
            return Real()


@pytest.fixture
def connect(backend: Backend) -> Iterator[Callable[[], Connection]]:
    """Makes connections, and ends them all after the test."""
    made: list[Connection] = []

    def connect() -> Connection:
        made.append(backend.queue_manager.connect())
        return made[-1]

    yield connect
    for connection in made:
        connection.disconnect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What a queue manager cannot be made to do is a reason to skip, and named."""
    try:
        return (yield)
    except NotPossible as reason:
        pytest.skip(str(reason))

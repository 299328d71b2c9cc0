from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.commands import QUICKSTART, Running

ANY_PORT = {"ISTHMUS_AMQP_PORT": "0"}


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A bridge on an embedded Kafka."""
    with Running(tmp_path_factory.mktemp("folder of a bridge"), QUICKSTART, environ=ANY_PORT) as running:
        running.wait_until_ready()
        yield running

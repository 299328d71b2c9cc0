from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.support.amqp.kafka_server import ServerOnKafka


@pytest.fixture
def kafka_server(kafka_servers: str) -> Iterator[ServerOnKafka]:
    with ServerOnKafka(kafka_servers) as server:
        yield server


@pytest.fixture
def server_with(kafka_servers: str) -> Callable[..., ServerOnKafka]:
    return lambda **settings: ServerOnKafka(kafka_servers, **settings)

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.support.amqp.kafka_server import KafkaDoor


@pytest.fixture
def kafka_door(kafka_servers: str) -> Iterator[KafkaDoor]:
    with KafkaDoor(kafka_servers) as door:
        yield door


@pytest.fixture
def door_to(kafka_servers: str) -> Callable[..., KafkaDoor]:
    return lambda **settings: KafkaDoor(kafka_servers, **settings)

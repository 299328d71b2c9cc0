from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.commands import QUICKSTART, Running


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A bridge on an embedded Kafka."""
    with Running(tmp_path_factory.mktemp("folder of a bridge"), QUICKSTART) as running:
        running.wait_until_ready()
        yield running

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isthmus.embedded.nats import EmbeddedNats


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One real nats-server for all tests that only need subjects of their own in it."""
    with EmbeddedNats(tmp_path_factory.mktemp("nats")) as server:
        yield server.url

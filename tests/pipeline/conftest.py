from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.pipeline.bridge import TestBridge


@pytest.fixture
def bridge(kafka_servers: str, tmp_path: Path) -> TestBridge:
    return TestBridge(kafka_servers, tmp_path)

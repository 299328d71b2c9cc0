"""Names that no other test has: for topics, queues and bridges in servers that many tests share."""

from __future__ import annotations

import uuid


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"

"""The journal: the Kafka topic that every message lands in, exactly as it arrived.

`layout` is the contract (specified in ``docs/journal.md``), `batches` and `writer` put messages in, `columns`
reads them in Spark.
"""

from __future__ import annotations

from collections.abc import Callable

from isthmus.errors import IsthmusError

OnDone = Callable[[IsthmusError | None], None]
"""Told what became of a write: None once the journal has it, or why it has not."""

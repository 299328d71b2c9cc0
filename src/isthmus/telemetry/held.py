"""The transactions that only the ledger knows: prepared ones, and those whose clients are gone, too.

In: a function that says what it holds. Out: Prometheus' metrics, and a part of the document of ``/varz``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class HeldTransactions:
    """Transactions with records in the journal, and without an outcome."""

    transactions: int = 0
    prepared: int = 0
    """Those of them that wait for ever."""
    since_ms: int = 0
    """When the oldest of them began; 0 if there is none."""

    @property
    def oldest_s(self) -> float:
        """For how long that one is open."""
        return max(0.0, time.time() - self.since_ms / 1000) if self.transactions else 0.0

    def document(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "transactions": self.transactions,
            "prepared": self.prepared,
            "since_ms": self.since_ms,
            "oldest_transaction_s": round(self.oldest_s, 1),
        }


Held = Callable[[], HeldTransactions | None]
"""What the ledger holds now; None where none is looked at."""


def held_together(found: Iterable[HeldTransactions]) -> HeldTransactions | None:
    """What several ledgers hold; None if there are none."""
    ledgers = list(found)
    if not ledgers:
        return None
    return HeldTransactions(
        sum(each.transactions for each in ledgers),
        sum(each.prepared for each in ledgers),
        min((each.since_ms for each in ledgers if each.transactions), default=0),
    )


class HeldMetrics(Collector):
    """The metrics of these, as they are when somebody asks."""

    def __init__(self, bridge_id: str, held: Held) -> None:
        self._bridge_id = bridge_id
        self._held = held

    def collect(self) -> Iterator[Metric]:
        """All metrics, as Prometheus' client asks for them."""
        held = self._held()
        for name, meaning, value in (
            (
                "isthmus_ledger_transactions",
                "transactions that the ledger holds, whose outcome is not in the journal yet",
                None if held is None else held.transactions,
            ),
            (
                "isthmus_ledger_transactions_prepared",
                "those of them that are prepared, and wait for ever",
                None if held is None else held.prepared,
            ),
            (
                "isthmus_ledger_transaction_age_max_seconds",
                "for how long the ledger has held the oldest of them",
                None if held is None else held.oldest_s,
            ),
        ):
            family = GaugeMetricFamily(name, meaning, labels=["bridge"])
            if value is not None:
                family.add_metric([self._bridge_id], value)
            yield family

"""What is told of transactions that only the ledger knows."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, generate_latest

from isthmus.telemetry.held import Held, HeldMetrics, HeldTransactions, held_together


def exposition(held: Held) -> list[str]:
    registry = CollectorRegistry()
    registry.register(HeldMetrics("b", held))
    return generate_latest(registry).decode().splitlines()


def test_prometheus_gets_how_many_are_held_and_since_when() -> None:
    since_ms = int(time.time() * 1000) - 90_001
    lines = exposition(lambda: HeldTransactions(3, 1, since_ms))
    assert 'isthmus_ledger_transactions{bridge="b"} 3.0' in lines
    assert 'isthmus_ledger_transactions_prepared{bridge="b"} 1.0' in lines
    (age,) = (line for line in lines if line.startswith("isthmus_ledger_transaction_age_max_seconds{"))
    assert float(age.split()[-1]) >= 90


def test_a_ledger_that_holds_none_has_no_oldest() -> None:
    assert 'isthmus_ledger_transaction_age_max_seconds{bridge="b"} 0.0' in exposition(HeldTransactions)


def test_where_no_ledger_is_looked_at_there_is_no_figure() -> None:
    assert [line for line in exposition(lambda: None) if not line.startswith("#")] == []


def test_what_several_ledgers_hold_is_added_up_from_the_oldest_on() -> None:
    assert held_together([]) is None
    both = [HeldTransactions(2, 1, 700), HeldTransactions(), HeldTransactions(1, 0, 300)]
    assert held_together(both) == HeldTransactions(3, 1, 300)

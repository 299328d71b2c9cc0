"""The ledger's processor without Spark's engine."""

from __future__ import annotations

import pandas as pd
from pyspark.sql.streaming.tws_tester import TwsTester
from tests.support.pipeline.shards import PLACES, TIMEOUT_MS, add, outcome, removed, written

from isthmus.journal.layout import Op
from isthmus.ledger.delays import AHEAD_MS
from isthmus.ledger.events import Event, Update, pack, unpack_updates
from isthmus.ledger.machine import ENDS_A_TIMEOUT
from isthmus.ledger.transactions import Holding
from isthmus.pipeline.ledger_tasks import DUE, HOLDING, LedgerProcessor, Report, read_report

KEY = 7
"""The key of shard 0."""


def new_shard() -> TwsTester:
    return TwsTester(LedgerProcessor(PLACES, (KEY, 9), TIMEOUT_MS), timeMode="ProcessingTime")


def run(under_test: TwsTester, *events: Event) -> list[Update]:
    for offset, event in enumerate(events):
        event.offset = offset
    return updates(under_test.testInPandas(KEY, pd.DataFrame({"chunk": [pack(list(events))]})))


def updates(frame: pd.DataFrame) -> list[Update]:
    return [each for each in told(frame) if each.partition != HOLDING]


def told(frame: pd.DataFrame) -> list[Update]:
    return [update for chunk in frame.get("chunk", ()) for update in unpack_updates(chunk)]


def reports(frame: pd.DataFrame) -> list[Report]:
    """What the shard tells of itself."""
    return [read_report(each.key) for each in told(frame) if each.partition == HOLDING]


def test_a_transaction_is_held_in_state_until_its_commit() -> None:
    under_test = new_shard()
    assert written(run(under_test, add(0), add(1))) == []
    assert under_test.peekMapState("chunks", KEY)
    assert written(run(under_test, outcome(Op.COMMIT, 2))) == ["s-t-0", "s-t-1"]
    assert not under_test.peekMapState("chunks", KEY)


def test_a_timer_rolls_back_a_transaction_without_outcome() -> None:
    under_test = new_shard()
    (told,) = run(under_test, add(0))
    assert told.partition == DUE
    assert TIMEOUT_MS < int(told.key) <= TIMEOUT_MS + TIMEOUT_MS // ENDS_A_TIMEOUT
    assert updates(under_test.setProcessingTime(TIMEOUT_MS)) == [told]
    assert removed(updates(under_test.setProcessingTime(int(told.key)))) == ["s-t-0", "t"]


def test_a_timer_that_went_off_for_nothing_is_set_again() -> None:
    under_test = new_shard()
    run(under_test, add(0))
    under_test.setProcessingTime(TIMEOUT_MS // 2)
    run(under_test, add(0, "u", time_ms=TIMEOUT_MS // 2))
    assert [each.partition for each in updates(under_test.setProcessingTime(TIMEOUT_MS + 2))] == [DUE]
    assert len(removed(updates(under_test.setProcessingTime(2 * TIMEOUT_MS)))) == 4


def test_no_timer_rolls_back_a_prepared_transaction() -> None:
    under_test = new_shard()
    run(under_test, add(0), outcome(Op.PREPARE, 1))
    assert updates(under_test.setProcessingTime(1_000 * TIMEOUT_MS)) == []
    assert written(run(under_test, outcome(Op.COMMIT, 1))) == ["s-t-0"]


def test_a_timer_releases_a_delayed_message_and_tells_when_the_next_is_due() -> None:
    under_test = new_shard()
    early, late = (
        Event(Op.DELAY, 1, 0, 0, b"m\0delay", "s", record=b"r", due_ms=due) for due in (2_500, 9_000)
    )
    assert run(under_test, early, late) == [Update(DUE, b"%d" % (2_500 - AHEAD_MS))]
    assert updates(under_test.setProcessingTime(2_400 - AHEAD_MS)) == [
        Update(DUE, b"%d" % (2_500 - AHEAD_MS))
    ]
    assert updates(under_test.setProcessingTime(2_500 - AHEAD_MS)) == [
        Update(PLACES.of_committed("s"), record=b"r", due_ms=2_500),
        Update(1, b"m\0delay"),
        Update(DUE, b"%d" % (9_000 - AHEAD_MS)),
    ]
    assert len(updates(under_test.setProcessingTime(9_000))) == 2


def test_a_shard_tells_what_it_holds_in_each_batch_until_it_holds_nothing() -> None:
    under_test = new_shard()

    def step(*events: Event) -> list[Report]:
        for offset, event in enumerate(events):
            event.offset = offset
        return reports(under_test.testInPandas(KEY, pd.DataFrame({"chunk": [pack(list(events))]})))

    assert step(add(0, time_ms=500)) == [Report(0, Holding(1, 0, 500))]
    prepared = add(0, "u", time_ms=900), outcome(Op.PREPARE, 1, "u", time_ms=950)
    assert step(*prepared) == [Report(0, Holding(2, 1, 500))]
    # A ledger that starts anew has nobody to ask but a shard, and that runs when a timer goes off.
    assert reports(under_test.setProcessingTime(5_000)) == [Report(0, Holding(2, 1, 500))]
    assert step(outcome(Op.ROLLBACK, 1)) == [Report(0, Holding(1, 1, 900))]
    assert step(outcome(Op.COMMIT, 1, "u")) == [Report(0, Holding())]
    assert step(outcome(Op.COMMIT, 1, "u")) == []

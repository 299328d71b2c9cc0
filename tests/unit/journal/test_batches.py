"""Lanes of the journal: what leaves together, in which order, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.asynchronous import eventually

from isthmus.errors import HardFailure, IsthmusError, OversizeFailure
from isthmus.journal import OnDone, batches
from isthmus.journal.batches import BatchWriter
from isthmus.journal.layout import Record
from isthmus.journal.partitions import JournalPartitions
from isthmus.journal.topic import JournalTopic
from isthmus.kafka.producer import Batch as RealBatch
from isthmus.kafka.producer import ResilientProducer, record_bytes

BATCH_SIZE = 4
"""How many records a batch of these tests has room for."""
PARTITIONS = JournalPartitions(3, ledger_partitions=1)


class Batch:
    def __init__(self) -> None:
        self.values: list[str] = []
        self.size = 0
        self.full = False

    def append(self, record: Record, timestamp_ms: int) -> bool:
        """Takes the first record, however large."""
        value = record.value or b""
        if self.values and (len(self.values) == BATCH_SIZE or self.size + len(value) > 1_000):
            self.full = True
            return False
        self.values.append(value.decode())
        self.size += len(value)
        return True


class Producer:
    """Writes when it is told to, or fails."""

    def __init__(self) -> None:
        self.closed = False
        self.sent: list[list[str]] = []
        self._answers: list[asyncio.Future[IsthmusError | None]] = []

    def new_batch(self) -> Batch:
        return Batch()

    async def write(self, batch: Batch, topic: str, partition: int) -> IsthmusError | None:
        future: asyncio.Future[IsthmusError | None] = asyncio.get_running_loop().create_future()
        self.sent.append(batch.values)
        self._answers.append(future)
        return await future

    async def close(self) -> None:
        self.closed = True

    def answer(self, failure: IsthmusError | None = None) -> None:
        """Decide the batch that was sent first of those that are not decided."""
        self._answers.pop(0).set_result(failure)


def run(scenario: Callable[[BatchWriter, Producer], Awaitable[None]]) -> Producer:
    producer = Producer()

    async def work() -> None:
        topic = JournalTopic(PARTITIONS, 1_128)
        await scenario(BatchWriter(cast("ResilientProducer", producer), "journal", topic), producer)

    asyncio.run(work())
    return producer


def record(value: str) -> Record:
    return Record(b"k", value.encode(), [])


async def turn() -> None:
    """Let the loop have two turns, which takes no time."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def put_together(writer: BatchWriter, records: list[Record], on_done: OnDone) -> None:
    writer.add_together(records, sum(map(record_bytes, records)), "s", on_done)


def ignore(_: IsthmusError | None) -> None: ...


def test_a_record_that_comes_alone_leaves_at_once() -> None:
    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        for n in range(3):
            writer.add(record(str(n)), "s", ignore)
            await turn()
            assert kafka.sent[-1] == [str(n)]
            kafka.answer()
            await turn()

    run(scenario)


def test_records_that_come_in_one_turn_leave_together() -> None:
    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        for n in range(3):
            writer.add(record(str(n)), "s", ignore)
        assert kafka.sent == []
        await turn()
        assert kafka.sent == [["0", "1", "2"]]

    run(scenario)


def test_records_that_come_while_a_batch_is_in_flight_leave_when_it_is_done() -> None:
    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        writer.add(record("0"), "s", ignore)
        await turn()
        for n in range(1, 4):
            writer.add(record(str(n)), "s", ignore)
            await turn()
        assert kafka.sent == [["0"]]
        kafka.answer()
        await turn()
        assert kafka.sent == [["0"], ["1", "2", "3"]]

    run(scenario)


def test_a_full_batch_is_followed_by_another_in_order() -> None:
    told: list[int] = []

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        for n in range(10):
            writer.add(record(str(n)), "s", lambda _, n=n: told.append(n))
        for _ in range(3):
            await turn()
            kafka.answer()
        await turn()
        assert kafka.sent == [list("0123"), list("4567"), list("89")]

    run(scenario)
    assert told == list(range(10))


def test_partitions_do_not_wait_for_each_other() -> None:
    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        one, other = (
            next(name for name in "abcdefgh" if PARTITIONS.of_session(name) == number) for number in (0, 1)
        )
        writer.add(record("one"), one, ignore)
        await turn()
        writer.add(record("other"), other, ignore)
        await turn()
        assert kafka.sent == [["one"], ["other"]]

    run(scenario)


def test_what_is_added_together_is_never_parted() -> None:
    told: list[str] = []

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        writer.add(record("a" * 400), "s", lambda _: told.append("a"))
        put_together(writer, [record("b" * 400), record("c" * 400)], lambda _: told.append("bc"))
        writer.add(record("d"), "s", lambda _: told.append("d"))
        for _ in range(2):
            await turn()
            kafka.answer()
        await turn()
        assert [[value[0] for value in values] for values in kafka.sent] == [["a"], ["b", "c", "d"]]

    run(scenario)
    assert told == ["a", "bc", "d"]


def test_what_is_added_together_shares_its_batch_where_there_is_room() -> None:
    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        writer.add(record("0"), "s", ignore)
        put_together(writer, [record("1"), record("2")], ignore)
        writer.add(record("3"), "s", ignore)
        await turn()
        assert kafka.sent == [["0", "1", "2", "3"]]

    run(scenario)


def test_what_is_together_too_large_for_a_batch_is_refused_whole() -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        put_together(writer, [record("b" * 400), record("c" * 400), record("d" * 400)], told.append)
        assert told == []
        await turn()
        assert kafka.sent == []

    run(scenario)
    [failure] = told
    assert isinstance(failure, OversizeFailure)
    assert failure.size is not None
    assert failure.size > 1_200
    assert failure.limit == 1_000


def test_nothing_is_taken_together_after_the_close() -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        await writer.close()
        put_together(writer, [record("0")], told.append)
        await turn()

    run(scenario)
    assert [type(failure) for failure in told] == [HardFailure]


@given(
    st.lists(
        st.builds(
            Record,
            st.none() | st.binary(max_size=200),
            st.none() | st.binary(max_size=300),
            st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=200)), max_size=8),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_records_fit_into_a_batch_of_the_sum_of_their_bounds(records: list[Record]) -> None:
    bound = sum(map(record_bytes, records))
    batch = RealBatch(bound)
    assert all(batch.append(record, 1_700_000_000_000 + n) for n, record in enumerate(records))
    assert batch.size <= bound


def test_nobody_is_told_before_kafka_has_it() -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        writer.add(record("0"), "s", told.append)
        await turn()
        assert told == []
        kafka.answer()
        await turn()
        assert told == [None]

    run(scenario)


def test_a_record_that_is_too_large_is_refused_alone() -> None:
    told: dict[str, IsthmusError | None] = {}

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        for value in ("a", "x" * 1_001, "b"):
            writer.add(record(value), "s", lambda failure, value=value: told.update({value[:1]: failure}))
        assert told == {}
        await turn()
        kafka.answer()
        await turn()
        assert kafka.sent == [["a", "b"]]

    run(scenario)
    assert told["a"] is told["b"] is None
    assert isinstance(told["x"], OversizeFailure)


def test_one_that_fails_when_it_is_told_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    told: list[IsthmusError | None] = []

    def fails(_: IsthmusError | None) -> None:
        raise RuntimeError("a mistake")

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        writer.add(record("0"), "s", fails)
        writer.add(record("1"), "s", told.append)
        await turn()
        kafka.answer()
        await turn()
        writer.add(record("2"), "s", told.append)
        await turn()
        kafka.answer()
        await turn()

    run(scenario)
    assert told == [None, None]
    assert "a mistake" in caplog.text


def test_a_close_waits_for_what_is_in_flight() -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        writer.add(record("0"), "s", told.append)
        await turn()
        asyncio.get_running_loop().call_later(0.05, kafka.answer)
        await writer.close()
        assert told == [None]

    assert run(scenario).closed


def test_a_close_that_waits_in_vain_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CLOSE_S", 0.05)

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        writer.add(record("0"), "s", ignore)
        writer.add(record("1"), "s", ignore)
        with pytest.raises(HardFailure, match=r"2 messages are not in the journal after 0\.05 s"):
            await writer.close()

    assert run(scenario).closed


def test_a_refused_batch_is_told_to_all_who_wait_and_the_next_goes_on() -> None:
    told: list[IsthmusError | None] = []
    refusal = HardFailure("refused", remedy="none")

    async def scenario(writer: BatchWriter, kafka: Producer) -> None:
        writer.add(record("0"), "s", told.append)
        writer.add(record("1"), "s", told.append)
        await turn()
        writer.add(record("2"), "s", told.append)
        kafka.answer(refusal)
        await eventually(lambda: len(kafka.sent) == 2)
        kafka.answer()
        await eventually(lambda: len(told) == 3)

    run(scenario)
    assert told == [refusal, refusal, None]

"""Lanes of the journal: what leaves together, in which order, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    LeaderNotAvailableError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from tests.support.asynchronous import eventually

from isthmus.config.model.settings import JournalSettings
from isthmus.errors import HardFailure, IsthmusError, Outage, OversizeFailure
from isthmus.journal import batches
from isthmus.journal.batches import BatchWriter
from isthmus.journal.layout import Record
from isthmus.journal.partitions import JournalPartitions
from isthmus.journal.topic import JournalTopic
from isthmus.kafka import producer
from isthmus.kafka.options import Kafka

BATCH_SIZE = 4
"""How many records a batch of these tests has room for."""


class Builder:
    """A batch of aiokafka's."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.bytes = 0
        self.closed = False

    def append(self, *, timestamp: int, key: bytes, value: bytes, headers: Any) -> object:
        """Takes the first record, however large; the first one that there is no room for closes it."""
        full = len(self.values) == BATCH_SIZE or self.bytes + len(value) > 1_000
        self.closed = self.closed or (full and bool(self.values))
        if self.closed:
            return None
        self.values.append(value.decode())
        self.bytes += len(value)
        return self

    def size(self) -> int:
        return self.bytes


class Producers:
    """Stands for Kafka: its producers, which write when they are told to, or fail."""

    def __init__(self) -> None:
        self.made = 0
        self.stopped = 0
        self.sent: list[tuple[int, list[str]]] = []
        """The batches that were handed over, each with the number of its producer."""
        self.start_failures: Sequence[KafkaError] = ()
        self.answers: list[asyncio.Future[object]] = []

    def make(self, **options: Any) -> Producer:
        self.options = options
        self.made += 1
        return Producer(self, self.made)

    def answer(self, failure: Exception | None = None) -> None:
        """Decide the batch that was sent first of those that are not decided."""
        future = self.answers.pop(0)
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)


class Producer:
    def __init__(self, kafka: Producers, number: int) -> None:
        self._kafka = kafka
        self._number = number
        self.client = self

    async def _metadata_update(self) -> None: ...

    async def force_metadata_update(self) -> bool:
        return True

    async def start(self) -> None:
        if self._kafka.start_failures:
            raise self._kafka.start_failures.pop(0)

    async def stop(self) -> None:
        self._kafka.stopped += 1

    def create_batch(self) -> Builder:
        return Builder()

    async def send_batch(self, batch: Builder, topic: str, *, partition: int) -> asyncio.Future[object]:
        future = asyncio.get_running_loop().create_future()
        self._kafka.sent.append((self._number, batch.values))
        self._kafka.answers.append(future)
        return future


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Producers]:
    """Runs a scenario with a writer whose Kafka does what the scenario says."""
    monkeypatch.setattr(producer, "RETRY_S", 0.001)

    def run(
        scenario: Callable[[BatchWriter, Producers], Awaitable[None]],
        start_failures: Sequence[KafkaError] = (),
    ) -> Producers:
        kafka = Producers()
        kafka.start_failures = list(start_failures)
        monkeypatch.setattr(producer, "AIOKafkaProducer", kafka.make)
        topic = JournalTopic(JournalPartitions(3, ledger_partitions=1), 1_128)
        monkeypatch.setattr(batches, "find_journal", lambda *_: topic)

        async def work() -> None:
            writer = await BatchWriter.open(Kafka("h:1"), JournalSettings(topic="journal"))
            await scenario(writer, kafka)

        asyncio.run(work())
        return kafka

    return run


def record(value: str) -> Record:
    return Record(b"k", value.encode(), [])


async def turn() -> None:
    """Let the loop have two turns, which takes no time."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def ignore(_: IsthmusError | None) -> None: ...


def test_a_producer_is_idempotent_and_its_batches_fit_the_topic(run: Callable[..., Producers]) -> None:
    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        assert kafka.options["enable_idempotence"] is True
        assert kafka.options["max_batch_size"] == 1_000
        assert kafka.options["bootstrap_servers"] == "h:1"

    run(scenario)


def test_a_record_that_comes_alone_leaves_at_once(run: Callable[..., Producers]) -> None:
    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        for n in range(3):
            writer.add(record(str(n)), "s", ignore)
            await turn()
            assert kafka.sent[-1] == (1, [str(n)])
            kafka.answer()
            await turn()

    run(scenario)


def test_records_that_come_in_one_turn_leave_together(run: Callable[..., Producers]) -> None:
    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        for n in range(3):
            writer.add(record(str(n)), "s", ignore)
        assert kafka.sent == []
        await turn()
        assert kafka.sent == [(1, ["0", "1", "2"])]

    run(scenario)


def test_records_that_come_while_a_batch_is_under_way_leave_when_it_is_decided(
    run: Callable[..., Producers],
) -> None:
    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add(record("0"), "s", ignore)
        await turn()
        for n in range(1, 4):
            writer.add(record(str(n)), "s", ignore)
            await turn()
        assert kafka.sent == [(1, ["0"])]
        kafka.answer()
        await turn()
        assert kafka.sent == [(1, ["0"]), (1, ["1", "2", "3"])]

    run(scenario)


def test_a_full_batch_is_followed_by_another_in_order(run: Callable[..., Producers]) -> None:
    told: list[int] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        for n in range(10):
            writer.add(record(str(n)), "s", lambda _, n=n: told.append(n))
        for _ in range(3):
            await turn()
            kafka.answer()
        await turn()
        assert [values for _, values in kafka.sent] == [list("0123"), list("4567"), list("89")]

    run(scenario)
    assert told == list(range(10))


def test_partitions_do_not_wait_for_each_other(run: Callable[..., Producers]) -> None:
    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        places = JournalPartitions(3, ledger_partitions=1)
        one, other = (
            next(name for name in "abcdefgh" if places.of_session(name) == place) for place in (0, 1)
        )
        writer.add(record("one"), one, ignore)
        await turn()
        writer.add(record("other"), other, ignore)
        await turn()
        assert kafka.sent == [(1, ["one"]), (1, ["other"])]

    run(scenario)


def test_what_is_added_together_is_never_parted(run: Callable[..., Producers]) -> None:
    told: list[str] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add(record("a" * 400), "s", lambda _: told.append("a"))
        writer.add_together([record("b" * 400), record("c" * 400)], "s", lambda _: told.append("bc"))
        writer.add(record("d"), "s", lambda _: told.append("d"))
        for _ in range(2):
            await turn()
            kafka.answer()
        await turn()
        assert [[value[0] for value in values] for _, values in kafka.sent] == [["a"], ["b", "c", "d"]]

    run(scenario)
    assert told == ["a", "bc", "d"]


def test_what_is_added_together_shares_its_batch_where_there_is_room(run: Callable[..., Producers]) -> None:
    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add(record("0"), "s", ignore)
        writer.add_together([record("1"), record("2")], "s", ignore)
        writer.add(record("3"), "s", ignore)
        await turn()
        assert kafka.sent == [(1, ["0", "1", "2", "3"])]

    run(scenario)


def test_what_is_added_together_is_not_added_to_a_batch_that_is_closed(
    run: Callable[..., Producers],
) -> None:
    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add(record("0"), "s", ignore)
        writer.add(record("x" * 1_001), "s", ignore)  # for which there is no room anywhere
        writer.add_together([record("1"), record("2")], "s", ignore)
        for _ in range(2):
            await turn()
            kafka.answer()
        await turn()
        assert [values for _, values in kafka.sent] == [["0"], ["1", "2"]]

    run(scenario)


def test_what_is_together_too_large_for_a_batch_is_refused_whole(run: Callable[..., Producers]) -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add_together([record("b" * 400), record("c" * 400), record("d" * 400)], "s", told.append)
        assert told == []
        await turn()
        assert kafka.sent == []

    run(scenario)
    [failure] = told
    assert isinstance(failure, OversizeFailure)
    assert failure.size is not None
    assert failure.size > 1_200
    assert failure.limit == 1_000


@pytest.mark.parametrize("error", [LeaderNotAvailableError(), OutOfOrderSequenceNumber()])
def test_what_is_added_together_stays_together_when_another_producer_writes_it(
    run: Callable[..., Producers], error: Exception
) -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add_together([record("0"), record("1"), record("2")], "s", told.append)
        await turn()
        writer.add(record("3"), "s", ignore)
        kafka.answer(error)
        await eventually(lambda: len(kafka.sent) == 2)
        assert kafka.sent == [(1, ["0", "1", "2"]), (2, ["0", "1", "2"])]
        assert told == []
        kafka.answer()
        await eventually(lambda: told == [None])
        await eventually(lambda: len(kafka.sent) == 3)
        kafka.answer()
        await writer.close()

    run(scenario)


def test_nothing_is_taken_together_after_the_close(run: Callable[..., Producers]) -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        await writer.close()
        writer.add_together([record("0")], "s", told.append)
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
    bound = sum(map(producer.record_bytes, records))
    batch = producer.Batch(BatchBuilder(bound, 0))
    assert all(batch.append(record, 1_700_000_000_000 + n) for n, record in enumerate(records))
    assert batch.builder.size() <= bound


def test_nobody_is_told_before_kafka_has_it(run: Callable[..., Producers]) -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add(record("0"), "s", told.append)
        await turn()
        assert told == []
        kafka.answer()
        await turn()
        assert told == [None]

    run(scenario)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (MessageSizeTooLargeError(), OversizeFailure),
        (TopicAuthorizationFailedError("journal"), HardFailure),
        (UnknownTopicOrPartitionError(), HardFailure),
    ],
)
def test_a_refused_batch_is_told_to_all_who_wait_and_another_producer_goes_on(
    run: Callable[..., Producers], error: Exception, failure: type[IsthmusError]
) -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add(record("0"), "s", told.append)
        writer.add(record("1"), "s", told.append)
        await turn()
        writer.add(record("2"), "s", told.append)
        kafka.start_failures = [KafkaConnectionError("Kafka is away")] * 3
        kafka.answer(error)
        await eventually(lambda: len(kafka.sent) == 2)
        assert kafka.sent == [(1, ["0", "1"]), (5, ["2"])]
        kafka.answer()
        await eventually(lambda: len(told) == 3)
        await writer.close()

    kafka = run(scenario)
    assert [type(each) for each in told] == [failure, failure, type(None)]
    assert "did not take a message for the journal journal" in str(told[0])
    assert kafka.stopped == kafka.made


@pytest.mark.parametrize(
    "error", [LeaderNotAvailableError(), OutOfOrderSequenceNumber(), AssertionError("Unrecognized partition")]
)
def test_what_kafka_cannot_take_now_is_written_by_another_producer_before_what_follows(
    run: Callable[..., Producers], error: Exception
) -> None:
    told: list[tuple[str, IsthmusError | None]] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        for value in "01":
            writer.add(record(value), "s", lambda failure, value=value: told.append((value, failure)))
        await turn()
        writer.add(record("2"), "s", lambda failure: told.append(("2", failure)))
        kafka.answer(error)
        await eventually(lambda: len(kafka.sent) == 2)
        assert kafka.sent == [(1, ["0", "1"]), (2, ["0", "1"])]
        assert told == []
        kafka.answer()
        await eventually(lambda: len(kafka.sent) == 3)
        kafka.answer()
        await eventually(lambda: len(told) == 3)
        await writer.close()

    kafka = run(scenario)
    assert told == [("0", None), ("1", None), ("2", None)]
    assert kafka.sent[2:] == [(2, ["2"])]
    assert kafka.stopped == kafka.made


def test_patience_with_a_kafka_that_takes_nothing_ends_and_it_is_told_once(
    run: Callable[..., Producers], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(producer, "PATIENCE_S", 0.2)
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add(record("0"), "s", told.append)
        while not told:
            await eventually(lambda: kafka.answers or told)
            if kafka.answers:
                kafka.answer(LeaderNotAvailableError())
        await writer.close()

    kafka = run(scenario)
    assert [type(failure) for failure in told] == [HardFailure]
    assert len(kafka.sent) > 1
    assert [each.message for each in caplog.records] == [
        "journal journal: Kafka does not take a batch: [Error 5] LeaderNotAvailableError"
    ]


def test_a_record_that_is_too_large_is_refused_alone(run: Callable[..., Producers]) -> None:
    told: dict[str, IsthmusError | None] = {}

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        for value in ("a", "x" * 1_001, "b"):
            writer.add(record(value), "s", lambda failure, value=value: told.update({value[:1]: failure}))
        assert told == {}
        for _ in range(2):
            await turn()
            kafka.answer()
        await turn()
        assert [values for _, values in kafka.sent] == [["a"], ["b"]]

    run(scenario)
    assert told["a"] is told["b"] is None
    assert isinstance(told["x"], OversizeFailure)


def test_one_that_fails_when_it_is_told_holds_nobody_up(
    run: Callable[..., Producers], caplog: pytest.LogCaptureFixture
) -> None:
    told: list[IsthmusError | None] = []

    def fails(_: IsthmusError | None) -> None:
        raise RuntimeError("a mistake")

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
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


def test_a_close_waits_for_what_is_under_way(run: Callable[..., Producers]) -> None:
    told: list[IsthmusError | None] = []

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add(record("0"), "s", told.append)
        await turn()
        asyncio.get_running_loop().call_later(0.05, kafka.answer)
        await writer.close()
        assert told == [None]

    assert run(scenario).stopped == 1


def test_a_close_that_waits_in_vain_says_so(
    run: Callable[..., Producers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CLOSE_S", 0.05)

    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        writer.add(record("0"), "s", ignore)
        writer.add(record("1"), "s", ignore)
        with pytest.raises(HardFailure, match=r"2 messages are not in the journal after 0\.05 s"):
            await writer.close()

    assert run(scenario).stopped == 1


def test_a_kafka_that_takes_no_producer_fails_the_start(run: Callable[..., Producers]) -> None:
    async def scenario(writer: BatchWriter, kafka: Producers) -> None:
        raise AssertionError("it has started")

    with pytest.raises(Outage, match=r"takes no producer: .*nobody listens"):
        run(scenario, start_failures=[KafkaConnectionError("nobody listens")])

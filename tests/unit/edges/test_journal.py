"""The journal as edges see it: entries become records, and those who wait are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from tests.support.journals import write

from isthmus.edges.journal import EdgeJournal, TaggedJournal
from isthmus.errors import EncodeError, HardFailure, IsthmusError
from isthmus.journal import OnDone, layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.message import Body, BodyKind, Header, Message

REFUSAL = HardFailure("Kafka refuses", remedy="none")


class FakeWriter:
    """Has records as soon as they are added, unless it refuses them."""

    def __init__(self) -> None:
        self.added: list[tuple[Record, str]] = []
        self.together: list[tuple[list[Record], str]] = []
        self.batch_bytes = 1_000
        self.refuses: IsthmusError | None = None
        self.closed = False

    def add(self, record: Record, session: str, on_done: OnDone) -> None:
        self.added.append((record, session))
        asyncio.get_running_loop().call_soon(on_done, self.refuses)

    def add_together(self, records: Sequence[Record], size: int, session: str, on_done: OnDone) -> None:
        self.together.append((list(records), session))
        asyncio.get_running_loop().call_soon(on_done, self.refuses)

    async def close(self) -> None:
        self.closed = True


def run(
    scenario: Callable[[EdgeJournal, FakeWriter], Awaitable[None]], *, as_json: bool = False
) -> FakeWriter:
    writer = FakeWriter()

    async def work() -> None:
        await scenario(EdgeJournal(writer, as_json=as_json), writer)  # type: ignore[arg-type]

    asyncio.run(work())
    return writer


def entry(address: str = "a") -> Entry:
    message = Message(
        id="1", address=address, protocol="nats", value=b"hi", body=Body(BodyKind.TEXT), session="s"
    )
    return Entry(Op.ADD, message)


def test_an_entry_becomes_the_record_of_its_session() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        told: list[IsthmusError | None] = []
        journal.put(entry(), told.append)
        await asyncio.sleep(0)
        assert told == [None]
        assert writer.added == [(layout.encode(entry()), "s")]

    run(scenario)


def test_a_tagged_journal_adds_its_header_to_entries_and_records() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        tagged = TaggedJournal(journal, "Connector", "eu")
        tagged.put(entry(), lambda _: None)
        tagged.put_record(layout.encode(entry()), "s", lambda _: None)
        headers = [layout.decode(record).message.headers for record, _ in writer.added]
        assert headers == [{"Connector": Header("eu")}] * 2

    run(scenario)


def test_a_record_goes_on_as_it_is() -> None:
    record = layout.encode(entry())

    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        journal.put_record(record, "s", lambda _: None)
        assert writer.added == [(record, "s")]

    run(scenario)


def test_records_that_are_put_together_go_on_together() -> None:
    record = layout.encode(entry())

    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        told: list[IsthmusError | None] = []
        journal.put_together([record, record], 2, "s", told.append)
        await asyncio.sleep(0)
        assert told == [None]
        assert writer.together == [([record, record], "s")]
        assert journal.batch_bytes == 1_000

    run(scenario)


def test_a_tagged_journal_adds_its_header_to_records_that_are_put_together() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        tagged = TaggedJournal(journal, "Connector", "eu")
        tagged.put_together([layout.encode(entry())] * 2, 2, "s", lambda _: None)
        [(records, session)] = writer.together
        assert session == "s"
        headers = [layout.decode(record).message.headers for record in records]
        assert headers == [{"Connector": Header("eu")}] * 2
        assert tagged.batch_bytes == 1_000

    run(scenario)


def test_what_the_journal_cannot_carry_is_told_later() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        told: list[IsthmusError | None] = []
        journal.put(entry(address="\ud800"), told.append)
        assert told == []
        await asyncio.sleep(0)
        assert [type(failure) for failure in told] == [EncodeError]
        assert writer.added == []

    run(scenario)


def test_what_kafka_refuses_is_told() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        writer.refuses = REFUSAL
        with pytest.raises(HardFailure, match="Kafka refuses"):
            await write(journal, entry())

    run(scenario)


def test_close_closes_the_writer() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        await journal.close()

    assert run(scenario).closed


@pytest.mark.parametrize("as_json", [False, True])
def test_a_message_of_any_protocol_is_journaled_with_what_json_needs(as_json: bool) -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        await write(journal, entry())

    record, _ = run(scenario, as_json=as_json).added[0]
    assert (layout.JSON_DOCUMENT in dict(record.headers)) == as_json

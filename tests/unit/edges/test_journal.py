"""The journal as edges see it: entries become records, and those who wait are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
from tests.support.journals import write

from isthmus.edges.addresses import KnownAddress
from isthmus.edges.journal import AddressedJournal, EdgeJournal, TaggedJournal
from isthmus.errors import EncodeError, HardFailure, IsthmusError, Outage
from isthmus.journal import OnDone, layout
from isthmus.journal.layout import AddressTopic, Entry, Op, Record
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


class FakeWaker:
    """Counts how often the ledger was woken."""

    def __init__(self) -> None:
        self.times = 0

    def wake(self) -> None:
        self.times += 1


@pytest.mark.parametrize(
    ("op", "wakes"),
    [(Op.ADD, 0), (Op.ADD_TX, 0), (Op.DELETE_TX, 0), (Op.DELAY, 1), (Op.DELETE, 1), (Op.COMMIT, 1)],
)
def test_the_ledger_is_woken_for_what_it_decides_once_the_journal_has_it(op: Op, wakes: int) -> None:
    async def scenario() -> None:
        waker, told = FakeWaker(), list[IsthmusError | None]()
        journal = EdgeJournal(FakeWriter(), waker=waker)  # type: ignore[arg-type]
        of_transaction = op.name.endswith("_TX") or op is Op.COMMIT
        made = entry()._replace(op=op, **({"transaction": "t", "sequence": 0} if of_transaction else {}))
        journal.put(made, told.append)
        assert waker.times == 0
        await asyncio.sleep(0)
        assert (told, waker.times) == ([None], wakes)
        journal.put_together([layout.encode(entry()), layout.encode(made)], 10, "s", told.append)
        await asyncio.sleep(0)
        assert (told, waker.times) == ([None, None], 2 * wakes)

    asyncio.run(scenario())


class Addresses:
    """Any address has a topic of its name, but those that begin with ``no-``; all must be asked for."""

    def __init__(self, *failures: HardFailure) -> None:
        self.failures = list(failures)
        self.answer = asyncio.Event()
        self.found: dict[str, KnownAddress] = {}

    def known(self, address: str) -> KnownAddress | None:
        return self.found.get(address)

    async def find(self, address: str, *, jms: bool = False) -> str | None:
        await self.answer.wait()
        if self.failures:
            raise self.failures.pop(0)
        topic = None if address.startswith("no-") else AddressTopic(address, 4, 1000)
        self.found[address] = KnownAddress(topic)
        return None


def in_session(session: str, address: str) -> Entry:
    made = entry(address)
    return made._replace(message=replace(made.message, session=session))


async def written(writer: FakeWriter, count: int) -> list[tuple[str, str | None]]:
    """KnownAddress and topic of what was written."""
    while len(writer.added) < count:
        await asyncio.sleep(0)
    entries = [layout.decode(record) for record, _ in writer.added]
    return [(each.message.address, each.topic.name if each.topic else None) for each in entries]


def test_an_addressed_journal_is_told_of_topics_in_the_order_of_each_session() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        addresses = Addresses()
        addressed = AddressedJournal(journal, addresses)
        addresses.found["known"] = KnownAddress(AddressTopic("known", 1, 1))
        for session, address in [("s", "a"), ("s", "known"), ("t", "known"), ("s", "no-topic"), ("s", "a")]:
            addressed.put(in_session(session, address), lambda _: None)
        assert await written(writer, 1) == [("known", "known")]
        addresses.answer.set()
        assert (await written(writer, 5))[1:] == [
            ("a", "a"), ("known", "known"), ("no-topic", None), ("a", "a"),
        ]  # fmt: skip
        addressed.put(entry("a"), lambda _: None)
        assert len(writer.added) == 6

    run(scenario)


def test_an_addressed_journal_waits_for_kafka_and_for_nothing_else() -> None:
    async def scenario(journal: EdgeJournal, writer: FakeWriter) -> None:
        addresses = Addresses(Outage("away", remedy=""), Outage("away", remedy=""))
        addresses.answer.set()
        addressed = AddressedJournal(journal, addresses)
        addressed.put(entry("a"), lambda _: None)
        assert await written(writer, 1) == [("a", "a")]
        addresses.failures.append(HardFailure("forbidden", remedy=""))
        addressed.put(entry("b"), lambda _: None)
        assert (await written(writer, 2))[1:] == [("b", None)]

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

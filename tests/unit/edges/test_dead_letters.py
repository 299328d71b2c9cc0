"""What becomes of messages that an edge cannot handle, under each policy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from isthmus.config import RoutingSettings, Settings
from isthmus.converters import ReceivedRecord
from isthmus.edges.contract import OutboundMessage
from isthmus.edges.dead_letters import EdgeDeadLetters
from isthmus.errors import ConversionFailure, HardFailure
from isthmus.journal import layout
from isthmus.journal.dead_letter import read_dead_letter
from isthmus.journal.layout import Record
from isthmus.kafka.options import Kafka
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.routing.predicate import parse
from isthmus.routing.route import OnError, Route

OUTBOX = "isthmus.b.outbox.mq"
FAILURE = ConversionFailure("no form")
OUTBOUND = OutboundMessage("j:0:7", "Q", Record(b"k", b"body", [("jms.n", b"1"), ("jms.types", b"n=int;")]))
MESSAGE = Message(id="1", address="orders", protocol="nats", value=b"v", body=Body(BodyKind.TEXT))
RECEIVED = ReceivedRecord("t", 1, 5, b"k", b"v")


class Kept:
    """What was written to the dead letters."""

    def __init__(self, policy: OnError, own: OnError | None = None) -> None:
        routing = RoutingSettings(on_error=policy, dead_letter_topic="dead")
        route = Route("out", parse("msg.address==a"), OUTBOX, on_error=own, destination="Q")
        settings = Settings(bridge_id="b", routing=routing, routes=(route,))
        self.dead_letters = EdgeDeadLetters(settings, Kafka("h:1"))
        self.records: list[tuple[str, Record]] = []
        self.dead_letters._write = self._write  # type: ignore[method-assign]

    async def _write(self, topic: str, record: Record) -> None:
        self.records.append((topic, record))

    def outbound(self) -> None:
        asyncio.run(self.dead_letters.outbound(OUTBOX, OUTBOUND, FAILURE))

    def message(self, message: Message = MESSAGE) -> None:
        asyncio.run(self.dead_letters.message(message, FAILURE))

    def received(self) -> None:
        asyncio.run(self.dead_letters.received(RECEIVED, FAILURE))


def headers(record: Record) -> dict[str, Any]:
    return dict(record.headers)


def test_a_message_of_an_outbox_is_kept_with_all_that_is_known_of_it() -> None:
    kept = Kept(OnError.DEAD_LETTER)
    kept.outbound()
    [(topic, record)] = kept.records
    assert (topic, record.key, record.value) == ("dead", b"k", b"body")
    assert headers(record) == {
        "jms.n": b"1",
        "jms.types": b"n=int;",
        layout.STABLE_ID: b"j:0:7",
        layout.DESTINATION: b"Q",
        layout.ORIGIN: b"b",
        layout.ERROR_CODE: b"conversion",
        layout.ERROR_MESSAGE: b"no form",
        layout.ERROR_ROUTE: b"out",
    }


def test_a_dead_letter_of_an_outbox_can_be_told_from_the_routers() -> None:
    kept = Kept(OnError.DEAD_LETTER)
    kept.outbound()
    [(topic, record)] = kept.records
    dead = read_dead_letter(topic, 0, 0, 0, record)
    assert dead is not None
    assert (dead.of_outbox, dead.destination, dead.source) == (True, "Q", ("j", 0, 7))
    assert dead.original == OUTBOUND.record


def test_the_routes_own_policy_comes_first() -> None:
    kept = Kept(OnError.STOP, OnError.DEAD_LETTER)
    kept.outbound()
    assert len(kept.records) == 1
    with pytest.raises(HardFailure, match="Q, j:0:7: a message cannot be handled: no form"):
        Kept(OnError.DEAD_LETTER, OnError.STOP).outbound()


def test_a_message_that_was_taken_is_kept_as_the_journal_would_have_it() -> None:
    kept = Kept(OnError.DEAD_LETTER)
    kept.message()
    [(_, record)] = kept.records
    assert layout.decode(record).message.address == "orders"


def test_a_message_that_the_journal_cannot_carry_is_kept_without_its_headers() -> None:
    kept = Kept(OnError.DEAD_LETTER)
    broken = Message(
        id="1",
        address="orders",
        protocol="nats",
        value=b"v",
        body=Body(BodyKind.TEXT),
        headers={"x": Header("\ud800")},
    )
    kept.message(broken)
    [(_, record)] = kept.records
    assert record.value == b"v"
    assert "jms.x" not in headers(record)


def test_under_skip_nothing_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept(OnError.SKIP)
    kept.outbound()
    kept.message()
    assert kept.records == []
    assert [each.message for each in caplog.records] == [
        "Q, j:0:7: a message was skipped: no form",
        "orders: a message was skipped: no form",
    ]


def test_under_stop_the_bridge_ends_and_nothing_is_lost() -> None:
    for keep in (Kept(OnError.STOP).outbound, Kept(OnError.STOP).message):
        with pytest.raises(HardFailure, match="no form") as caught:
            keep()
        assert "routing.on-error" in caught.value.remedy


def test_what_a_client_rejects_never_ends_the_bridge() -> None:
    stopping, keeping = Kept(OnError.STOP), Kept(OnError.DEAD_LETTER)
    stopping.received()
    keeping.received()
    assert stopping.records == []
    [(_, record)] = keeping.records
    assert headers(record)[layout.STABLE_ID] == b"t:1:5"

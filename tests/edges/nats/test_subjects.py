from __future__ import annotations

import asyncio

import pytest
from tests.support.asynchronous import eventually, running
from tests.support.journals import DeadLetterBox, MemoryJournal, refusing
from tests.support.names import unique
from tests.support.nats.peers import bridge, peer

from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.edges.nats.intake import StreamIntake, SubjectIntake
from isthmus.edges.nats.translate import Arrived, from_nats
from isthmus.errors import DecodeError, HardFailure
from isthmus.journal import OnDone
from isthmus.journal.layout import Entry
from isthmus.message import Header, Message


def test_messages_of_a_wildcard_subject_reach_the_journal_in_order(nats_url: str) -> None:
    async def scenario() -> None:
        root, journal = unique("orders"), MemoryJournal()
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            source = NatsIntakeSettings(subject=f"{root}.>")
            intake = SubjectIntake(client, journal, source, dead_letters=DeadLetterBox())
            async with running(intake):
                await intake.ready.wait()
                await client.live.flush()
                for number in range(200):
                    await sender.publish(f"{root}.eu.{number % 2}", b"%d" % number, headers={"Region": "EU"})
                await eventually(lambda: len(journal.messages) >= 200)
            assert journal.bodies == [b"%d" % number for number in range(200)]
            first = journal.messages[0]
            assert (first.address, first.headers) == (f"{root}.eu.0", {"Region": Header("EU")})
            assert (intake.traffic.messages, intake.traffic.bytes) == (200, 10 + 180 + 300)

    asyncio.run(scenario())


def test_members_of_a_queue_group_share_the_messages(nats_url: str) -> None:
    async def scenario() -> None:
        subject, journals = unique("shared"), [MemoryJournal(), MemoryJournal()]
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            source = NatsIntakeSettings(subject=subject, queue="workers")
            intakes = [
                SubjectIntake(client, journal, source, dead_letters=DeadLetterBox()) for journal in journals
            ]
            async with running(*intakes):
                for intake in intakes:
                    await intake.ready.wait()
                await client.live.flush()
                for number in range(100):
                    await sender.publish(subject, b"%d" % number)
                await eventually(lambda: sum(len(journal.messages) for journal in journals) >= 100)
            taken = [body for journal in journals for body in journal.bodies]
            assert sorted(taken, key=int) == [b"%d" % number for number in range(100)]
            assert all(journal.messages for journal in journals)

    asyncio.run(scenario())


def test_what_has_arrived_is_in_the_journal_when_the_intake_has_ended(nats_url: str) -> None:
    async def scenario() -> None:
        subject, journal = unique("last"), MemoryJournal()
        journal.held = True
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            intake = SubjectIntake(
                client, journal, NatsIntakeSettings(subject=subject), dead_letters=DeadLetterBox()
            )
            async with running(intake):
                await intake.ready.wait()
                await client.live.flush()
                for number in range(50):
                    await sender.publish(subject, b"%d" % number)
                await sender.flush()
                asyncio.get_running_loop().call_later(0.2, journal.release)
            assert len(journal.messages) == 50

    asyncio.run(scenario())


def test_a_payload_that_cannot_be_read_is_a_dead_letter(nats_url: str) -> None:
    async def scenario() -> None:
        def read(arrived: Arrived, own_id: str) -> Message:
            raise DecodeError("not a message")

        subject, journal, dead = unique("odd"), MemoryJournal(), DeadLetterBox()
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            source = NatsIntakeSettings(subject=subject)
            intake = SubjectIntake(client, journal, source, dead_letters=dead, read=read)
            async with running(intake):
                await intake.ready.wait()
                await client.live.flush()
                await sender.publish(subject, b"?")
                await eventually(lambda: dead.letters)
        [(message, failure)] = dead.letters
        assert (message.value, failure.code, journal.messages) == (b"?", "malformed", [])

    asyncio.run(scenario())


def test_a_mistake_of_the_bridge_s_costs_one_message_and_is_logged(
    nats_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        def read(arrived: Arrived, own_id: str) -> Message:
            if arrived.payload == b"odd":
                raise RuntimeError("a mistake")
            return from_nats(arrived, own_id)

        subject, journal, dead = unique("odd"), MemoryJournal(), DeadLetterBox()
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            source = NatsIntakeSettings(subject=subject)
            intake = SubjectIntake(client, journal, source, dead_letters=dead, read=read)
            async with running(intake):
                await intake.ready.wait()
                await client.live.flush()
                await sender.publish(subject, b"odd")
                await sender.publish(subject, b"good")
                await eventually(lambda: dead.letters and journal.messages)
        [(message, failure)] = dead.letters
        assert (message.value, str(failure)) == (b"odd", "the bridge fails on it: RuntimeError: a mistake")
        assert journal.bodies == [b"good"]

    asyncio.run(scenario())
    assert "the bridge fails on a message" in caplog.text


def test_a_journal_that_refuses_ends_the_intake(nats_url: str) -> None:
    async def scenario() -> None:
        subject, journal = unique("refused"), MemoryJournal()
        journal.refuse = refusing(HardFailure("no Kafka", remedy="start it"))
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            intake = SubjectIntake(
                client, journal, NatsIntakeSettings(subject=subject), dead_letters=DeadLetterBox()
            )
            task = asyncio.create_task(intake.run())
            await intake.ready.wait()
            await client.live.flush()
            await sender.publish(subject, b"x")
            with pytest.raises(HardFailure, match="no Kafka"):
                await asyncio.wait_for(task, 60)

    asyncio.run(scenario())


class BrokenJournal(MemoryJournal):
    def put(self, entry: Entry, on_done: OnDone) -> None:
        raise RuntimeError("a mistake")


@pytest.mark.parametrize("durable", [None, "bridge"])
def test_an_intake_that_fails_in_nats_py_s_callback_ends_with_the_error(
    nats_url: str, durable: str | None
) -> None:
    async def scenario() -> None:
        subject, journal, dead = unique("broken"), BrokenJournal(), DeadLetterBox()
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            await sender.jetstream().add_stream(name=subject, subjects=[subject])
            source = NatsIntakeSettings(subject=subject, durable=durable)
            intake = (StreamIntake if durable else SubjectIntake)(client, journal, source, dead_letters=dead)
            task = asyncio.create_task(intake.run())
            await intake.ready.wait()
            await client.live.flush()
            await sender.publish(subject, b"x")
            with pytest.raises(RuntimeError, match="a mistake"):
                await asyncio.wait_for(task, 60)

    asyncio.run(scenario())

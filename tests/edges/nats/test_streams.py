from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from tests.support.asynchronous import eventually, running
from tests.support.journals import DeadLetterBox, MemoryJournal, refusing
from tests.support.names import unique
from tests.support.nats.peers import bridge, peer

from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.config.model.nats_values import Start
from isthmus.edges.nats.client import NatsClient
from isthmus.edges.nats.intake import StreamIntake, stream_position
from isthmus.errors import HardFailure


async def stream_with(sender: Client, count: int) -> tuple[JetStreamContext, str]:
    name = unique("stream")
    jetstream = sender.jetstream()
    await jetstream.add_stream(name=name, subjects=[f"{name}.>"])
    for number in range(count):
        await jetstream.publish(f"{name}.a", b"%d" % number)
    return jetstream, name


def intake_of(
    client: NatsClient, journal: MemoryJournal, name: str, dead: DeadLetterBox | None = None, **more: object
) -> StreamIntake:
    ack_wait_s = more.pop("ack_wait_s", 30.0)
    source = NatsIntakeSettings(subject=f"{name}.>", durable="bridge", **more)  # type: ignore[arg-type]
    return StreamIntake(
        client,
        journal,
        source,
        dead_letters=dead or DeadLetterBox(),
        ack_wait_s=ack_wait_s,  # type: ignore[arg-type]
    )


async def settled(jetstream: JetStreamContext, name: str) -> bool:
    info = await jetstream.consumer_info(name, "bridge")
    return info.num_ack_pending == 0 and info.num_pending == 0


async def until_settled(jetstream: JetStreamContext, name: str) -> None:
    async with asyncio.timeout(20):
        while not await settled(jetstream, name):
            await asyncio.sleep(0.02)


def test_a_stream_reaches_the_journal_in_order_and_is_acknowledged(nats_url: str) -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream, name = await stream_with(sender, 300)
            async with running(intake_of(client, journal, name)):
                await eventually(lambda: len(journal.messages) >= 300)
                await until_settled(jetstream, name)
            assert journal.bodies == [b"%d" % number for number in range(300)]
            assert journal.messages[0].id == f"{name}:1"

    asyncio.run(scenario())


def test_more_messages_than_may_be_in_flight_all_arrive(nats_url: str) -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream, name = await stream_with(sender, 0)
            acks = [await jetstream.publish_async(f"{name}.a", b"%d" % number) for number in range(5000)]
            await asyncio.gather(*acks)
            async with running(intake_of(client, journal, name)):
                await eventually(lambda: len(journal.messages) >= 5000)
                await until_settled(jetstream, name)
            assert journal.bodies == [b"%d" % number for number in range(5000)]

    asyncio.run(scenario())


def test_nothing_is_acknowledged_before_the_journal_has_it(nats_url: str) -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        journal.held = True
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream, name = await stream_with(sender, 5)
            async with running(intake_of(client, journal, name)):
                async with asyncio.timeout(60):
                    while True:
                        await asyncio.sleep(0.05)
                        info = await jetstream.consumer_info(name, "bridge")
                        if info.num_ack_pending == 5:
                            break
                assert info.ack_floor.stream_seq == 0
                journal.release()
                await until_settled(jetstream, name)
        assert len(journal.messages) == 5

    asyncio.run(scenario())


def test_messages_that_wait_for_the_journal_are_not_sent_again(nats_url: str) -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        journal.held = True
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream, name = await stream_with(sender, 3)
            # Acknowledgements that are not the end of a message: that the bridge still has it.
            signs = await sender.subscribe(f"$JS.ACK.{name}.bridge.>")
            await sender.flush()
            async with running(intake_of(client, journal, name, ack_wait_s=3.0)):
                for _ in range(12):  # four for each message, which takes longer than the consumer waits
                    assert (await signs.next_msg(60)).data == b"+WPI"
                assert (await jetstream.consumer_info(name, "bridge")).num_redelivered == 0
                journal.release()
                await until_settled(jetstream, name)
        assert journal.bodies == [b"0", b"1", b"2"]

    asyncio.run(scenario())


def test_after_a_crash_what_was_not_acknowledged_is_redelivered(nats_url: str) -> None:
    async def scenario() -> None:
        broken, journal = MemoryJournal(), MemoryJournal()
        broken.refuse = refusing(HardFailure("no Kafka", remedy="start it"))
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream, name = await stream_with(sender, 10)
            with pytest.raises(HardFailure, match="no Kafka"):
                await intake_of(client, broken, name, ack_wait_s=0.5).run()
            async with running(intake_of(client, journal, name, ack_wait_s=0.5)):
                await eventually(lambda: len(journal.messages) >= 10)
                await until_settled(jetstream, name)
        assert sorted(journal.bodies, key=int) == [b"%d" % number for number in range(10)]

    asyncio.run(scenario())


def test_a_message_beyond_the_redelivery_limit_is_a_dead_letter(nats_url: str) -> None:
    async def scenario() -> None:
        journal, dead = MemoryJournal(), DeadLetterBox()
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream, name = await stream_with(sender, 0)
            # Somebody takes it twice, and never settles it.
            await jetstream.publish(f"{name}.a", b"poison")
            intake = intake_of(client, journal, name, dead, ack_wait_s=0.3, redelivery_limit=2)
            broken = MemoryJournal()
            broken.refuse = refusing(HardFailure("crash", remedy="none"))
            for _ in range(2):
                with pytest.raises(HardFailure, match="crash"):
                    await intake_of(client, broken, name, dead, ack_wait_s=0.3, redelivery_limit=2).run()
            async with running(intake):
                await eventually(lambda: dead.letters)
                await until_settled(jetstream, name)
        [(message, failure)] = dead.letters
        assert (message.value, failure.code) == (b"poison", "redelivery")
        assert journal.messages == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Start("first"), [b"0", b"1", b"2", b"new"]),
        (Start("last"), [b"2", b"new"]),
        (Start("new"), [b"new"]),
        (Start("sequence", sequence=2), [b"1", b"2", b"new"]),
        (Start("time", time=datetime(2020, 1, 1, tzinfo=UTC)), [b"0", b"1", b"2", b"new"]),
    ],
    ids=repr,
)
def test_a_new_consumer_begins_where_it_is_told(nats_url: str, start: Start, expected: list[bytes]) -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream, name = await stream_with(sender, 3)
            intake = intake_of(client, journal, name, start=start)
            async with running(intake):
                await intake.ready.wait()
                await jetstream.publish(f"{name}.a", b"new")
                await eventually(lambda: len(journal.messages) >= len(expected))
                await until_settled(jetstream, name)
        assert journal.bodies == expected

    asyncio.run(scenario())


def test_a_consumer_that_was_removed_is_made_again(nats_url: str) -> None:
    async def scenario() -> None:
        journal = MemoryJournal()
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream, name = await stream_with(sender, 1)
            intake = intake_of(client, journal, name, start=Start("new"))
            async with running(intake):
                await intake.ready.wait()
                await jetstream.publish(f"{name}.a", b"before")
                await eventually(lambda: journal.bodies == [b"before"])
                await jetstream.delete_consumer(name, "bridge")
                await eventually(lambda: intake._heard > 0 and intake._requested > 0)
                async with asyncio.timeout(60):
                    while not journal.bodies[1:]:
                        await jetstream.publish(f"{name}.a", b"after")
                        await asyncio.sleep(0.1)

    asyncio.run(scenario())


def test_a_subject_without_a_stream_is_a_hard_failure(nats_url: str) -> None:
    async def scenario() -> None:
        async with bridge(nats_url) as client:
            with pytest.raises(HardFailure, match="no stream of JetStream has the subject") as failure:
                await intake_of(client, MemoryJournal(), unique("none")).run()
            assert "nats stream add" in failure.value.remedy

    asyncio.run(scenario())


def test_a_stream_is_made_where_that_was_asked_for(nats_url: str) -> None:
    async def scenario() -> None:
        journal, subject = MemoryJournal(), unique("channel")
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            source = NatsIntakeSettings(subject=subject, durable="bridge")
            intake = StreamIntake(client, journal, source, dead_letters=DeadLetterBox(), create_stream=True)
            async with running(intake):
                await intake.ready.wait()
                await sender.jetstream().publish(subject, b"x")
                await eventually(lambda: journal.bodies == [b"x"])

    asyncio.run(scenario())


def test_a_consumer_of_another_kind_is_refused(nats_url: str) -> None:
    async def scenario() -> None:
        async with bridge(nats_url) as client, peer(nats_url) as sender:
            jetstream, name = await stream_with(sender, 0)
            await jetstream.subscribe(f"{name}.>", durable="bridge")
            with pytest.raises(HardFailure, match="not one that is pulled from"):
                await intake_of(client, MemoryJournal(), name).run()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "subject", ["$JS.ACK.orders.c.3.42.7.1700000000.0", "$JS.ACK._.hash.orders.c.3.42.7.1700000000.0.tail"]
)
def test_the_position_of_a_message_is_in_the_subject_of_its_acknowledgement(subject: str) -> None:
    assert stream_position(subject) == ("orders", 42, 3)

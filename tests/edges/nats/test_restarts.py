"""nats-server goes down and comes back while messages flow: every one that was acknowledged arrives."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import nats.errors
from tests.support.asynchronous import eventually, running
from tests.support.journals import DeadLetterBox, MemoryJournal
from tests.support.nats.peers import bridge, outbound, peer

from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.edges.contract import OutboundMessage
from isthmus.edges.nats.delivery import NatsDelivery
from isthmus.edges.nats.intake import StreamIntake
from isthmus.embedded.nats import EmbeddedNats
from isthmus.errors import Unreachable

RESTARTS = 3
COUNT = 3000


async def restart(server: EmbeddedNats) -> None:
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)


def test_every_acknowledged_message_reaches_the_journal_across_restarts(tmp_path: Path) -> None:
    async def scenario() -> tuple[set[bytes], set[bytes]]:
        server, journal = EmbeddedNats(tmp_path), MemoryJournal()
        acknowledged: set[bytes] = set()
        await asyncio.to_thread(server.start)
        async with bridge(server.url) as client, peer(server.url) as sender:
            jetstream = sender.jetstream(timeout=1)
            await sender.jetstream(timeout=60).add_stream(name="load", subjects=["load"])

            async def send() -> None:
                for number in range(COUNT):
                    with contextlib.suppress(nats.errors.Error, TimeoutError):  # then it does not count
                        await jetstream.publish("load", b"%d" % number)
                        acknowledged.add(b"%d" % number)

            source = NatsIntakeSettings(subject="load", durable="bridge", redelivery_limit=1000)
            intake = StreamIntake(client, journal, source, dead_letters=DeadLetterBox(), ack_wait_s=2)
            async with running(intake):
                sending = asyncio.create_task(send())
                for _ in range(RESTARTS):
                    before = len(journal.messages)
                    await eventually(lambda: len(journal.messages) > before + 100, timeout_s=20)  # noqa: B023
                    await restart(server)
                await sending
                await eventually(lambda: acknowledged <= set(journal.bodies), timeout_s=20)
            assert client.counts.reconnects == RESTARTS
        await asyncio.to_thread(server.stop)
        return acknowledged, set(journal.bodies)

    acknowledged, journaled = asyncio.run(scenario())
    assert len(acknowledged) > COUNT // 2
    assert acknowledged <= journaled


def test_every_message_is_in_its_stream_once_across_restarts(tmp_path: Path) -> None:
    async def scenario() -> list[bytes]:
        server = EmbeddedNats(tmp_path)
        await asyncio.to_thread(server.start)
        async with bridge(server.url) as client:
            await client.jetstream.add_stream(name="load", subjects=["load"])
            delivery = NatsDelivery(client)

            delivered: list[OutboundMessage] = []

            async def deliver() -> None:
                for first in range(0, COUNT, 50):
                    messages = [
                        outbound("jetstream:load", b"%d" % number, id=f"j:0:{number}")
                        for number in range(first, first + 50)
                    ]
                    while True:
                        try:
                            assert await delivery.deliver(messages) == [None] * 50
                            delivered.extend(messages)
                            break
                        except Unreachable:
                            await asyncio.sleep(0.05)

            delivering = asyncio.create_task(deliver())
            for _ in range(RESTARTS):
                before = len(delivered)
                await eventually(lambda: len(delivered) > before + 200)  # noqa: B023
                await restart(server)
            await delivering
            kept = await client.jetstream.stream_info("load")
            bodies = [
                (await client.jetstream.get_msg("load", seq)).data or b"" for seq in range(1, COUNT + 1)
            ]
            assert kept.state.messages == COUNT
        await asyncio.to_thread(server.stop)
        return bodies

    assert sorted(asyncio.run(scenario()), key=int) == [b"%d" % number for number in range(COUNT)]

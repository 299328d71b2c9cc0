"""Several servers: one that is not there is passed over, and where one goes down another takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.asynchronous import eventually, running
from tests.support.journals import DeadLetterBox, MemoryJournal
from tests.support.nats.peers import bridge, outbound, peer

from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.edges.nats.delivery import NatsDelivery
from isthmus.edges.nats.intake import SubjectIntake
from isthmus.embedded.nats import EmbeddedNats
from isthmus.embedded.ports import free_port


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[EmbeddedNats, EmbeddedNats]]:
    """Two servers that know each other."""
    ports = [free_port(), free_port()]
    nodes = [
        EmbeddedNats(
            folder / f"node-{number}",
            config=f"server_name: node-{number}\n"
            f"cluster {{ name: two, listen: 127.0.0.1:{ports[number]}, "
            f"routes: [nats://127.0.0.1:{ports[1 - number]}] }}",
        )
        for number in range(2)
    ]
    with nodes[0] as first, nodes[1] as second:
        yield first, second


def test_a_server_that_is_not_there_is_passed_over(nats_url: str) -> None:
    async def scenario() -> None:
        for _ in range(5):  # servers are tried in any order
            async with bridge(f"nats://127.0.0.1:{free_port()}", nats_url) as client:
                assert f"nats://{client.live.connected_url.netloc}" == nats_url

    asyncio.run(scenario())


def test_when_a_server_of_a_cluster_goes_down_the_bridge_goes_on_at_the_other(tmp_path: Path) -> None:
    async def scenario(first: EmbeddedNats, second: EmbeddedNats) -> None:
        journal = MemoryJournal()
        async with bridge(first.url) as client, peer(second.url) as other:  # it is told of the second one
            source = NatsIntakeSettings(subject="orders")
            intake = SubjectIntake(client, journal, source, dead_letters=DeadLetterBox())
            shipped = await other.subscribe("shipped")
            await other.flush()
            async with running(intake):
                await intake.ready.wait()
                await eventually(lambda: len(client.live.servers) == 2)
                await asyncio.to_thread(first.stop)
                await eventually(lambda: client.counts.reconnects == 1)
                assert f"nats://{client.live.connected_url.netloc}" == second.url
                await client.live.flush()
                await other.publish("orders", b"an order")
                await eventually(lambda: journal.bodies == [b"an order"])
                assert await NatsDelivery(client).deliver([outbound("shipped", b"a parcel")]) == [None]
                assert (await shipped.next_msg(60)).data == b"a parcel"
            assert client.counts.disconnects == 1

    with cluster(tmp_path) as (first, second):
        asyncio.run(scenario(first, second))

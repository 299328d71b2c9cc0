"""nats-server, Kafka or the edge goes down while messages flow from stream to stream: none is lost.

The whole way, in processes as a user has them: a stream of JetStream, the edge, the journal, the router, the
outbox, the edge, another stream. Messages are numbered; those count that JetStream has acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from tests.support.asynchronous import eventually
from tests.support.commands import Running
from tests.support.polling import PATIENCE_S

import nats
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.embedded.nats import EmbeddedNats

CONFIG = """
bridge.id=restarts
kafka.bootstrap.servers={kafka}
nats.servers={nats}
nats.reconnect.max-wait=200ms
state.dir={folder}/state
journal.partitions=2
nats.intake.in.subject=in.>
nats.intake.in.durable=bridge
nats.intake.in.redelivery-limit=1000
routes.r.predicate=msg.address=~"in\\\\..*"
routes.r.dest.subject=jetstream:out
"""
SOME = 300
"""How many messages arrive before something goes down, and after it is back."""


class Bridge:
    """A bridge between two streams, and everything of it that can go down."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "bridge.properties"
        self.kafka = EmbeddedKafka(folder / "kafka")
        self.nats = EmbeddedNats(folder / "nats")
        self._started: list[Running] = []

    def start(self) -> None:
        self.kafka.start()
        self.nats.start()
        asyncio.run(self._make_streams())
        self._file.write_text(
            CONFIG.format(kafka=self.kafka.bootstrap_servers, nats=self.nats.url, folder=self._folder)
        )
        self.router = self._run("pipeline")
        self.edge = self._run("edge")

    def stop(self) -> None:
        for each in self._started:
            each.process.kill()
            each.process.wait()
        self.nats.stop()
        self.kafka.stop()

    def restart_nats(self) -> None:
        self.nats.stop()
        self.nats.start()

    def restart_kafka(self) -> None:
        self.kafka.stop()
        self.kafka.start()

    def restart_edge(self) -> None:
        self.edge.process.kill()
        self.edge.process.wait()
        self.edge = self._run("edge")

    def ended(self) -> str:
        """What a process that has ended said last."""
        return "".join(each.printed() for each in (self.router, self.edge) if each.process.poll() is not None)

    def _run(self, command: str) -> Running:
        folder = self._folder / f"{command}-{len(self._started)}"
        folder.mkdir()
        running = Running(folder, self._file, command=command)
        self._started.append(running)
        running.wait_until_ready()
        return running

    async def _make_streams(self) -> None:
        client = await nats.connect(self.nats.url)
        jetstream = client.jetstream(timeout=60)
        await jetstream.add_stream(name="in", subjects=["in.>"])
        await jetstream.add_stream(name="out", subjects=["out"])
        await client.close()


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    made = Bridge(tmp_path_factory.mktemp("restarts"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Load:
    """Numbered messages, one after the other, and what arrives of them."""

    def __init__(self, client: Client, name: str) -> None:
        self.acknowledged: set[bytes] = set()
        self.arrived: set[bytes] = set()
        self.over = False
        """Whether to end. Python 3.11 may lose a cancellation when an answer comes at that moment."""
        self._client = client
        self._jetstream: JetStreamContext = client.jetstream(timeout=1)
        self._name = name

    async def send(self) -> None:
        number = 0
        while not self.over:
            body = f"{self._name} {number}".encode()
            with contextlib.suppress(nats.errors.Error, nats.js.errors.Error, TimeoutError):
                await self._jetstream.publish(f"in.{self._name}", body)
                self.acknowledged.add(body)  # else it does not count
            number += 1
            await asyncio.sleep(0.002)

    async def collect(self) -> None:
        reader = await self._client.jetstream(timeout=60).pull_subscribe("out", durable=self._name)
        while not (self.over and self.acknowledged <= self.arrived):
            with contextlib.suppress(nats.errors.Error, nats.js.errors.Error, TimeoutError):
                for message in await reader.fetch(500, timeout=1):
                    if message.data.startswith(self._name.encode()):
                        self.arrived.add(message.data)
                    await message.ack()

    async def more(self, bridge: Bridge) -> None:
        """Return when some more have arrived."""
        enough = len(self.arrived) + SOME
        await eventually(lambda: len(self.arrived) >= enough or bridge.ended(), timeout_s=60)
        assert not bridge.ended()


@contextlib.asynccontextmanager
async def load(url: str, name: str) -> AsyncIterator[Load]:
    """A load that ends with the block, and of which everything must have arrived then."""
    client = await nats.connect(url, reconnect_time_wait=0.1, max_reconnect_attempts=-1)
    flow = Load(client, name)
    sending, collecting = asyncio.create_task(flow.send()), asyncio.create_task(flow.collect())
    try:
        yield flow
        flow.over = True
        await asyncio.wait_for(asyncio.gather(sending, collecting), PATIENCE_S)
    finally:
        for task in (sending, collecting):
            task.cancel()
        await client.close()


@pytest.mark.parametrize(
    ("name", "restart"),
    [("nats", Bridge.restart_nats), ("kafka", Bridge.restart_kafka), ("edge", Bridge.restart_edge)],
    ids=["nats-server", "broker", "edge"],
)
def test_every_acknowledged_message_arrives_across_a_restart_of(
    bridge: Bridge, name: str, restart: Callable[[Bridge], None]
) -> None:
    async def scenario() -> None:
        async with load(bridge.nats.url, name) as flow:
            await flow.more(bridge)
            await asyncio.to_thread(restart, bridge)
            await flow.more(bridge)
        assert len(flow.acknowledged) > 2 * SOME

    asyncio.run(scenario())
    assert not bridge.ended()

"""Several processes on one port: they take all connections between them, and one that dies is missed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.support.amqp.wire import Wire, message
from tests.support.names import unique
from tests.support.polling import eventually

from isthmus import events
from isthmus.config import Settings
from isthmus.config.model.amqp import AmqpSettings
from isthmus.config.model.settings import KafkaSettings
from isthmus.edges.amqp.protocol import LinkAttached
from isthmus.edges.amqp.protocol.terms import Source, Target
from isthmus.edges.amqp.server import workers
from isthmus.edges.amqp.server.workers import AmqpWorkers
from isthmus.edges.service import EdgeService
from isthmus.errors import HardFailure
from isthmus.journal import layout
from isthmus.journal.layout import Record
from isthmus.kafka.blocking import read_topic
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics
from isthmus.telemetry.parts import Clients, Flow, QueueReport

CONNECTIONS = 40
LINKS = 900
"""To tell of them takes more than a pipe, or a reader of lines, has room for."""
MESSAGES = 25


class Bridge:
    """The edges of a bridge with two workers."""

    def __init__(self, servers: str) -> None:
        self.settings = Settings(
            bridge_id=unique("workers"),
            message_convert="default",
            kafka=KafkaSettings(bootstrap_servers=servers),
            amqp=AmqpSettings(port=0, workers=2, auto_create=True),
        )
        self.kafka = Kafka(servers)
        make_own_topics(self.settings, self.kafka)
        self.service = EdgeService(self.settings, self.kafka)

    @property
    def workers(self) -> AmqpWorkers:
        assert self.service._assembly is not None
        assert isinstance(self.service._assembly.amqp_service, AmqpWorkers)
        return self.service._assembly.amqp_service

    @property
    def port(self) -> int:
        return self.service.amqp_ports[0]

    def journal(self) -> dict[str, list[str]]:
        """The messages of every session, in their order."""
        found: dict[str, list[str]] = {}
        for each in read_topic(self.kafka, self.settings.journal.topic):
            sent = layout.decode(Record(each.key(), each.value(), each.headers() or [])).message
            found.setdefault(sent.session, []).append((sent.body.slice(sent.value) or b"").decode())
        return found


@pytest.fixture(scope="module")
def bridge(kafka_servers: str) -> Iterator[Bridge]:
    bridge = Bridge(kafka_servers)
    with bridge.service:
        eventually(lambda: bridge.service.problems == {})
        yield bridge
        pids = bridge.workers.pids
        assert pids
        assert all(map(_is_worker, pids))
    assert not any(map(_is_worker, pids))


def _is_worker(pid: int) -> bool:
    """Not just whether there is such a process: another may have been given the number."""
    try:
        return b"isthmus.edges.amqp.server.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_all_messages_of_many_connections_arrive_in_order(bridge: Bridge) -> None:
    events.take_counts()
    with ExitStack() as connections:
        wires = [connections.enter_context(Wire(bridge.port)) for _ in range(CONNECTIONS)]
        links = [wire.open().sender("orders") for wire in wires]
        sent = [
            link.send(b"%d" % number, message(str(number))) for number in range(MESSAGES) for link in links
        ]
        for wire in wires:
            wire.pump()
        for wire in wires:
            wire.wait(lambda wire=wire: all(each.settled for each in sent if each.link in links_of(wire)))
        figures = bridge.workers.figures
        eventually(lambda: figures().counts["accepted"] == CONNECTIONS * MESSAGES, timeout_s=10)
        assert figures().counts["connections"] == CONNECTIONS
        assert [(each.address, each.links) for each in figures().links] == [("orders", CONNECTIONS)]
        assert events.counts()["amqp.client_connected"] == CONNECTIONS
        report = bridge.workers.report()
        size = sum(len(message(str(number))) for number in range(MESSAGES))
        assert report.taken == Flow(CONNECTIONS * MESSAGES, CONNECTIONS * size)
        assert (report.connects, report.disconnects) == (CONNECTIONS, 0)
        shares = [each.counts["connections"] for each in bridge.workers._figures.values()]
        assert len(shares) == 2
        assert min(shares) > 0
    assert list(bridge.journal().values()) == [[str(number) for number in range(MESSAGES)]] * CONNECTIONS


def links_of(wire: Wire) -> list[object]:
    return [link for session in wire.engine.sessions.values() for link in session.links.values()]


def in_time(condition: Callable[[], bool]) -> None:
    """Wait for what workers are to say: one that has no time is left out, or none is heard."""

    def holds() -> bool:
        with suppress(TimeoutError, HardFailure):
            return condition()
        return False

    eventually(holds)


def clients_of(bridge: Bridge, most: int, *, connected: int) -> Clients:
    """What is said of so many clients, once all of them are heard of."""
    found = Clients()

    def told() -> bool:
        nonlocal found
        found = bridge.service.clients(most)
        return found.connected == connected

    in_time(told)
    return found


def test_the_clients_of_all_workers_are_told_with_their_links_and_queues(bridge: Bridge) -> None:
    with ExitStack() as connections:
        wires = [connections.enter_context(Wire(bridge.port)) for _ in range(CONNECTIONS)]
        for wire in wires:
            link = wire.open().engine.begin().receiver("in")
            link.attach(source=Source("shelf", capabilities=("queue",)), target=Target())
            wire.until(LinkAttached)
        eventually(lambda: min(each.counts["connections"] for each in bridge.workers._figures.values()) > 0)
        found = clients_of(bridge, CONNECTIONS + 1, connected=CONNECTIONS)
        assert len(found.shown) == CONNECTIONS
        assert {tuple((link.address, link.direction) for link in each.links) for each in found.shown} == {
            (("shelf", "out"),)
        }
        in_time(lambda: bridge.service.queues() == [QueueReport("queue", "shelf", CONNECTIONS, 0)])
        assert len(clients_of(bridge, 3, connected=CONNECTIONS).shown) == 3
    in_time(lambda: bridge.service.clients(1) == Clients())


def test_a_worker_may_have_much_to_tell(bridge: Bridge) -> None:
    restarts = bridge.workers.restarts
    with Wire(bridge.port) as wire:
        session = wire.open().engine.begin()
        links = [session.sender(f"out-{number}") for number in range(LINKS)]
        for link in links:
            link.attach(source=Source(), target=Target("orders"))
        wire.wait(lambda: all(link.credit for link in links), timeout_s=60)
        [client] = clients_of(bridge, 1, connected=1).shown
        assert len(client.links) == LINKS
    in_time(lambda: bridge.service.clients(1) == Clients())
    bridge.service.poll()
    assert bridge.workers.restarts == restarts


def test_one_that_does_not_answer_holds_up_neither_the_page_nor_the_bridge(bridge: Bridge) -> None:
    stopped = min(bridge.workers.pids)
    os.kill(stopped, signal.SIGSTOP)
    try:
        in_time(lambda: bridge.service.clients(1) == Clients())
        with pytest.raises(HardFailure, match="in time"):
            bridge.service.change(bridge.settings)
    finally:
        os.kill(stopped, signal.SIGCONT)
    bridge.service.change(bridge.settings)


def test_a_worker_that_dies_is_started_again(bridge: Bridge) -> None:
    before = set(bridge.workers.pids)
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: len(set(bridge.workers.pids) - {victim}) == 2, timeout_s=30)
    assert bridge.workers.restarts == 1
    with ExitStack() as connections:
        for _ in range(8):
            connections.enter_context(Wire(bridge.port)).open()


def test_a_worker_that_is_told_to_end_says_goodbye(bridge: Bridge) -> None:
    restarts = bridge.workers.restarts
    with Wire(bridge.port) as wire:
        wire.open()
        for pid in bridge.workers.pids:
            os.kill(pid, signal.SIGTERM)
        wire.wait(lambda: wire.engine.finished, timeout_s=20)
    eventually(lambda: bridge.workers.restarts == restarts + 2, timeout_s=20)
    eventually(lambda: len(bridge.workers.pids) == 2, timeout_s=30)


def test_a_worker_that_nobody_waits_for_any_more_is_not_left_behind() -> None:
    async def scenario() -> int | None:
        pipe = asyncio.subprocess.PIPE
        sleeping = (sys.executable, "-c", "import time; time.sleep(60)")
        process = await asyncio.create_subprocess_exec(*sleeping, stdin=pipe, stdout=pipe)
        ending = asyncio.create_task(workers._end(process))
        await asyncio.sleep(0.1)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        return process.returncode

    assert asyncio.run(scenario()) == -signal.SIGKILL

"""How long a committed message takes to its topic: from ``commit()`` to a consumer that sees it.

``python -m benches.commit [--rate N] [--seconds N] [--warm-up N]``: a Kafka of its own, edge and pipeline as
users run them, a process with AMQP clients that commit transactions at an even rate, and a consumer process
that polls for single records. Nobody waits for anybody: a transaction begins when its time has come, whether
those before it are committed or not. ``p50_ms`` and ``p99_ms`` are from the discharge's sending to the
message's arrival, ``answer_p50_ms`` and ``answer_p99_ms`` to the client's hearing that it is committed.
``lost`` counts what did not arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Final, NamedTuple

from benches.front_door import front_door
from benches.harness import (
    embedded_kafka,
    ending_in_good_order,
    finish,
    machine,
    options_of,
    percentile,
    progress,
    say,
)
from benches.latency import QUIET_S, STAMP, TOPIC, EncodedEntry, consume
from isthmus.codecs.amqp import AmqpMessage, AmqpValue, Data, MessageProperties
from isthmus.config import load
from isthmus.edges.amqp.protocol import Connection, Delivery, Limits, Open, Sender
from isthmus.edges.amqp.protocol.composite import Composite
from isthmus.edges.amqp.protocol.terms import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Source,
    Target,
    TransactionalState,
)
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka
from isthmus.pipeline.run import Pipeline

MESSAGES: Final = 5
"""In each transaction."""
CONNECTIONS: Final = 20
PADDING: Final = bytes(256 - STAMP.size)
ROUTE: Final = f"""
routes.r.predicate=msg.address==orders
routes.r.dest.topic={TOPIC}
"""


class Commit(NamedTuple):
    """One commit: when it was asked for, in seconds of the clock, and how long its answer took."""

    asked_s: float
    answer_ms: float


class Client(asyncio.Protocol):
    """A connection whose transactions overlap as they like."""

    def __init__(self) -> None:
        self._engine = Connection.client(Limits(idle_timeout_s=None))
        self._loop = asyncio.get_running_loop()
        self._unsettled: dict[Delivery, asyncio.Future[object]] = {}
        self._tags = 0
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Done when there is credit for both links."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._engine.open(Open("commit"))
        session = self._engine.begin()
        self._sender = session.sender("out")
        self._sender.attach(source=Source(), target=Target("orders"))
        self._coordinator = session.sender("transactions")
        self._coordinator.attach(source=Source(), target=Coordinator())
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._engine.receive_data(data, time.monotonic())
        if not self.ready.done() and self._sender.credit and self._coordinator.credit:
            self.ready.set_result(None)
        for delivery in [each for each in self._unsettled if each.settled]:
            self._unsettled.pop(delivery).set_result(delivery.state)
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        for waiting in self._unsettled.values():
            waiting.set_exception(error or ConnectionError("the connection is lost"))

    async def transact(self, number: int) -> Commit:
        """Send a transaction's messages and commit it."""
        declared = await (await self._ask(Declare()))
        assert isinstance(declared, Declared)
        state = TransactionalState(declared.txn_id)
        sends = [
            await self._send(self._sender, _message(number * MESSAGES + each), state)
            for each in range(MESSAGES)
        ]
        asked_s, began = time.time(), time.perf_counter()
        outcome = await (await self._ask(Discharge(declared.txn_id)))
        answer_ms = (time.perf_counter() - began) * 1000
        assert outcome == Accepted(), outcome
        await asyncio.gather(*sends)
        return Commit(asked_s, answer_ms)

    def close(self) -> None:
        self._transport.abort()

    async def _ask(self, word: Composite) -> asyncio.Future[object]:
        return await self._send(self._coordinator, AmqpMessage(body=AmqpValue(word.described())).encode())

    async def _send(
        self, link: Sender, data: bytes, state: TransactionalState | None = None
    ) -> asyncio.Future[object]:
        """Send as soon as there is credit; the future has the outcome."""
        while not link.credit:
            await asyncio.sleep(0.001)
        self._tags += 1
        settled: asyncio.Future[object] = self._loop.create_future()
        self._unsettled[link.send(self._tags.to_bytes(8), data, state=state)] = settled
        self._loop.call_soon(self._flush)
        return settled

    def _flush(self) -> None:
        data = self._engine.data_to_send(time.monotonic())
        if data:
            self._transport.write(data)


def _message(number: int) -> bytes:
    body = Data((STAMP.pack(number, time.time_ns()) + PADDING,))
    properties = MessageProperties(message_id=f"ID:{number}", to="orders")
    return AmqpMessage(properties=properties, body=body).encode()


def commit(port: int, rate: int, seconds: float, results: Queue[list[Commit]]) -> None:
    """Commit transactions at an even rate, over some connections in turn."""

    async def run() -> list[Commit]:
        loop = asyncio.get_running_loop()
        clients = [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
        for client in clients:
            await client.ready
        began = time.monotonic()
        begun = []
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            begun.append(asyncio.create_task(clients[number % CONNECTIONS].transact(number)))
        commits = await asyncio.gather(*begun)
        for client in clients:
            client.close()
        return commits

    results.put(asyncio.run(run()))


def measure(kafka: Kafka, folder: Path, rate: int, seconds: float) -> tuple[list[Commit], dict[int, float]]:
    """All commits, and by the number of each message that arrived: when, in seconds of the clock."""
    count = int(rate * seconds) * MESSAGES
    context = multiprocessing.get_context("spawn")
    ready, done, results, commits = context.Event(), context.Event(), context.Queue(), context.Queue()
    with front_door(folder, kafka, ROUTE) as (url, _):
        settings = load(folder / "edge.properties", {})
        with Pipeline(settings, kafka) as running:
            receiver = context.Process(
                target=consume, args=(kafka.servers, count, ready, done, results), daemon=True
            )
            port = int(url.rpartition(":")[2])
            sender = context.Process(target=commit, args=(port, rate, seconds, commits), daemon=True)
            receiver.start()
            ready.wait(60)
            sender.start()
            with progress() as bar:
                task = bar.add_task("transactions", total=seconds)
                while commits.empty() and sender.is_alive():
                    running.poll()
                    time.sleep(0.5)
                    bar.advance(task, 0.5)
            committed: list[Commit] = commits.get(timeout=10)
            sender.join(10)
            done.set()
            arrivals: dict[int, EncodedEntry] = results.get(timeout=QUIET_S + 60)
            receiver.join(10)
    return committed, {number: each.sent_s + each.latency_ms / 1000 for number, each in arrivals.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.commit", description="latency of a commit")
    parser.add_argument("--rate", type=int, default=200, help="transactions a second")
    parser.add_argument("--seconds", type=float, default=60, help="how long to measure")
    parser.add_argument("--warm-up", type=float, default=45, help="how long to send before that")
    options = options_of(parser, arguments, rate=20, seconds=2, warm_up=0)
    say(f"[bold]commit[/]: {options.rate} transactions of {MESSAGES} messages a second on {machine()}")
    total_s = options.warm_up + options.seconds
    with ending_in_good_order(), tempfile.TemporaryDirectory(prefix="isthmus-bench-") as name:
        folder = Path(name)
        with embedded_kafka(folder / "kafka") as kafka:
            create_topics(kafka, [TOPIC], 2)
            commits, arrived_s = measure(kafka, folder, options.rate, total_s)
    measured = range(int(options.rate * options.warm_up), len(commits))
    answers = sorted(commits[number].answer_ms for number in measured)
    latencies = sorted(
        (at_s - commits[message // MESSAGES].asked_s) * 1000
        for message, at_s in arrived_s.items()
        if message // MESSAGES in measured
    )
    finish(
        "commit",
        {
            "p50_ms": round(percentile(latencies, 0.5), 1),
            "p99_ms": round(percentile(latencies, 0.99), 1),
            "max_ms": round(latencies[-1], 1),
            "answer_p50_ms": round(percentile(answers, 0.5), 1),
            "answer_p99_ms": round(percentile(answers, 0.99), 1),
            "lost": len(commits) * MESSAGES - len(arrived_s),
            "rate": options.rate,
        },
    )


if __name__ == "__main__":
    main()

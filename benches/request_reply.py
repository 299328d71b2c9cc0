"""How long a NATS request takes that an MQ application answers, through the whole bridge and back.

``python -m benches.request_reply [--rate N] [--seconds N] [--warm-up N]``: a Kafka and a NATS of its own, the
bridge as users run it, a process that sends requests at an even rate (nats-py's ``request``, with inboxes),
and an MQ application on the queue manager in memory that answers each of them. Every message crosses journal,
router and outbox twice. ``p50_ms``, ``p99_ms``, ``max_ms``; ``unanswered`` counts requests that had no answer
within ``TIMEOUT_S``, which are the longest of the measured times. The bar is for p99: NATS' usual time-out.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Sequence
from multiprocessing.queues import Queue
from pathlib import Path

import nats
from benches.harness import (
    embedded_kafka,
    ending_in_good_order,
    finish,
    machine,
    options_of,
    percentile,
    say,
)
from isthmus.codecs.bridge_message import BridgeMessage
from isthmus.config import load
from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.port import QueueTarget
from isthmus.edges.service import EdgeService
from isthmus.embedded.nats import EmbeddedNats
from isthmus.pipeline.run import Pipeline
from isthmus.testing.queue_manager import shared_queue_manager

BAR_MS = 2000
TIMEOUT_S = 10.0
BODY = b"x" * 256
BRIDGE = """
bridge.id=request-reply
mq.client=memory
mq.reply-queue=ISTHMUS.REPLIES
journal.partitions=1
pipeline.master=local[2]
connectors.ask.type=NATS2Queue
connectors.ask.subject=ask
connectors.ask.queue=ASK
"""


def ask(url: str, rate: int, seconds: float, times_ms: Queue[list[float]]) -> None:
    """Send requests at an even rate, and tell how long each of them took."""

    async def run() -> list[float]:
        async with await nats.connect(url) as client:
            request = BridgeMessage(BODY).encode()

            async def one() -> float:
                began = time.perf_counter()
                try:
                    await client.request("ask", request, timeout=TIMEOUT_S)
                except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
                    return TIMEOUT_S * 1000
                return (time.perf_counter() - began) * 1000

            began = time.perf_counter()
            asked = []
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                asked.append(asyncio.create_task(one()))
            return await asyncio.gather(*asked)

    times_ms.put(asyncio.run(run()))


def answer(ended: threading.Event) -> None:
    """The MQ application."""
    connection = shared_queue_manager("MEMORY").connect()
    source = connection.open_queue("ASK")
    while not ended.is_set():
        if request := source.get(0.1):
            asked = request.descriptor
            reply = MqMessage(descriptor=Mqmd(CorrelId=asked.MsgId, MsgType=2), body=request.body)
            connection.put(QueueTarget(asked.ReplyToQ, asked.ReplyToQMgr), reply)
            connection.commit()
    connection.disconnect()


def measure(url: str, rate: int, seconds: float) -> list[float]:
    """The times of all requests of a process, in ascending order."""
    context = multiprocessing.get_context("spawn")
    times_ms: Queue[list[float]] = context.Queue()
    process = context.Process(target=ask, args=(url, rate, seconds, times_ms))
    process.start()
    try:
        return sorted(times_ms.get(timeout=seconds + TIMEOUT_S + 60))
    finally:
        process.join(30)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warm-up", type=float, default=20)
    options = options_of(parser, arguments, rate=20, seconds=1, warm_up=1)
    say(machine())
    with (
        ending_in_good_order(),
        tempfile.TemporaryDirectory() as folder,
        embedded_kafka(Path(folder) / "kafka") as kafka,
        EmbeddedNats(Path(folder) / "nats") as server,
    ):
        file = Path(folder) / "bridge.properties"
        file.write_text(
            f"{BRIDGE}kafka.bootstrap.servers={kafka.servers}\n"
            f"state.dir={folder}/state\nnats.servers={server.url}\n"
        )
        settings = load(file, {})
        ended = threading.Event()
        application = threading.Thread(target=answer, args=(ended,))
        application.start()
        try:
            with Pipeline(settings, kafka) as pipeline, EdgeService(settings, kafka) as edges:
                measure(server.url, options.rate, options.warm_up)
                times_ms = measure(server.url, options.rate, options.seconds)
                pipeline.poll()
                edges.poll()
        finally:
            ended.set()
            application.join(10)
    figures = {
        "rate": options.rate,
        "requests": len(times_ms),
        "p50_ms": round(percentile(times_ms, 0.5), 1),
        "p99_ms": round(percentile(times_ms, 0.99), 1),
        "max_ms": round(times_ms[-1], 1),
        "unanswered": sum(each >= TIMEOUT_S * 1000 for each in times_ms),
        "bar_ms": BAR_MS,
    }
    say(f"{figures['requests']} requests: p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms")
    finish("request_reply", figures)


if __name__ == "__main__":
    main()

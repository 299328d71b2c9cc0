"""NATS in and out, acknowledged end to end, beside nats-py alone.

``python -m benches.nats [--count N] [--rounds N]``

Intake: the messages of a stream, from the first request until the server has every acknowledgement. Ours
puts each message into the journal of a real Kafka before it acknowledges it; nats-py alone fetches and
acknowledges.

Delivery: letters to a stream, from the first one until the stream has acknowledged all. Ours reads them from
an outbox in Kafka; nats-py alone publishes the same messages from memory, many at a time.

All four take turns in one run. A ratio is the rate of ours over that of nats-py; the last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from confluent_kafka import Producer
from nats.aio.client import Client
from nats.js import JetStreamContext

import nats
from benches.harness import embedded_kafka, ending_in_good_order, finish, in_turn, machine, options_of, say
from isthmus.config.model.nats import NatsIntakeSettings, NatsSettings
from isthmus.config.model.settings import JournalSettings
from isthmus.edges.contract import OutboundMessage
from isthmus.edges.journal import EdgeJournal
from isthmus.edges.nats.client import NatsClient
from isthmus.edges.nats.delivery import NatsDelivery
from isthmus.edges.nats.intake import StreamIntake
from isthmus.edges.outbox import DESTINATION, Outbox
from isthmus.embedded.nats import EmbeddedNats
from isthmus.errors import SoftFailure
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka
from isthmus.message import Message

COUNT = 10_000
BATCH = 500
ROUNDS = 5
BODY = b"x" * 256
HEADERS = {"Region": "EU", "Amount": "42", "CorrelationId": "c-0123456789"}
BAR = 0.5
JOURNAL, OUTBOX = "bench-nats-journal", "bench-nats-outbox"

numbers = itertools.count()


async def no_message(message: Message, failure: SoftFailure) -> None:
    raise AssertionError(f"{message.id} is a dead letter: {failure}")


async def no_letter(letter: OutboundMessage, failure: SoftFailure) -> None:
    raise AssertionError(f"{letter.id} is a dead letter: {failure}")


async def until_acknowledged(jetstream: JetStreamContext, durable: str) -> None:
    while True:
        info = await jetstream.consumer_info("source", durable)
        if info.num_ack_pending == 0 and info.num_pending == 0:
            return
        await asyncio.sleep(0.005)


async def fill(url: str, count: int) -> None:
    async with await nats.connect(url) as client:
        jetstream = client.jetstream()
        await jetstream.add_stream(name="source", subjects=["source"])
        acks = [await jetstream.publish_async("source", BODY, headers=dict(HEADERS)) for _ in range(count)]
        await asyncio.gather(*acks)


async def intake_alone(count: int, client: Client) -> float:
    jetstream = client.jetstream()
    durable = f"alone-{next(numbers)}"
    began = time.perf_counter()
    subscription = await jetstream.pull_subscribe("source", durable=durable)
    taken = 0
    while taken < count:
        messages = await subscription.fetch(BATCH, timeout=5)
        for message in messages:
            await message.ack()
        taken += len(messages)
    await until_acknowledged(jetstream, durable)
    return count / (time.perf_counter() - began)


async def intake_ours(count: int, client: Client, ours: NatsClient, kafka: Kafka) -> float:
    durable = f"ours-{next(numbers)}"
    journal = await EdgeJournal.open(kafka, JournalSettings(topic=JOURNAL))
    began = time.perf_counter()
    source = NatsIntakeSettings(subject="source", durable=durable)
    intake = StreamIntake(ours, journal, source, dead_letters=no_message)
    task = asyncio.create_task(intake.run())
    await intake.ready.wait()
    while intake.traffic.messages < count and not task.done():
        await asyncio.sleep(0.005)
    if task.done():
        await task  # which says why
    await until_acknowledged(client.jetstream(), durable)
    rate = count / (time.perf_counter() - began)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await journal.close()
    return rate


async def new_stream(client: Client) -> str:
    name = f"sink-{next(numbers)}"
    await client.jetstream().add_stream(name=name, subjects=["sink"])
    return name


async def delivery_alone(count: int, client: Client) -> float:
    stream = await new_stream(client)
    jetstream = client.jetstream()
    began = time.perf_counter()
    acks = [
        await jetstream.publish_async("sink", BODY, headers={"Nats-Msg-Id": f"journal:0:{number}", **HEADERS})
        for number in range(count)
    ]
    await asyncio.gather(*acks)
    rate = count / (time.perf_counter() - began)
    await jetstream.delete_stream(stream)
    return rate


async def delivery_ours(count: int, client: Client, ours: NatsClient, kafka: Kafka) -> float:
    stream = await new_stream(client)
    began = 0.0
    delivery = NatsDelivery(ours)

    class Timed:
        async def deliver(self, letters: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
            nonlocal began
            began = began or time.perf_counter()
            return await delivery.deliver(letters)

    outbox = Outbox(kafka, OUTBOX, Timed(), dead_letters=no_letter, group=stream)
    task = asyncio.create_task(outbox.run())
    while outbox.counts.delivered < count and not task.done():
        await asyncio.sleep(0.002)
    rate = count / (time.perf_counter() - began)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    kept = (await client.jetstream().stream_info(stream)).state.messages
    assert kept == count, f"{kept} of {count} letters are in the stream"
    await client.jetstream().delete_stream(stream)
    return rate


def post(kafka: Kafka, count: int) -> None:
    producer = Producer({**kafka.python_options(), "linger.ms": 5})
    for number in range(count):
        headers: list[tuple[str, str | bytes | None]] = [
            (f"jms.{name}", text.encode()) for name, text in HEADERS.items()
        ]
        headers += [("isthmus.id", b"journal:0:%d" % number), (DESTINATION, b"jetstream:sink")]
        producer.produce(OUTBOX, BODY, b"key", headers=headers)
        producer.poll(0)
    producer.flush(30)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.nats", description="NATS in and out")
    parser.add_argument("--count", type=int, default=COUNT, help="messages a round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = options_of(parser, arguments, count=100, rounds=1)
    count: int = options.count
    say(machine())
    with (
        ending_in_good_order(),
        tempfile.TemporaryDirectory() as folder,
        embedded_kafka(Path(folder) / "kafka") as kafka,
        EmbeddedNats(Path(folder) / "nats") as server,
    ):
        create_topics(kafka, [JOURNAL], 5)
        create_topics(kafka, [OUTBOX], 1)
        post(kafka, count)
        asyncio.run(fill(server.url, count))

        def connected(work: Callable[..., Awaitable[float]], *more: Kafka) -> Callable[[], float]:
            async def run() -> float:
                async with await nats.connect(server.url) as client:
                    if not more:
                        return await work(count, client)
                    ours = NatsClient(NatsSettings(servers=(server.url,)))
                    await ours.connect()
                    try:
                        return await work(count, client, ours, *more)
                    finally:
                        await ours.close()

            return lambda: asyncio.run(run())

        rates = in_turn(
            {
                "intake, nats-py": connected(intake_alone),
                "intake, ours": connected(intake_ours, kafka),
                "delivery, nats-py": connected(delivery_alone),
                "delivery, ours": connected(delivery_ours, kafka),
            },
            rounds=options.rounds,
            warm_up=not options.small,
        )
    results: dict[str, object] = {"messages": count, "bytes": len(BODY), "bar": BAR}
    for way in ("intake", "delivery"):
        alone, ours = rates[f"{way}, nats-py"], rates[f"{way}, ours"]
        ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, alone, strict=True))
        say(
            f"{way:<10}{statistics.median(ours):>10,.0f} msg/s, "
            f"nats-py {statistics.median(alone):>10,.0f} msg/s, ratio {ratio:.2f}"
        )
        results[f"{way}_ratio"] = round(ratio, 2)
        results[f"{way}_per_s"] = round(statistics.median(ours))
    finish("nats", results)


if __name__ == "__main__":
    main()

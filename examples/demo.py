"""10,000 messages over three routes, poison among them, and a table of what went where.

Runs the bridge of ``quickstart.properties`` on an embedded Kafka in a temporary folder, and ends by itself.
Half of the orders come over an embedded NATS.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

import nats
from isthmus.config import load
from isthmus.edges.nats.translate import to_nats
from isthmus.edges.service import EdgeService
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.embedded.nats import EmbeddedNats
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import read_topic
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.pipeline.run import Pipeline

MESSAGES = 10_000
BATCH_S = "5s"  # counts are known when a batch ends, and a demonstration does not want to wait for that

console = Console()


def make_message(number: int, dice: random.Random) -> tuple[str, Message]:
    """A message, and what ought to become of it."""
    kind = dice.choices(
        ["orders-eu", "orders-large", "orders-other", "no key", "object message", "nobody's"],
        weights=[40, 20, 30, 4, 3, 3],
    )[0]
    identity = f"ID:demo-{number}"
    headers = {"MessageId": Header(identity), "CorrelationId": Header(f"customer-{number % 100}")}
    body, address = Body(BodyKind.TEXT), "orders"
    match kind:
        case "orders-eu":
            headers |= {"region": Header("EU"), "amount": Header.of(dice.randrange(1, 5000))}
        case "orders-large":
            headers |= {"region": Header("US"), "amount": Header.of(dice.randrange(1000, 5000))}
        case "orders-other":
            headers |= {"region": Header("US"), "amount": Header.of(dice.randrange(1, 1000))}
        case "no key":  # the route takes its key from a header that is not there
            headers = {"MessageId": Header(identity), "region": Header("EU")}
        case "object message":  # Java serialisation: never read, never passed on
            body = Body(BodyKind.OBJECT)
        case "nobody's":
            address = "no/route/takes/this"
    value = f'{{"order": {number}}}'.encode()
    return kind, Message(
        id=identity,
        address=address,
        protocol="isthmus",
        value=value,
        body=body,
        headers=headers,
        session=f"session-{number % 8}",
    )


async def publish(url: str, messages: list[Message]) -> None:
    """Send messages over NATS, with the types of their headers."""
    async with await nats.connect(url) as client:
        for message in track(messages, "sending over NATS", console=console):
            record = Record(None, message.value, layout.encode_headers(message.headers))
            outgoing = to_nats(message.id, message.address, record)
            await client.publish(outgoing.subject, outgoing.payload, headers=dict(outgoing.headers))
        await client.flush()


def main() -> int:
    """Run the demonstration; 0 when every message went where it belongs."""
    dice, sent = random.Random(7), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="isthmus-demo-") as folder:
        server = EmbeddedNats(Path(folder) / "nats")
        with console.status("starting the embedded Kafka and NATS"):
            broker = EmbeddedKafka(Path(folder) / "kafka", secured=True)
            broker.start()
            server.start()
        file = Path(folder) / "demo.properties"
        file.write_text(
            Path(__file__).with_name("quickstart.properties").read_text()
            + f"nats.servers={server.url}\nnats.intake.orders.subject=orders\n"
        )
        settings = load(file, {"ISTHMUS_STATE_DIR": folder, "ISTHMUS_PIPELINE_REAL_TIME_BATCH": BATCH_S})
        try:
            kafka = broker.cluster
            with console.status("starting Spark"):
                pipeline = Pipeline(settings, kafka)
                pipeline.start()
            edges = EdgeService(settings, kafka)
            edges.start()
            over_nats = []
            with JournalWriter(kafka, settings.journal) as writer:
                for number in track(range(MESSAGES), "sending", console=console):
                    kind, message = make_message(number, dice)
                    sent[kind] += 1
                    if number % 2 and kind.startswith("orders"):
                        over_nats.append(message)
                    else:
                        writer.write(Entry(Op.ADD, message))
            asyncio.run(publish(server.url, over_nats))
            with console.status("routing"):
                deadline = time.monotonic() + 300
                while sum(pipeline.metrics.outcomes.values()) < MESSAGES and time.monotonic() < deadline:
                    pipeline.poll()
                    edges.poll()
                    time.sleep(0.1)
            edges.stop()
            dead_letters = settings.routing.dead_letter_topic or ""
            topics = [*sorted({route.topic for route in settings.routes}), dead_letters]
            found = {topic: sum(1 for _ in read_topic(kafka, topic)) for topic in topics}
            outcomes = pipeline.metrics.outcomes
            pipeline.stop()
        finally:
            server.stop()
            broker.stop()

    expected = {topic: sent[topic] for topic in topics[:-1]}
    expected[dead_letters] = sent["no key"] + sent["object message"]
    table = Table(title=f"{MESSAGES} messages, {len(over_nats)} of them over NATS", title_justify="left")
    for column in ("where", "messages", "what"):
        table.add_column(column, justify="right" if column == "messages" else "left")
    for route in settings.routes:
        table.add_row(route.topic, str(found[route.topic]), f"{route.name}: {route.written}")
    table.add_row(
        dead_letters,
        str(found[dead_letters]),
        f"{sent['no key']} without a key, {sent['object message']} object messages",
    )
    unmatched = {str(outcome): count for outcome, count in outcomes.items()}["unmatched"]
    table.add_row("the journal only", str(unmatched), "no route takes them")
    console.print(table)
    right = found == expected and unmatched == sent["nobody's"]
    console.print("[green]every message is accounted for[/]" if right else f"[red]expected {expected}[/]")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

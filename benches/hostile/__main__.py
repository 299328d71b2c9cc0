"""An honest client beside hostile ones: ``python -m benches.hostile [--rate N] [--seconds N] [--only KIND]``.

An edge as users run it, with a users file, on a Kafka of its own. A client sends messages at an even rate,
and counts from when a message was due until it is accepted. Beside it, in another process, hostile clients of
one kind after the other do their worst: see `benches.hostile.attacks`. First nobody does, to compare with.

``honest_p99_ms`` is the 99th percentile beside the worst kind of them; ``p99_ms`` has those of all kinds.
``lost`` counts messages of the honest client that were not accepted. ``edge_mib`` is what the edge has in
memory at the end. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from benches.front_door import front_door
from benches.harness import (
    embedded_kafka,
    ending_in_good_order,
    finish,
    machine,
    options_of,
    percentile,
    say,
)
from benches.hostile.attacks import ATTACKS, PASSWORD, TOPIC, USER, Ports, attack
from benches.hostile.peer import Peer
from isthmus.codecs.amqp import AmqpMessage, AmqpValue, MessageProperties
from isthmus.converters import converter
from isthmus.edges.amqp.protocol import Delivery
from isthmus.edges.amqp.server.users import set_user
from isthmus.embedded.ports import free_port
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka

BAR_MS: Final = 250.0
NOBODY: Final = "nobody"
HONEST: Final = "honest"


def fill(kafka: Kafka) -> None:
    """Messages for the hostile to receive."""
    create_topics(kafka, [TOPIC], 1)
    producer = Producer(kafka.python_options())
    for number in range(50):
        message = AmqpMessage(
            properties=MessageProperties(message_id=f"ID:{number}", to=TOPIC),
            application_properties={"text": "a" * 80},
            body=AmqpValue("x" * 100_000),
        )
        record = converter("jms").to_kafka_record(message)
        producer.produce(TOPIC, record.value, headers=list(record.headers))
    producer.flush(30)


class Honest:
    """A client that sends at an even rate, and knows how long each message took."""

    def __init__(self) -> None:
        self._due: dict[Delivery, float] = {}
        self.latencies_ms: list[float] = []

    async def send(self, port: int, rate: int, seconds: float) -> int:
        """Send for so long; how many were not accepted."""
        peer = await Peer.connect(port, HONEST, PASSWORD, self._on_settled)
        link = await peer.sender("orders")
        data = AmqpMessage(properties=MessageProperties(to="orders"), body=AmqpValue("x" * 256)).encode()
        self.latencies_ms, count, began = [], int(rate * seconds), time.monotonic()
        for number in range(count):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await peer.until(lambda: link.credit)
            self._due[link.send(number.to_bytes(8), data)] = due
            peer.flush()
        await peer.until(lambda: not self._due)
        peer.close()
        return count - len(self.latencies_ms)

    def _on_settled(self, delivery: Delivery) -> None:
        due = self._due.pop(delivery, None)
        if due is not None:
            self.latencies_ms.append((time.monotonic() - due) * 1000)


def measure(kind: str, ports: Ports, rate: int, seconds: float) -> tuple[list[float], int]:
    """How long honest messages took beside hostile clients of a kind, in order; and how many were lost."""
    honest, context = Honest(), multiprocessing.get_context("spawn")
    if kind == NOBODY:
        lost = asyncio.run(honest.send(ports.amqp, rate, seconds))
        return sorted(honest.latencies_ms), lost
    begun = context.Event()
    hostile = context.Process(target=attack, args=(kind, ports, begun), daemon=True)
    hostile.start()
    try:
        begun.wait(60)
        lost = asyncio.run(honest.send(ports.amqp, rate, seconds))
        if not hostile.is_alive():
            raise RuntimeError(f"the hostile clients have ended: {kind}")
    finally:
        hostile.kill()
        hostile.join(10)
    return sorted(honest.latencies_ms), lost


def make_certificate(folder: Path) -> None:
    """A certificate for the server, with its key."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    files = ["-keyout", "server.key", "-out", "server.pem"]
    subprocess.run([*command, *files], cwd=folder, check=True, capture_output=True)


def resident_mib(pid: int) -> float | None:
    """How much memory a process has. Linux only."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    [line] = [each for each in status.read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.hostile", description=__doc__)
    parser.add_argument("--rate", type=int, default=500, help="messages a second of the honest client")
    parser.add_argument("--seconds", type=float, default=20, help="how long beside each kind")
    parser.add_argument("--only", action="append", choices=ATTACKS, help="this kind alone; may be repeated")
    options = options_of(parser, arguments, rate=50, seconds=1.5)
    say(f"[bold]hostile[/]: {options.rate} messages a second on {machine()}")
    p99_ms: dict[str, float] = {}
    lost = 0
    with ending_in_good_order(), tempfile.TemporaryDirectory(prefix="isthmus-bench-") as name:
        folder = Path(name)
        make_certificate(folder)
        for user in (HONEST, USER):
            set_user(folder / "users", user, PASSWORD)
        ws_port, tls_port = free_port(), free_port()
        more = (
            f"amqp.users.file={folder}/users\namqp.plain-without-tls=true\namqp.ws.port={ws_port}\n"
            f"amqps.port={tls_port}\namqps.certificate={folder}/server.pem\namqps.key={folder}/server.key\n"
        )
        with embedded_kafka(folder / "kafka") as kafka, front_door(folder, kafka, more) as (url, pid):
            fill(kafka)
            ports = Ports(int(url.rpartition(":")[2]), tls_port, ws_port)
            for kind in (NOBODY, *(options.only or ATTACKS)):
                latencies, missing = measure(kind, ports, options.rate, options.seconds)
                p99_ms[kind] = round(percentile(latencies, 0.99), 1)
                lost += missing
                say(f"{kind:<12} p50 {percentile(latencies, 0.5):6.1f} ms, p99 {p99_ms[kind]:6.1f} ms")
            edge_mib = resident_mib(pid)
    finish(
        "hostile",
        {
            "honest_p99_ms": max(each for kind, each in p99_ms.items() if kind != NOBODY),
            "undisturbed_p99_ms": p99_ms[NOBODY],
            "bar_ms": BAR_MS,
            "p99_ms": p99_ms,
            "lost": lost,
            "edge_mib": None if edge_mib is None else round(edge_mib),
            "rate": options.rate,
        },
    )


if __name__ == "__main__":
    main()

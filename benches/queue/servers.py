"""Whose queues are compared: the AMQP server of an edge and Artemis, each filled and read like the other."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka import Producer

from benches.front_door import front_door
from benches.jms import JmsQueue
from isthmus.codecs.amqp import AmqpMessage, AmqpValue, MessageHeader, MessageProperties
from isthmus.converters import converter
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.kafka.blocking import QUIET, create_topics, read_topic
from isthmus.kafka.options import Kafka
from isthmus.testing.artemis import Artemis

DEAD_LETTERS = "dead-letters"
BODY = "x" * 256
EXIT_LIMIT_S = 30.0
POLL_S = 0.02


class Server(Protocol):
    """Who has the queues."""

    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def pid(self) -> int | None:
        """The process whose threads and memory are of interest, if they are."""

    def fill(self, queues: Sequence[str], count: int) -> None:
        """Send so many messages to each of the queues, numbered from 0 on."""

    def dead_letters(self, queue: str) -> set[int]:
        """Which messages of a queue were dead-lettered until now."""

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""


class Isthmus:
    """The AMQP server of an edge. What comes to a queue is written to its topic, as the router would."""

    name = "isthmus"

    def __init__(self, kafka: Kafka, url: str, pid: int) -> None:
        self.url, self.pid = url, pid
        self._kafka = kafka
        self._producer = Producer(
            {**kafka.python_options(), "linger.ms": 5, "enable.idempotence": True}, logger=QUIET
        )

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[Isthmus]:
        """One of its own, on a Kafka of its own."""
        settings = f"routing.on-error=dead-letter\nrouting.dead-letter.topic={DEAD_LETTERS}\n"
        with EmbeddedKafka(folder / "kafka") as broker:
            kafka = Kafka(broker.bootstrap_servers)
            create_topics(kafka, [DEAD_LETTERS], 1)
            with front_door(folder, kafka, settings) as (url, pid):
                yield cls(kafka, url, pid)

    def fill(self, queues: Sequence[str], count: int) -> None:
        create_topics(self._kafka, queues, 1)
        for queue, number in itertools.product(queues, range(count)):
            message = AmqpMessage(
                header=MessageHeader(durable=True),
                properties=MessageProperties(message_id=f"ID:{queue}:{number}", to=queue),
                application_properties={"number": number, "queue": queue},
                body=AmqpValue(BODY),
            )
            record = converter("jms").to_kafka_record(message)
            self._producer.produce(queue, record.value, headers=list(record.headers))
            self._producer.poll(0)
        if self._producer.flush(30):
            raise RuntimeError(f"Kafka did not take all messages of {queues[0]}")

    def dead_letters(self, queue: str) -> set[int]:
        every = [dict(record.headers() or []) for record in read_topic(self._kafka, DEAD_LETTERS)]
        mine = [headers for headers in every if headers.get("jms.queue") == queue.encode()]
        return {int(headers["jms.number"] or b"-1") for headers in mine}

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + EXIT_LIMIT_S
        while time.monotonic() < deadline and _status(self.pid, "State") not in ("", "Z"):
            time.sleep(POLL_S)


class ArtemisBroker:
    """Artemis, which dead-letters after ten deliveries, too."""

    name = "artemis"
    pid = None

    def __init__(self, artemis: Artemis, jms: JmsQueue) -> None:
        self.url, self.stop = artemis.url, artemis.stop
        self._jms = jms
        self._dead: defaultdict[str, set[int]] = defaultdict(set)

    @classmethod
    @contextmanager
    def running(cls, folder: Path, jms: JmsQueue) -> Iterator[ArtemisBroker]:
        """One of its own, which the program `jms` fills."""
        queue = f'<address name="{DEAD_LETTERS}"><anycast><queue name="{DEAD_LETTERS}"/></anycast></address>'
        with Artemis(
            folder / "artemis",
            addresses=f"<dead-letter-address>{DEAD_LETTERS}</dead-letter-address>",
            more=f"<addresses>{queue}</addresses>",
        ) as artemis:
            yield cls(artemis, jms)

    def fill(self, queues: Sequence[str], count: int) -> None:
        reply = self._jms.run("send", self.url, ",".join(queues), count=count)
        if reply.problem:
            raise RuntimeError(f"Artemis did not take all messages of {queues[0]}: {reply.problem}")

    def dead_letters(self, queue: str) -> set[int]:
        for _, _, _, name, number in self._jms.run("dead", self.url, DEAD_LETTERS).events:
            self._dead[name].add(number)
        return self._dead[queue]


def thread_count(pid: int) -> int:
    """The threads of a process that runs."""
    return int(_status(pid, "Threads"))


def _status(pid: int, name: str) -> str:
    """What Linux says of a process: empty if there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return ""
    return next((line.split()[1] for line in lines if line.startswith(f"{name}:")), "")

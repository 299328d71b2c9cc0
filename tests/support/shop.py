"""A bridge that seems to run: its topics on a real Kafka as the router would have left them, and its figures.

What the page shows of it is real: the journal, what was published, the dead letters. Only Spark is not there:
the reference router has published, and the counts grow as if messages went on.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from isthmus.config import Settings, load
from isthmus.config.judgement.routing_plan import routing_plan
from isthmus.journal.layout import Record
from isthmus.kafka.blocking import create_topics, produce_all
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics
from isthmus.message import Header, HeaderType
from isthmus.monitor.app import Watched
from isthmus.monitor.history import BIN_S, HOUR, History
from isthmus.monitor.inspector import Topics
from isthmus.routing.decide import decide
from isthmus.routing.explain import sample
from isthmus.telemetry.events import Event
from isthmus.telemetry.held import HeldTransactions
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.overview import Overview
from isthmus.telemetry.parts import (
    ClientReport,
    Clients,
    Flow,
    LinkReport,
    PartMetrics,
    PartReport,
    QueueReport,
)

CONFIG = """bridge.id={name}
kafka.bootstrap.servers={servers}
journal.partitions=2
routing.on-error=dead-letter
routing.dead-letter.topic={name}-dead-letters
amqp.destinations=routed
nats.servers=nats://127.0.0.1:1
monitor.show-bodies={bodies}
routes.eu.predicate=msg.address==orders && msg.header.region in (EU, UK)
routes.eu.dest.topic={name}-orders-eu
routes.eu.conv.key=msg.header.CustomerId
routes.rest.predicate=msg.address=~"^orders(/|$)"
routes.rest.dest.topic={name}-orders-rest
routes.invoices.predicate=msg.address==invoices && msg.header.amount > 1000
routes.invoices.dest.subject=invoices.large
routes.invoices.conv.key=msg.header.InvoiceId
"""
CLIENTS = (
    ClientReport(
        "checkout-7d9f", "shop", "10.0.4.17",
        (LinkReport("orders", "in", 400, 184_220, 12), LinkReport("invoices", "in", 500, 9_310, 0)),
    ),
    ClientReport("warehouse", "warehouse", "10.0.4.31", (LinkReport("orders-eu", "out", 87, 121_004, 0),)),
    ClientReport("relay", "shop", "10.0.4.8", (LinkReport("", "in", 500, 77, 0),)),
)  # fmt: skip
QUEUES = [
    QueueReport("queue", "orders-eu", 3, 1_204),
    QueueReport("queue", "returns", 1, 0),
    QueueReport("subscription", "jms:ticker:prices", 1, 38),
]
RATES = {"eu": 812, "rest": 403, "invoices": 37}


class Shop:
    """The bridge. `watched` is for a monitor."""

    def __init__(self, servers: str, folder: Path, *, bodies: bool = True, name: str = "shop") -> None:
        self.kafka = Kafka(servers)
        self.name = name
        self.file = file = folder / f"{name}.properties"
        file.write_text(CONFIG.format(name=name, servers=servers, bodies=str(bodies).lower()))
        self.settings: Settings = load(file, {})
        self.problems: dict[str, str] = {}
        self._topics = {route.name: route.topic for route in self.settings.routes}
        self.metrics = RouterMetrics(name, {r.name: r.topic for r in self.settings.all_routes})
        self._now = time.time()
        self.history = History(clock=lambda: self._now)
        self._records = 0
        self._ends = dict.fromkeys(self._topics.values(), 0)
        self.overview = Overview(
            self.metrics,
            PartMetrics(name, self._parts),
            self.settings.journal.topic,
            lambda: self.settings.routes,
            {
                "bridge": name,
                "kafka": "kafka-1:9092,kafka-2:9092",
                "mode": "real-time",
                "amqp": "0.0.0.0:5672",
                "without a route": "stays in the journal",
            },
            problems=lambda: self.problems,
            versions={"isthmus": "0.1.0", "python": "3.11.7", "spark": "4.3.0"},
            queries=("router", "ledger"),
            held=lambda: HeldTransactions(3, 1, round(time.time() * 1000) - 7_500_000),
        )
        self.watched = Watched(
            self.overview,
            lambda: self.problems,
            Topics(lambda: self.settings, self.kafka),
            self.history,
            clients=lambda _: Clients(len(CLIENTS), CLIENTS),
            queues=lambda: QUEUES,
        )

    def fill(self, count: int = 60) -> None:
        """Have the router route so many messages, of which some fail."""
        self.route([_message(number) for number in range(count)])

    def route(self, records: Sequence[Record]) -> None:
        """Have the router route what an edge has journaled."""
        settings, kafka = self.settings, self.kafka
        make_own_topics(settings, kafka)
        create_topics(
            kafka, [f"{self.name}-{each}" for each in ("orders-eu", "orders-rest", "dead-letters")], 2
        )
        plan = routing_plan(settings)
        positions = produce_all(kafka, settings.journal.topic, records, partition=0)
        published: dict[str, list[Record]] = {}
        for position, record in zip(positions, records, strict=True):
            topic, partition, offset = position.rsplit(":", 2)
            now_ms = time.time_ns() // 1_000_000
            for decision in decide(plan, topic, int(partition), int(offset), record, now_ms=now_ms):
                if decision.record is not None and decision.topic is not None:
                    published.setdefault(decision.topic, []).append(decision.record)
        for topic, found in published.items():
            produce_all(kafka, topic, found)

    def grow(self, seconds: float) -> None:
        """Have messages come for so long, at once."""
        self._records += round(sum(RATES.values()) * seconds * random.uniform(0.9, 1.1))
        for route, rate in RATES.items():
            self._ends[self._topics[route]] += round(rate * seconds * random.uniform(0.9, 1.1))
        self.metrics.see_sources({(self.settings.journal.topic, 0): self._records})
        self.metrics.see_topics(dict(self._ends))
        self.metrics.routed({(self.settings.journal.topic, 0): self._records})
        for route in RATES:
            for _ in range(20):
                age = round(random.lognormvariate(1.6, 0.6)) + 2
                position = f"{self.settings.journal.topic}:0:{self._records - 1}"
                self.metrics.told(
                    Event(
                        position=position,
                        outcome="published",
                        route=route,
                        age_ms=age,
                        routing_ns=38_000,
                        taken_ms=1_000,
                        published_ms=1_000 + age,
                    )
                )

    def remember_an_hour(self) -> None:
        """Fill the history, as if it had run for that long."""
        self.metrics.on_event = self.history.told
        self.grow(0)
        for number in range(HOUR + 1):
            self._now = time.time() - (HOUR - number) * BIN_S
            self.grow(BIN_S * (0.6 + 0.4 * abs((number % 180) - 90) / 90))
            if number % 40 == 7:
                for _ in range(3):
                    position = f"{self.settings.journal.topic}:0:{number}"
                    self.metrics.told(
                        Event(position=position, outcome="dead-lettered", route="eu", code="key", reason="no")
                    )
            self.history.add(self.overview.document())

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Messages come until the end of the block."""
        over = Flag()

        def run() -> None:
            last = time.monotonic()
            for _ in itertools.count():
                if over.wait(0.25):
                    return
                now = time.monotonic()
                self._now = time.time()
                self.grow(now - last)
                last = now

        thread = Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _parts(self) -> list[PartReport]:
        taken = self._records
        times = [random.uniform(0.001, 0.02) for _ in range(100)]
        return [
            PartReport(
                name="amqp", kind="intake", system="amqp", connected=True, connects=212, disconnects=180,
                taken=Flow(taken * 2 // 3, taken * 300), delivered=Flow(taken // 4), transactions=2,
                oldest_transaction_s=4.0,
            ),
            PartReport(
                name="prices", kind="intake", system="nats", connected="nats" not in self.problems,
                taken=Flow(taken // 3, taken * 90), connects=1, request_times_s=times,
            ),
            PartReport(
                name="payments", kind="connector", system="mq→nats",
                connected="payments" not in self.problems,
                taken=Flow(taken // 20, taken * 20), delivered=Flow(taken // 20), connects=3, disconnects=2,
                reconnects=2, request_times_s=times,
            ),
            PartReport(
                name="invoices", kind="route", system="→nats", connected=True,
                delivered=Flow(taken // 30, taken * 10), request_times_s=times,
            ),
        ]  # fmt: skip


def _message(number: int) -> Record:
    region = ("EU", "US", "UK", "NO")[number % 4]
    headers = {"MessageId": Header(f"ID:{number}"), "region": Header(region)}
    if number % 7:
        headers["CustomerId"] = Header(f"c-{number % 9}")
    body = f'{{"order": {number}, "items": [{{"sku": "A-{number * 7}", "quantity": {number % 5 + 1}}}]}}'
    if number % 10 == 9:
        headers["amount"] = Header.of(number * 100, HeaderType.INT)
        if number % 30 != 29:
            headers["InvoiceId"] = Header(f"i-{number}")
        return sample("invoices", headers, b"<invoice/>", json=False)
    return sample("orders", headers, body.encode(), json=False, session=f"client-{number % 3}")

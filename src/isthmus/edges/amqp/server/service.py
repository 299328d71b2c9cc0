"""The AMQP server as a part of a bridge: what senders send goes to the journal, receivers read topics."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from isthmus.config import Settings
from isthmus.converters import MessageConverter, converter
from isthmus.edges.addresses import JMS_PARTITIONS, PARTITIONS, KafkaAddresses
from isthmus.edges.amqp.server.receivers import KafkaOutgoingLinks
from isthmus.edges.amqp.server.server import AmqpServer
from isthmus.edges.amqp.server.traffic import ServerFigures
from isthmus.edges.amqp.server.users import Users
from isthmus.edges.dead_letters import EdgeDeadLetters
from isthmus.edges.journal import EdgeJournal
from isthmus.errors import HardFailure
from isthmus.events.amqp import Listening
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.name_locks import NameLocks
from isthmus.kafka.options import Kafka
from isthmus.kafka.requests import GROUP_RESOURCE
from isthmus.telemetry.parts import Clients, Flow, PartReport, QueueReport
from isthmus.telemetry.traces import Traces

GARBAGE_THRESHOLD = 50_000
"""After how many new containers Python looks for cycles: a message in flight has some 20."""
LOCKS_CONFIG = {"consumer.session.timeout.ms": "10000"}
"""How soon what a process that died held is free; brokers may allow no less than 45 s."""
LARGEST_BYTES = 16 * 2**20
"""What the journal's writer takes, where its topic sets no limit that can be read."""


class AmqpService:
    """Takes AMQP connections, from `run` until that is cancelled."""

    def __init__(
        self,
        settings: Settings,
        kafka: Kafka,
        journal: EdgeJournal,
        dead_letters: EdgeDeadLetters,
        *,
        shares_port: bool = False,
        traces: Traces | None = None,
    ) -> None:
        """``shares_port`` is whether other processes listen on the same port."""
        self.ready = asyncio.Event()
        self._settings = settings
        self._journal = journal
        self._shares_port = shares_port
        self._where = f"{settings.amqp.host}:{settings.amqp.port}"
        auto_create = settings.amqp.auto_create
        auto_create = settings.kafka.embedded if auto_create is None else auto_create
        bare_is_queue = settings.amqp.bare_address == "queue"
        self._admin = KafkaAdmin(kafka)
        self._clients_group = f"isthmus.{settings.bridge_id}.clients"
        self._client_ids = NameLocks(self._admin.client, self._clients_group)
        self._subscriptions_group = f"isthmus.{settings.bridge_id}.subscriptions"
        self._subscription_locks = NameLocks(self._admin.client, self._subscriptions_group)
        self._outgoing_links = KafkaOutgoingLinks(
            kafka,
            lambda topic: route_converter(self._settings, topic),
            temporary_topic=settings.temporary_topic,
            journal_topic=settings.journal.topic,
            queue_views=settings.amqp.queue_selectors == "views",
            bare_is_queue=bare_is_queue,
            auto_create=auto_create,
            max_deliveries=settings.amqp.max_deliveries,
            link_bytes=settings.amqp.max_receiver_bytes,
            total_bytes=settings.amqp.max_total_receiver_bytes,
            undeliverable=dead_letters.received,
            admin=self._admin,
            subscription_locks=self._subscription_locks,
            traces=traces,
        )
        self._addresses = KafkaAddresses(
            self._admin,
            settings.all_routes,
            direct=settings.message_convert is not None,
            keep=settings.keeps_destinations,
            auto_create=auto_create,
            partitions=JMS_PARTITIONS if bare_is_queue else PARTITIONS,
            reserved=settings.reserved_topics,
        )
        self._server = AmqpServer(
            settings.amqp,
            settings.amqps,
            journal=journal,
            addresses=self._addresses,
            outgoing_links=self._outgoing_links,
            client_ids=self._client_ids,
            max_message_size=largest_message(journal),
            container_id=settings.bridge_id,
            users=_users(settings),
            reserved=settings.reserved_topics,
            as_json=settings.uses_json,
            senders_choose=settings.message_convert not in (None, "jms"),
        )

    @property
    def ports(self) -> list[int]:
        """The ports that it listens on: without TLS first."""
        return self._server.ports

    async def run(self) -> None:
        """Serve until cancelled. Raises `HardFailure` when it cannot listen."""
        try:
            await self._server.start(reuse_port=self._shares_port)
        except OSError as error:
            raise HardFailure(
                f"the AMQP server cannot listen on {self._where}: {error.strerror}",
                remedy="set amqp.host and amqp.port (0: any that is free), or amqp.enabled=false",
            ) from None
        _spare_the_collector()
        self.ready.set()
        Listening(self._settings.amqp.host, ", ".join(map(str, self.ports))).emit()
        try:
            for group in (self._clients_group, self._subscriptions_group):
                with suppress(HardFailure):  # then it takes the brokers' time
                    await self._admin.set_configs(GROUP_RESOURCE, group, LOCKS_CONFIG)
            await asyncio.Event().wait()
        finally:
            await self._server.close()
            await self._client_ids.close()
            await self._subscription_locks.close()
            await self._outgoing_links.close()
            await self._admin.close()

    async def change(self, settings: Settings, *, narrowly: bool = False) -> None:
        """Go by other routes, users and certificates. Raises `ConfigError`: then nothing changes.

        ``narrowly`` is for as long as the router still goes by the routes of before: only what those take as
        well is taken.
        """
        self._server.change(_users(settings), settings.amqps)
        if narrowly:
            self._addresses.change(self._settings.all_routes, settings.all_routes)
        else:
            self._settings = settings
            self._addresses.change(settings.all_routes)

    def figures(self) -> ServerFigures:
        """What was counted since the start, and what is open now."""
        counts = {
            **asdict(self._server.stats),
            "not_acknowledged": self._outgoing_links.not_acknowledged,
            "connections": self._server.connections,
        }
        return ServerFigures(counts, self._server.traffic.reports(), *self._server.transactions)

    async def clients(self, most: int) -> Clients:
        """Who is connected, and on which links; so many are shown at most."""
        return self._server.clients(most)

    async def queues(self) -> list[QueueReport]:
        """What somebody receives from. Raises `HardFailure` when Kafka does not answer."""
        return await self._outgoing_links.queues()

    @property
    def problem(self) -> str | None:
        """Why it takes no messages at the moment, if so."""
        return self._journal.problem if self.ready.is_set() else "does not listen yet"

    def report(self) -> PartReport:
        """How it stands."""
        return report_of(self.figures(), connected=self.ready.is_set())


def _users(settings: Settings) -> Users | None:
    return Users.read(Path(settings.amqp.users_file)) if settings.amqp.users_file else None


def report_of(figures: ServerFigures, *, connected: bool) -> PartReport:
    """What a server with these figures reports. Its connections are those of its clients."""
    counts = Counter(figures.counts)
    return PartReport(
        name="amqp",
        kind="intake",
        system="amqp",
        connected=connected,
        taken=Flow(counts["accepted"], counts["accepted_bytes"]),
        delivered=Flow(counts["delivered"], counts["delivered_bytes"]),
        dead_letters=counts["rejected"],
        connects=counts["connects"],
        disconnects=counts["disconnects"],
        not_acknowledged=counts["not_acknowledged"],
        links=figures.links,
        transactions=figures.transactions,
        oldest_transaction_s=figures.oldest_transaction_s,
    )


def _spare_the_collector() -> None:
    """Have Python look for cycles among fewer objects, less often.

    By default it does with every 35th message, and now and then among everything that the process has: a
    sixth of the CPU time of a message. Messages make no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)


def route_converter(settings: Settings, topic: str, destination: str | None = None) -> MessageConverter:
    """How the records of a topic are read: as the route wrote them that writes there."""
    written = (
        route.convert
        for route in settings.routes
        if route.topic == topic and destination in (None, route.destination)
    )
    name = next(written, settings.message_convert or "jms")
    return converter(name, compat=settings.json_compat) if name == "json" else converter(name)


def largest_message(journal: EdgeJournal) -> int:
    """How many bytes a record of the journal may have."""
    return min(journal.max_message_bytes or LARGEST_BYTES, LARGEST_BYTES)

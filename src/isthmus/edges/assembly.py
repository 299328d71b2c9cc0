"""Builds the edges of a bridge out of its settings: intakes and outboxes, and what they share.

There is one connection to NATS for everything, one to MQ for each intake and each queue manager's outbox, two
to an AMQP broker for the two directions, and one journal. `Assembly.run` runs all of it; what cannot go on
ends all of it, in good order. A system's client library is imported for what is on that system, and else not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

from isthmus.config import Settings
from isthmus.config.model.brokers import AMQP, BrokerSettings
from isthmus.config.model.mq import MqIntakeSettings, MqSettings
from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.config.model.plan import REPLIES, TAG
from isthmus.connectors.forms import mq_forms, nats_forms, nats_mq
from isthmus.connectors.replies import replies_of
from isthmus.edges.addresses import KafkaAddresses
from isthmus.edges.contract import Delivery, Journal
from isthmus.edges.dead_letters import EdgeDeadLetters
from isthmus.edges.journal import AddressedJournal, EdgeJournal, TaggedJournal
from isthmus.edges.metered import Delivered, MeteredDelivery
from isthmus.edges.mq.client import MqClient, queue_manager
from isthmus.edges.mq.delivery import MqDelivery
from isthmus.edges.mq.intake import MqIntake
from isthmus.edges.nats.translate import from_nats
from isthmus.edges.needs import amqp_intakes, outboxes, uses_nats
from isthmus.edges.outbox import Outbox
from isthmus.edges.running import Part, run_together
from isthmus.edges.traced import TracedDelivery
from isthmus.errors import Unreachable
from isthmus.kafka.admin import KafkaAdmin
from isthmus.kafka.options import Kafka
from isthmus.routing.route import Route
from isthmus.telemetry.parts import Clients, Flow, PartReport, QueueReport
from isthmus.telemetry.traces import Traces

if TYPE_CHECKING:
    from isthmus.edges.amqp.client import AmqpClient, AmqpDelivery, AmqpIntake
    from isthmus.edges.amqp.server.service import AmqpService
    from isthmus.edges.amqp.server.workers import AmqpWorkers
    from isthmus.edges.nats.client import NatsClient
    from isthmus.edges.nats.delivery import NatsDelivery
    from isthmus.edges.nats.intake import StreamIntake, SubjectIntake

_SYSTEMS = {"mq": "queue manager", "amqp": "broker"}

CHECK_S = 0.25
"""How often it is asked whether NATS has refused the bridge for good."""


class _Counts(Protocol):
    connects: int
    disconnects: int
    reconnects: int


@dataclass(frozen=True, slots=True)
class _IntakePart:
    """An intake, with what is known of it."""

    name: str
    kind: Literal["connector", "intake"]
    system: Literal["nats", "mq", "amqp"]
    part: SubjectIntake | StreamIntake | MqIntake | AmqpIntake
    client: NatsClient | MqClient | AmqpClient
    refusals: Callable[[], Mapping[str, str]] = dict
    """The addresses that the system does not let us have, and why."""

    @property
    def is_ready(self) -> bool:
        """Whether it has taken messages, or could have."""
        return isinstance(self.part, MqIntake) or self.part.ready.is_set()


@dataclass(frozen=True, slots=True)
class _OutboxPart:
    """An outbox, with what is known of it."""

    topic: str
    system: Literal["nats", "mq", "amqp"]
    part: Outbox
    metered: MeteredDelivery
    client: NatsClient | MqClient | AmqpClient
    mq: MqDelivery | None = None

    @property
    def is_up(self) -> bool:
        """Whether the system is there, as far as anybody has asked."""
        return not self.client.unavailable if isinstance(self.client, MqClient) else self.client.connected


class _NatsConnection:
    """Connects, and tells when that can never be again."""

    def __init__(self, client: NatsClient) -> None:
        self._client = client

    async def run(self) -> None:
        """Stay connected until cancelled. Raises `HardFailure` when NATS refuses the bridge."""
        await self._client.connect()
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                _ = self._client.live
            except Unreachable:
                continue


class Assembly:
    """All edges of a bridge. To be made and run on an event loop."""

    def __init__(
        self, settings: Settings, kafka: Kafka, journal: EdgeJournal, traces: Traces | None = None
    ) -> None:
        self._settings = settings
        self._kafka = kafka
        self._plan = settings.plan
        self._journal = journal
        self._traces = traces
        self._dead_letters = EdgeDeadLetters(settings, kafka)
        kept = settings.mq.reply_queue
        self._replies = replies_of(settings.connectors.values(), kept)
        self._admin: KafkaAdmin | None = None
        self._addresses: KafkaAddresses | None = None
        self._intake_journal = self._addressed(journal) if settings.message_convert else journal
        self._nats = self._nats_client() if uses_nats(settings) else None
        self.amqp_service = self._amqp_service() if settings.listens_to_amqp else None
        self._amqp_clients: dict[str, AmqpClient] = {}
        """Those of outboxes, by their topics. Intakes see to theirs."""
        self._intake_parts = [*self._intakes()]
        self._outbox_parts = [self._outbox_part(name) for name in outboxes(settings)]

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Run everything until ``stop`` is set. ``ready`` is called once all intakes take messages."""
        parts: dict[str, Part] = {f"intake {each.name}": each.part for each in self._intake_parts}
        parts |= {each.topic: each.part for each in self._outbox_parts}
        parts |= {f"client {name}": client for name, client in self._amqp_clients.items()}
        if self._nats is not None:
            parts["nats"] = _NatsConnection(self._nats)
        if self.amqp_service is not None:
            parts["amqp"] = self.amqp_service
        waiting = asyncio.create_task(self._tell_when_ready(ready))
        try:
            await run_together(parts, stop)
        finally:
            waiting.cancel()
            for each in self._outbox_parts:
                if each.mq is not None:
                    await each.mq.close()
            if self._nats is not None:
                await self._nats.close()
            if self._admin is not None:
                await self._admin.close()
            await self._dead_letters.close()
            await self._journal.close()

    async def change(self, settings: Settings, *, narrowly: bool = False) -> None:
        """Go by other routes, users and certificates, as `AmqpService.change` does. Raises `ConfigError`."""
        if self.amqp_service is not None:
            await self.amqp_service.change(settings, narrowly=narrowly)
        if not narrowly:
            self._settings = settings
            self._dead_letters.change(settings)
            if self._addresses is not None:
                self._addresses.change(settings.all_routes)

    async def _tell_when_ready(self, ready: Callable[[], None]) -> None:
        if self.amqp_service is not None:
            await self.amqp_service.ready.wait()
        for each in self._intake_parts:
            if isinstance(each.part, MqIntake):
                while not each.client.connected:
                    await asyncio.sleep(0.02)
            else:
                await each.part.ready.wait()
        ready()

    # Building

    def _addressed(self, journal: Journal) -> Journal:
        """The journal for messages of other systems, which may go to the topic that their address names."""
        self._admin = KafkaAdmin(self._kafka)
        self._addresses = KafkaAddresses(
            self._admin,
            self._settings.all_routes,
            direct=True,
            refuse=False,
            auto_create=False,
            reserved=self._settings.reserved_topics,
        )
        return AddressedJournal(journal, self._addresses)

    def _nats_client(self) -> NatsClient:
        from isthmus.edges.nats.client import NatsClient

        return NatsClient(self._settings.nats, name=self._settings.bridge_id)

    def _amqp_service(self) -> AmqpService | AmqpWorkers:
        from isthmus.edges.amqp.server.service import AmqpService
        from isthmus.edges.amqp.server.workers import AmqpWorkers

        if self._settings.amqp.workers > 1:
            return AmqpWorkers(self._settings, self._kafka)
        return AmqpService(
            self._settings, self._kafka, self._journal, self._dead_letters, traces=self._traces
        )

    def _intakes(self) -> Iterator[_IntakePart]:
        settings = self._settings
        for name, source in settings.nats_intakes.items():
            yield self._from_nats(name, "intake", source, self._intake_journal)
        for name, queue in settings.mq_intakes.items():
            yield self._from_mq(name, "intake", queue, settings.mq, self._intake_journal)
        for name, broker in amqp_intakes(settings).items():
            yield self._from_amqp(name, broker)
        for planned in self._plan.intakes:
            name = planned.connector
            kind: Literal["connector", "intake"] = "connector" if name in settings.connectors else "intake"
            journal = self._intake_journal
            if planned.tag is not None:
                journal = TaggedJournal(journal, TAG, planned.tag)
            if isinstance(planned.source, NatsIntakeSettings):
                yield self._from_nats(name, kind, planned.source, journal)
            else:
                manager = planned.manager or settings.mq
                yield self._from_mq(name, kind, planned.source, manager, journal)

    def _from_nats(
        self, name: str, kind: Literal["connector", "intake"], source: NatsIntakeSettings, journal: Journal
    ) -> _IntakePart:
        from isthmus.edges.nats.intake import StreamIntake, SubjectIntake

        assert self._nats is not None
        keep = self._dead_letters.message
        read = nats_mq(self._replies)[0] if source.form == "nats-mq" else from_nats
        intake: SubjectIntake | StreamIntake
        if source.durable is None:
            intake = SubjectIntake(self._nats, journal, source, dead_letters=keep, read=read)
        else:
            create = self._settings.nats.create_streams
            intake = StreamIntake(
                self._nats, journal, source, dead_letters=keep, read=read, create_stream=create
            )
        return _IntakePart(name, kind, "nats", intake, self._nats)

    def _from_mq(
        self,
        name: str,
        kind: Literal["connector", "intake"],
        source: MqIntakeSettings,
        manager: MqSettings,
        journal: Journal,
    ) -> _IntakePart:
        intake = MqIntake(
            queue_manager(manager),
            source,
            journal,
            self._dead_letters.message,
            name=name,
            replies=self._replies,
            max_backoff_s=manager.max_backoff_s,
        )
        return _IntakePart(name, kind, "mq", intake, intake.client)

    def _from_amqp(self, name: str, broker: BrokerSettings) -> _IntakePart:
        from isthmus.edges.amqp.client import AmqpClient, AmqpIntake
        from isthmus.edges.amqp.server.service import largest_message

        container_id = f"isthmus.{self._settings.bridge_id}.{name}"
        intake = AmqpIntake(
            AmqpClient(broker, name=name, container_id=container_id),
            self._intake_journal,
            dead_letters=self._dead_letters.message,
            max_message_size=largest_message(self._journal),
            as_json=self._settings.uses_json,
        )
        return _IntakePart(name, "intake", "amqp", intake, intake.client, lambda: intake.refusals)

    def _outbox_part(self, name: str) -> _OutboxPart:
        topic = self._settings.outbox(name)
        if name == "nats":
            delivery, client = self._nats_delivery()
            return _OutboxPart(topic, "nats", *self._outbox(topic, "nats", delivery), client)
        if name.startswith(AMQP):
            to_broker = self._amqp_delivery(name.removeprefix(AMQP), topic)
            return _OutboxPart(topic, "amqp", *self._outbox(topic, "amqp", to_broker), to_broker.client)
        manager = self._plan.managers[name]
        mq = MqDelivery(
            queue_manager(manager),
            name=name,
            forms=mq_forms(self._plan.routes, name),
            replies=self._replies,
            max_backoff_s=manager.max_backoff_s,
        )
        return _OutboxPart(topic, "mq", *self._outbox(topic, "mq", mq), mq.client, mq)

    def _nats_delivery(self) -> tuple[NatsDelivery, NatsClient]:
        from isthmus.edges.nats.delivery import NatsDelivery

        assert self._nats is not None
        delivery = NatsDelivery(
            self._nats,
            publish=self._settings.nats.publish,
            forms=nats_forms(self._plan.routes, self._replies),
            replies=self._replies.subject,
            create_streams=self._settings.nats.create_streams,
        )
        return delivery, self._nats

    def _amqp_delivery(self, broker: str, topic: str) -> AmqpDelivery:
        from isthmus.edges.amqp.client import AmqpClient, AmqpDelivery
        from isthmus.edges.amqp.server.service import route_converter

        settings = self._settings
        client = AmqpClient(
            settings.amqp_brokers[broker],
            name=broker,
            container_id=f"isthmus.{settings.bridge_id}.{broker}.delivery",
        )
        self._amqp_clients[topic] = client
        return AmqpDelivery(client, lambda address: route_converter(self._settings, topic, address))

    def _outbox(self, topic: str, system: str, delivery: Delivery) -> tuple[Outbox, MeteredDelivery]:
        if self._traces is not None:
            delivery = TracedDelivery(delivery, system, self._traces)
        metered = MeteredDelivery(delivery)
        dead_letters = partial(self._dead_letters.outbound, topic)
        return Outbox(self._kafka, topic, metered, dead_letters=dead_letters), metered

    # Telling: called from other threads, which only look

    def problems(self) -> dict[str, str]:
        """Why messages do not flow, by part; empty while all of them do."""
        found: dict[str, str] = {}
        if self._nats is not None and not self._nats.connected:
            found["nats"] = "not connected"
        if self._journal.problem is not None:
            found["journal"] = self._journal.problem
        if self.amqp_service is not None and self.amqp_service.problem is not None:
            found["amqp"] = self.amqp_service.problem
        for intake in self._intake_parts:
            if not intake.client.connected:
                if intake.client is not self._nats:  # which is told of already
                    found[f"intake {intake.name}"] = f"the {_SYSTEMS[intake.system]} is unavailable"
            elif not intake.is_ready:
                found[f"intake {intake.name}"] = "does not take messages yet"
            found |= {f"intake {intake.name} {each}": why for each, why in intake.refusals().items()}
        for outbox in self._outbox_parts:
            if not outbox.is_up:
                if outbox.client is not self._nats:
                    found[outbox.topic] = f"the {_SYSTEMS[outbox.system]} is unavailable"
            elif outbox.part.problem is not None:
                found[outbox.topic] = outbox.part.problem
        return found

    def reports(self) -> list[PartReport]:
        """How every connector, intake and route to another system stands."""
        settings = self._settings
        routes = {route.name: route for route in settings.routes if route.destination is not None}
        found = [self._report(intake, routes.get(intake.name)) for intake in self._intake_parts]
        if self.amqp_service is not None:
            found.append(self.amqp_service.report())
        joined = {report.name for report in found if report.kind == "connector"} | {REPLIES}
        return found + [self._route_report(route) for name, route in routes.items() if name not in joined]

    async def clients(self, most: int) -> Clients:
        """Who is connected to the AMQP server. To be awaited on the loop of the edges."""
        return Clients() if self.amqp_service is None else await self.amqp_service.clients(most)

    async def queues(self) -> list[QueueReport]:
        """What AMQP clients receive from. To be awaited on the loop of the edges."""
        return [] if self.amqp_service is None else await self.amqp_service.queues()

    def _report(self, intake: _IntakePart, route: Route | None) -> PartReport:
        delivered, outbox = Delivered(), None
        if intake.kind == "connector" or intake.name == REPLIES:
            delivered, outbox = self._delivered(route)
        times = self._replies.inboxes.times_s if intake.name == REPLIES else delivered.times_s
        report = PartReport(
            name=intake.name,
            kind=intake.kind,
            system=f"{intake.system}→{outbox.system}" if outbox else intake.system,
            connected=intake.client.connected and (outbox is None or outbox.is_up),
            taken=Flow(intake.part.traffic.messages, intake.part.traffic.bytes),
            delivered=Flow(delivered.messages, delivered.bytes),
            dead_letters=intake.part.traffic.dead_letters + delivered.dead_letters,
            request_times_s=tuple(times),
            lag=None if outbox is None else outbox.part.lag,
        )
        return _with_counts(report, intake.client.counts)

    def _route_report(self, route: Route) -> PartReport:
        delivered, outbox = self._delivered(route)
        report = PartReport(
            name=route.name,
            kind="route",
            system=f"→{outbox.system if outbox else ''}",
            connected=outbox is not None and outbox.is_up,
            delivered=Flow(delivered.messages, delivered.bytes),
            dead_letters=delivered.dead_letters,
            request_times_s=tuple(delivered.times_s),
            lag=None if outbox is None else outbox.part.lag,
        )
        return report if outbox is None else _with_counts(report, outbox.client.counts)

    def _delivered(self, route: Route | None) -> tuple[Delivered, _OutboxPart | None]:
        for outbox in self._outbox_parts:
            if route is not None and outbox.topic == route.topic:
                return outbox.metered.delivered.get(route.destination or "", Delivered()), outbox
        return Delivered(), None


def _with_counts(report: PartReport, counts: _Counts) -> PartReport:
    return replace(
        report,
        connects=counts.connects,
        disconnects=counts.disconnects,
        reconnects=counts.reconnects,
    )

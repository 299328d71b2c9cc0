"""The settings of a bridge: typed, checked and immutable.

`isthmus.config.judgement.keys` makes the table of known keys out of their fields, which all else goes by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from isthmus.config.model import nats_values, values
from isthmus.config.model.amqp import AmqpSettings, AmqpsSettings, Flag
from isthmus.config.model.brokers import BrokerSettings, broker_address
from isthmus.config.model.connectors import ConnectorSettings
from isthmus.config.model.mq import MqIntakeSettings, MqSettings, mq_target
from isthmus.config.model.nats import NatsIntakeSettings, NatsSettings
from isthmus.config.model.otel import OtelSettings
from isthmus.config.model.plan import Plan, plan
from isthmus.config.model.section import Group, Section, setting
from isthmus.config.syntax.hidden import Hidden, Options
from isthmus.converters.contract import NoBody
from isthmus.routing.predicate import Predicate
from isthmus.routing.reserved import ReservedTopics
from isthmus.routing.route import (
    OnError,
    Route,
    destination_route,
    destinations_route,
    direct_route,
    temporary_routes,
)

ROUTER, LEDGER = "router", "ledger"
"""The queries of a pipeline."""

Text = Annotated[str, values.text]
TopicName = Annotated[str, values.topic_name]
Converter = Annotated[str, values.converter]
ErrorPolicy = Annotated[OnError, values.choice(*OnError)]
NonDurable = Annotated[Literal["propagate", "skip"], values.choice("propagate", "skip")]
Mode = Annotated[Literal["real-time", "micro-batch"], values.choice("real-time", "micro-batch")]
ClientOptions = Annotated[Mapping[str, str], values.options]


class KafkaSettings(Section):
    """Where Kafka is, and how clients talk to it."""

    bootstrap_servers: Annotated[str, values.servers] = setting(
        "bootstrap.servers",
        values.EMBEDDED,
        "`host:port` of one or more brokers, separated by commas; `embedded` starts a Kafka of one node",
    )
    client: ClientOptions = setting(
        "*", Options(), "any option of a Kafka client, such as `kafka.security.protocol`"
    )

    @property
    def embedded(self) -> bool:
        """Whether the bridge starts a Kafka of its own."""
        return self.bootstrap_servers == values.EMBEDDED


class JournalSettings(Section):
    """The topic that every message lands in first."""

    topic: TopicName = setting(
        "topic",
        "",
        "the journal's topic; no other bridge may use it",
        default_text="isthmus.<bridge.id>.journal",
    )
    partitions: Annotated[int, values.whole_number(1, 10_000)] = setting(
        "partitions", 4, "how many partitions the journal is made with for what is sent to the bridge"
    )
    ledger_partitions: Annotated[int, values.whole_number(1, 10_000)] = setting(
        "ledger.partitions",
        1,
        "how many more it is made with, for messages of transactions once they are committed",
    )
    transaction_timeout_s: Annotated[float, values.duration_s] = setting(
        "transaction-timeout",
        300.0,
        "after so long without an outcome a transaction is rolled back, unless it is prepared",
    )

    @property
    def all_partitions(self) -> int:
        """How many partitions the topic is made with: those for what is sent, and the ledger's."""
        return self.partitions + self.ledger_partitions


class RoutingSettings(Section):
    """What holds for all routes."""

    dead_letter_topic: TopicName | None = setting(
        "dead-letter.topic", None, "where messages go that cannot be routed, under the policy `dead-letter`"
    )
    on_error: ErrorPolicy = setting(
        "on-error",
        OnError.STOP,
        "what follows when a message has no usable key or cannot be converted: "
        "`stop`, `skip` or `dead-letter`",
    )
    non_durable: NonDurable = setting(
        "non-durable",
        "propagate",
        "whether messages that need not survive a crash are routed: `propagate` or `skip`",
    )
    source_topics: Annotated[tuple[str, ...], values.topic_names] = setting(
        "source.topics",
        (),
        "Kafka topics that are routed too, separated by commas; a record's address is its topic",
    )


class PipelineSettings(Section):
    """How Spark runs."""

    master: Annotated[str, values.spark_master] = setting(
        "master", "local[*]", "the Spark master: `local[*]`, `spark://host:7077`, `yarn`, `k8s://…`"
    )
    mode: Mode = setting("mode", "real-time", "how Spark runs the router: `real-time` or `micro-batch`")
    queries: Annotated[tuple[str, ...], values.choices(ROUTER, LEDGER)] = setting(
        "queries",
        (),
        "what runs in this Spark application: `router`, `ledger`, or both, separated by a comma",
        default_text="the router; and the ledger, if JMS clients can connect",
    )
    batch_duration_s: Annotated[float, values.duration_s] = setting(
        "real-time.batch",
        120.0,
        "how long a batch of the real-time mode is: long ones stall less often, but a start has more to read",
    )
    spark: ClientOptions = setting(
        "spark.*",
        Options(),
        "any option of Spark, such as `pipeline.spark.executor.memory` for `spark.executor.memory`",
    )


class MonitorSettings(Section):
    """Where metrics and health are served."""

    host: Text = setting("host", "127.0.0.1", "the address that metrics and health are served on")
    port: Annotated[int, values.whole_number(0, 65_535)] = setting(
        "port", 9464, "the port that they are served on; `0` takes a free one"
    )
    token: Annotated[str, values.token] | None = setting(
        "token",
        None,
        "what whoever asks must show, of 16 characters or more; required if others than this machine can "
        "ask, and to see or replay messages",
    )
    show_bodies: Flag = setting(
        "show-bodies", False, "whether the page shows the bodies of messages, to whoever has the token"
    )


class RouteSettings(Section):
    """The keys of one route, as they stand in the file."""

    name: Text | None = setting(
        "name", None, "what logs, metrics and dead letters call the route", default_text="<route>"
    )
    predicate: Annotated[Predicate, values.predicate] = setting(
        "predicate", ..., "which messages the route takes"
    )
    topic: TopicName | None = setting("dest.topic", None, "the Kafka topic that they go to")
    subject: Annotated[str, nats_values.subject] | None = setting(
        "dest.subject", None, "the NATS subject that they go to, in place of a topic"
    )
    queue: Annotated[str, mq_target] | None = setting(
        "dest.queue",
        None,
        "the MQ queue that they go to: `QUEUE`, `QUEUE@QMGR`, or `topic://a/b` for a topic string",
    )
    address: Annotated[str, broker_address] | None = setting(
        "dest.address",
        None,
        "the address of a remote AMQP broker that they go to: `<broker>:orders`, `<broker>:topic://news`",
    )
    key: Annotated[str, values.key_header] | None = setting(
        "conv.key",
        None,
        "the header that becomes the Kafka key, as `msg.header.<Name>`",
        default_text="the message id",
    )
    key_pattern: Annotated[str, values.pattern] | None = setting(
        "conv.key.pattern",
        None,
        "a regular expression that the whole key has to match, such as `[A-Za-z0-9]+`",
    )
    convert: Converter = setting("conv.message", "jms", "the converter that makes the Kafka record")
    no_body: Annotated[NoBody, values.choice(*NoBody)] | None = setting(
        "conv.no-body",
        None,
        "what a message without a body becomes with `jms` and `default`: `null`, a record without a value, "
        "which in a compacted topic deletes what has its key; `empty`, a value of no bytes; "
        "or `fail`, a soft failure",
        default_text="`empty` in a topic, `null` on the way to another system",
    )
    on_error: ErrorPolicy | None = setting(
        "on-error", None, "the route's own error policy", default_text="routing.on-error"
    )


class Settings(Section):
    """Everything about one bridge."""

    bridge_id: Annotated[str, values.bridge_id] = setting(
        "bridge.id",
        "isthmus",
        "the bridge's name: in its topics, and in `jmsbridge.origin` on all it publishes",
    )
    kafka: KafkaSettings = KafkaSettings()
    journal: JournalSettings = JournalSettings()
    message_convert: Converter | None = setting(
        "message.convert",
        None,
        "the converter for messages that no route takes: they go to the topic that their address names",
        default_text="such messages stay in the journal",
    )
    json_compat: Flag = setting(
        "json.compat", False, "whether `json` also reads data that an earlier bridge encoded twice"
    )
    routing: RoutingSettings = RoutingSettings()
    routes: Annotated[tuple[Route, ...], tuple] = ()
    """Those of the file, and behind them those that its connectors come to."""
    amqp: AmqpSettings = AmqpSettings()
    amqps: AmqpsSettings = AmqpsSettings()
    amqp_brokers: Annotated[Group[BrokerSettings], Group] = Group()
    nats: NatsSettings = NatsSettings()
    nats_intakes: Annotated[Group[NatsIntakeSettings], Group] = Group()
    mq: MqSettings = MqSettings()
    mq_intakes: Annotated[Group[MqIntakeSettings], Group] = Group()
    connectors: Annotated[Group[ConnectorSettings], Group] = Group()
    pipeline: PipelineSettings = PipelineSettings()
    state_dir: Annotated[str, values.folder] = setting(
        "state.dir",
        ".isthmus",
        "where checkpoints and state live: a local folder, or any Hadoop URI",
        default_text=".isthmus",
        validate_default=True,
    )
    monitor: MonitorSettings = MonitorSettings()
    otel: OtelSettings = OtelSettings()

    @property
    def all_routes(self) -> tuple[Route, ...]:
        """The routes in their order: those of the file, to temporary queues, and the direct one."""
        routes = (*self.routes, *self.temporary_routes)
        if not (self.message_convert or self.keeps_destinations):
            return routes
        direct = direct_route(self.message_convert) if self.message_convert else destinations_route()
        return (*routes, *self._destination_routes(direct), direct)

    def _destination_routes(self, direct: Route) -> Iterator[Route]:
        """Those to JMS destinations that have another form than the direct route's."""
        topics = {route.topic: route for route in reversed(self.routes) if route.destination is None}
        for topic, route in topics.items() if self.keeps_destinations else ():
            # All that has the headers of JMS is read alike.
            if route.convert != direct.convert and not (route.has_jms_headers and direct.has_jms_headers):
                yield destination_route(topic, route.convert)

    @property
    def keeps_destinations(self) -> bool:
        """Whether what AMQP clients send to a JMS destination goes there, wherever a route takes it too."""
        return self.listens_to_amqp and self.amqp.destinations == "keep"

    @property
    def temporary_routes(self) -> tuple[Route, ...]:
        """The routes to the temporary queues of AMQP clients, where there can be any."""
        if not self.listens_to_amqp:
            return ()
        return temporary_routes(self.temporary_topic, self.routing.source_topics)

    @property
    def temporary_topic(self) -> str:
        """The topic that all temporary queues share."""
        return self._named("temporary")

    @property
    def reserved_topics(self) -> ReservedTopics:
        """The topics that need a grant by name, and that no address leads to."""
        return ReservedTopics(self.journal.topic, self.routing.dead_letter_topic)

    @property
    def events_topic(self) -> str:
        """The topic in which the router tells what happens."""
        return self._named("events")

    @property
    def replays_topic(self) -> str:
        """The topic that says which dead letters were replayed or dropped."""
        return self._named("replays")

    @property
    def clock_topic(self) -> str:
        """The topic that wakes the ledger."""
        return self._named("ledger.clock")

    @property
    def plan(self) -> Plan:
        """What the connectors come to. Raises `ConfigError` for connectors that do not go together."""
        return plan(self.connectors, self.mq, [each.subject for each in self.nats_intakes.values()])

    def outbox(self, edge: str) -> str:
        """The topic of what is to be delivered by an edge."""
        return self._named(f"outbox.{edge}")

    @property
    def listens_to_amqp(self) -> bool:
        """Whether AMQP clients can connect: once any key says where or how, unless it is disabled."""
        return self.amqps.enabled or (self.amqp.enabled and bool(self.amqp.given))

    @property
    def takes_messages(self) -> bool:
        """Whether messages come from anywhere but AMQP clients."""
        intakes = self.nats_intakes or self.mq_intakes or self.connectors or self.routing.source_topics
        return bool(intakes) or any(broker.addresses for broker in self.amqp_brokers.values())

    @property
    def queries(self) -> tuple[str, ...]:
        """What the pipeline runs. Only JMS clients have transactions, which is what the ledger is for."""
        return self.pipeline.queries or ((ROUTER, LEDGER) if self.listens_to_amqp else (ROUTER,))

    @property
    def own_converters(self) -> tuple[str, ...]:
        """The classes of users' that convert: Python, which Spark's real-time mode cannot run."""
        return tuple(dict.fromkeys(each.convert for each in self.all_routes if each.has_own_converter))

    @property
    def uses_json(self) -> bool:
        """Whether any message may become a JSON document, so that the journal must hold what that takes."""
        return any(route.convert == "json" for route in self.all_routes)

    @property
    def local_state_dir(self) -> Path:
        """The folder on this machine for logs and the embedded Kafka: ``state.dir``, if it is a local one."""
        address = urlsplit(self.state_dir)
        return Path(address.path) if address.scheme in ("", "file") else Path.cwd() / ".isthmus"

    def _check_together(self) -> None:
        if not self.journal.topic:
            # The only way to set a field of what is frozen, and the moment when nobody has seen it yet.
            self.__dict__["journal"] = self.journal.replace(topic=self._named("journal"))

    def _named(self, what: str) -> str:
        """The name of a topic that is the bridge's own."""
        name = f"isthmus.{self.bridge_id}.{what}"
        if isinstance(self.bridge_id, Hidden):
            return Hidden(name, f"isthmus.{self.bridge_id.shown}.{what}")
        return name

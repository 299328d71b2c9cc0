"""The settings of a bridge: typed, checked and immutable.

Each field that a user can set says so in place: its key, its default and its meaning. `isthmus.config.keys`
makes the table of known keys out of them, which everything else goes by. Fields can be given by name, as
typed values, or by key, as text. No repr, dump or error shows a `Hidden` value.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    PrivateAttr,
    model_serializer,
    model_validator,
)

from isthmus.config import values
from isthmus.config.hidden import Hidden, Options
from isthmus.routing.predicate import Predicate
from isthmus.routing.route import OnError, Route

Text = Annotated[str, PlainValidator(values.text)]
TopicName = Annotated[str, PlainValidator(values.topic_name)]
Converter = Annotated[str, PlainValidator(values.converter)]
ErrorPolicy = Annotated[OnError, PlainValidator(values.choice(*OnError))]
NonDurable = Annotated[Literal["propagate", "skip"], PlainValidator(values.choice("propagate", "skip"))]
Mode = Annotated[
    Literal["real-time", "micro-batch"], PlainValidator(values.choice("real-time", "micro-batch"))
]
ClientOptions = Annotated[Mapping[str, str], PlainValidator(values.options)]


def _key(
    key: str, default: Any, meaning: str, *, default_text: str | None = None, validate_default: bool = False
) -> Any:
    """A field that users set: its key within the section, its default and what it means."""
    return Field(
        default,
        validation_alias=key,
        description=meaning,
        validate_default=validate_default,
        json_schema_extra={"default_text": default_text},
    )


class Section(BaseModel):
    """Settings that belong together. Equal to others with the same values, however they were written."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )
    _shown: dict[str, str] = PrivateAttr(default_factory=dict)
    """What stands for the fields that were given as `Hidden`: a number, say, cannot hide itself."""

    @model_validator(mode="wrap")
    @classmethod
    def _remember_what_is_hidden(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        section = handler(data)
        if isinstance(data, Mapping):
            for name, field in cls.model_fields.items():
                given = data.get(field.validation_alias, data.get(name))
                if isinstance(given, Hidden):
                    section._shown[name] = given.shown
        return section

    @model_serializer(mode="plain")
    def _serialize_what_is_shown(self) -> dict[str, Any]:
        return {name: visible(value) for name, value in self.__repr_args__() if name}

    def shown_field(self, name: str) -> Any:
        """The value of a field, or what stands for it if it is secret."""
        return self._shown.get(name, getattr(self, name))

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [(name, self.shown_field(name)) for name in type(self).model_fields]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))


def visible(value: Any) -> Any:
    """A value as it may leave the process: without secrets, and without types of our own."""
    match value:
        case Hidden():
            return value.shown
        case Options():
            return {name: visible(option) for name, option in value.items()}
        case tuple():
            return [visible(each) for each in value]
        case Route():
            fields = {
                name: visible(getattr(value, name))
                for name in ("name", "topic", "key", "convert", "on_error")
            }
            return {**fields, "predicate": visible(value.written)}
        case _:
            return value


class KafkaSettings(Section):
    """Where Kafka is, and how clients talk to it."""

    bootstrap_servers: Annotated[str, PlainValidator(values.servers)] = _key(
        "bootstrap.servers",
        values.EMBEDDED,
        "`host:port` of one or more brokers, separated by commas; `embedded` starts a Kafka of one node",
    )
    client: ClientOptions = _key(
        "*", Options(), "any option of a Kafka client, such as `kafka.security.protocol`"
    )

    @property
    def embedded(self) -> bool:
        """Whether the bridge starts a Kafka of its own."""
        return self.bootstrap_servers == values.EMBEDDED


class JournalSettings(Section):
    """The topic that every message lands in first."""

    topic: TopicName = _key(
        "topic",
        "",
        "the journal's topic; no other bridge may use it",
        default_text="isthmus.<bridge.id>.journal",
    )
    partitions: Annotated[int, PlainValidator(values.whole_number(1, 10_000))] = _key(
        "partitions", 4, "how many partitions the journal is made with"
    )


class RoutingSettings(Section):
    """What holds for all routes."""

    dead_letter_topic: TopicName | None = _key(
        "dead-letter.topic", None, "where messages go that cannot be routed, under the policy `dead-letter`"
    )
    on_error: ErrorPolicy = _key(
        "on-error",
        OnError.STOP,
        "what follows when a message has no usable key or cannot be converted: "
        "`stop`, `skip` or `dead-letter`",
    )
    non_durable: NonDurable = _key(
        "non-durable",
        "propagate",
        "whether messages that need not survive a crash are routed: `propagate` or `skip`",
    )
    source_topics: Annotated[tuple[str, ...], PlainValidator(values.topic_names)] = _key(
        "source.topics",
        (),
        "Kafka topics that are routed too, separated by commas; a record's address is its topic",
    )


class PipelineSettings(Section):
    """How Spark runs."""

    master: Annotated[str, PlainValidator(values.spark_master)] = _key(
        "master", "local[*]", "the Spark master: `local[*]`, `spark://host:7077`, `yarn`, `k8s://…`"
    )
    mode: Mode = _key("mode", "real-time", "how Spark runs the router: `real-time` or `micro-batch`")
    batch_duration_s: Annotated[float, PlainValidator(values.duration_s)] = _key(
        "real-time.batch",
        120.0,
        "how long a batch of the real-time mode is: long ones stall less often and repeat more after a crash",
    )
    spark: ClientOptions = _key(
        "spark.*",
        Options(),
        "any option of Spark, such as `pipeline.spark.executor.memory` for `spark.executor.memory`",
    )


class MonitorSettings(Section):
    """Where metrics and health are served."""

    host: Text = _key("host", "127.0.0.1", "the address that metrics and health are served on")
    port: Annotated[int, PlainValidator(values.whole_number(0, 65_535))] = _key(
        "port", 9464, "the port that they are served on; `0` takes a free one"
    )


class RouteSettings(Section):
    """The keys of one route, as they stand in the file."""

    name: Text | None = _key(
        "name", None, "what logs, metrics and dead letters call the route", default_text="<route>"
    )
    predicate: Annotated[Predicate, PlainValidator(values.predicate)] = _key(
        "predicate", ..., "which messages the route takes"
    )
    topic: TopicName = _key("dest.topic", ..., "the Kafka topic that they go to")
    key: Annotated[str, PlainValidator(values.key_header)] | None = _key(
        "conv.key",
        None,
        "the header that becomes the Kafka key, as `msg.header.<Name>`",
        default_text="the message id",
    )
    convert: Converter = _key("conv.message", "jms", "the converter that makes the Kafka record")
    on_error: ErrorPolicy | None = _key(
        "on-error", None, "the route's own error policy", default_text="routing.on-error"
    )


class Settings(Section):
    """Everything about one bridge."""

    bridge_id: Annotated[str, PlainValidator(values.bridge_id)] = _key(
        "bridge.id",
        "isthmus",
        "the bridge's name: in its topics, and in `jmsbridge.origin` on all it publishes",
    )
    kafka: KafkaSettings = KafkaSettings()
    journal: JournalSettings = JournalSettings()
    message_convert: Converter | None = _key(
        "message.convert",
        None,
        "the converter for messages that no route takes: they go to the topic that their address names. "
        "Not available yet",
    )
    routing: RoutingSettings = RoutingSettings()
    routes: Annotated[tuple[Route, ...], PlainValidator(tuple)] = ()
    pipeline: PipelineSettings = PipelineSettings()
    state_dir: Annotated[str, PlainValidator(values.folder)] = _key(
        "state.dir",
        ".isthmus",
        "where checkpoints and state live: a local folder, or any Hadoop URI",
        default_text=".isthmus",
        validate_default=True,
    )
    monitor: MonitorSettings = MonitorSettings()

    @property
    def local_state_dir(self) -> Path:
        """The folder on this machine for logs and the embedded Kafka: ``state.dir``, if it is a local one."""
        address = urlsplit(self.state_dir)
        return Path(address.path) if address.scheme in ("", "file") else Path.cwd() / ".isthmus"

    @model_validator(mode="after")
    def _name_the_journal(self) -> Self:
        if not self.journal.topic:
            named = f"isthmus.{self.bridge_id}.journal"
            if isinstance(self.bridge_id, Hidden):
                named = Hidden(named, f"isthmus.{self.bridge_id.shown}.journal")
            # The only way to set a field of a frozen model, and the moment when nobody has seen it yet.
            self.__dict__["journal"] = self.journal.model_copy(update={"topic": named})
        return self

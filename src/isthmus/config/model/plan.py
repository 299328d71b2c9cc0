"""What connectors come to: intakes and routes.

Each connector is one intake, and one route from that intake's address to one destination; its messages go
through the journal and the router like all others. Nothing is made for a pair of systems: a connector *from*
NATS is an intake of the NATS edge, one *to* MQ is a destination of the MQ edge.

Pure: nothing is opened or asked here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Literal, NamedTuple

from isthmus.config.model.connectors import ConnectorSettings
from isthmus.config.model.mq import TOPIC_SCHEME, MqIntakeSettings, MqSettings
from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.config.model.nats_values import CORE, INBOX, JETSTREAM
from isthmus.config.model.section import Group
from isthmus.errors import ConfigError, SettingsError

TAG = "Connector"
"""The header that tells apart the messages of connectors that take from the same address."""
ANSWER_FORM = "AnswerForm"
"""The header of an answer to an inbox that says in which form its requester asked."""
REPLIES = "replies"
"""What the intake and the route for answers to inboxes are called."""

Form = Literal["bridge", "body", "headers"]
"""What the edge writes: the message format of the NATS-MQ bridge on NATS and what it holds on MQ, or the body
alone, or the headers as the system has them."""
ANSWER: Final = "answer"
"""In place of a form: that of the request, which `ANSWER_FORM` tells."""


@dataclass(frozen=True, slots=True)
class PlannedIntake:
    """What an edge takes for a connector."""

    connector: str
    source: NatsIntakeSettings | MqIntakeSettings
    manager: MqSettings | None
    """The queue manager, for an intake of the MQ edge."""
    tag: str | None
    """The value of the header `TAG` that the intake adds to its messages, if it must."""

    @property
    def edge(self) -> Literal["nats", "mq"]:
        """Whose intake it is."""
        return "mq" if isinstance(self.source, MqIntakeSettings) else "nats"

    @property
    def address(self) -> str:
        """The address of its messages; a pattern, if it is NATS's and has wildcards."""
        return self.source.address if isinstance(self.source, MqIntakeSettings) else self.source.subject


class PlannedRoute(NamedTuple):
    """Where the messages of a connector's intake go."""

    name: str
    predicate: str
    edge: Literal["nats", "mq"]
    destination: str
    form: Form | Literal["answer"]
    outbox: str
    """Whose outbox: ``nats``, ``mq``, or ``mq.<queue manager>`` for one that is not that of ``mq.``."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All connectors of a bridge."""

    intakes: tuple[PlannedIntake, ...]
    routes: tuple[PlannedRoute, ...]
    managers: Mapping[str, MqSettings]
    """The queue manager behind each outbox of the MQ edge."""


def plan(connectors: Mapping[str, ConnectorSettings], mq: MqSettings, subjects: Collection[str] = ()) -> Plan:
    """What the connectors come to, with ``mq`` for what they do not say of MQ.

    ``subjects`` are those that others take too. Raises `ConfigError` for connectors that do not go together.
    """
    return _plan(connectors if isinstance(connectors, Group) else Group(connectors), mq, tuple(subjects))


@lru_cache(maxsize=16)
def _plan(connectors: Group[ConnectorSettings], mq: MqSettings, subjects: tuple[str, ...]) -> Plan:
    sources = {id: _source(id, each) for id, each in connectors.items()}
    addresses = {
        id: source.address if isinstance(source, MqIntakeSettings) else source.subject
        for id, source in sources.items()
    }
    shared = {
        id
        for id, address in addresses.items()
        if any(overlap(address, other) for other_id, other in addresses.items() if other_id != id)
        or (isinstance(sources[id], NatsIntakeSettings) and any(overlap(address, each) for each in subjects))
    }
    managers_of = {id: _manager(id, each, mq) for id, each in connectors.items()}
    intakes = [
        PlannedIntake(
            connector=id,
            source=sources[id],
            manager=managers_of[id] if isinstance(sources[id], MqIntakeSettings) else None,
            tag=id if id in shared else None,
        )
        for id, each in connectors.items()
    ]
    managers = {"mq": mq}
    routes = [
        PlannedRoute(
            name=id,
            predicate=_predicate(addresses[id], id if id in shared else None),
            **_destination(each),
            form="body" if each.excludeheaders else "bridge",
            outbox=_outbox(id, each, managers_of[id], managers),
        )
        for id, each in connectors.items()
    ]
    _check_forms(routes)
    _check_circles(connectors)
    if mq.reply_queue is not None:
        asking = {id: each for id, each in connectors.items() if each.type.ends[0] == "nats"}
        manager = managers_of[next(iter(asking))] if asking else mq
        intakes.append(PlannedIntake(REPLIES, MqIntakeSettings(queue=mq.reply_queue), manager, None))
        predicate = _predicate(mq.reply_queue, None)
        routes.append(PlannedRoute(REPLIES, predicate, "nats", INBOX, ANSWER, "nats"))
    return Plan(tuple(intakes), tuple(routes), managers)


def _source(id: str, connector: ConnectorSettings) -> NatsIntakeSettings | MqIntakeSettings:
    try:
        match connector.type.ends[0]:
            case "queue":
                return MqIntakeSettings(queue=connector.queue)
            case "topic":
                return MqIntakeSettings(topic=connector.topic)
            case "nats":
                return NatsIntakeSettings(subject=connector.subject or "", queue=connector.natsqueue)
            case _:
                return NatsIntakeSettings(
                    subject=connector.channel or "",
                    durable=connector.durablename or f"isthmus-{re.sub('[^A-Za-z0-9_-]', '_', id)}",
                    start=connector.start,
                )
    except SettingsError as error:
        raise ConfigError(f"connectors.{id}: {_reason(error)}") from None


def _destination(connector: ConnectorSettings) -> dict[str, Any]:
    match connector.type.ends[1]:
        case "queue":
            return {"edge": "mq", "destination": connector.queue}
        case "topic":
            return {"edge": "mq", "destination": f"{TOPIC_SCHEME}{connector.topic}"}
        case "nats":
            return {"edge": "nats", "destination": f"{CORE}{connector.subject}"}
        case _:
            return {"edge": "nats", "destination": f"{JETSTREAM}{connector.channel}"}


def _manager(id: str, connector: ConnectorSettings, mq: MqSettings) -> MqSettings:
    try:
        return connector.manager(mq)
    except SettingsError as error:
        raise ConfigError(f"connectors.{id}.mq: {_reason(error)}") from None


def _reason(error: SettingsError) -> str:
    return error.refusals[0].message


def _outbox(
    id: str, connector: ConnectorSettings, manager: MqSettings, managers: dict[str, MqSettings]
) -> str:
    """Queue managers have outboxes of their own, so that one which is unavailable holds up no other."""
    if connector.type.ends[1] in ("nats", "stan"):
        return "nats"
    names = ["mq", *(f"mq.{re.sub('[/%]', '_', each)}" for each in (connector.queuemanager, id) if each)]
    name = next(each for each in names if managers.get(each, manager) == manager)
    managers[name] = manager
    return name


def _predicate(address: str, tag: str | None) -> str:
    if re.search(r"(?:^|\.)[*>](?:\.|$)", address):
        tokens = [{"*": "[^.]+", ">": ".+"}.get(token, re.escape(token)) for token in address.split(".")]
        where = f"msg.address=~{_quoted('^' + _DOT.join(tokens) + '$')}"
    else:
        where = f"msg.address=={_quoted(address)}"
    return where if tag is None else f"{where} && msg.header.{TAG}=={_quoted(tag)}"


_DOT = re.escape(".")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def overlap(one: str, other: str) -> bool:
    """Whether some address belongs to both of two addresses with NATS's wildcards."""
    for left, right in zip(one.split("."), other.split("."), strict=False):
        if ">" in (left, right):
            return True
        if left != right and "*" not in (left, right):
            return False
    return one.count(".") == other.count(".")


def _check_forms(routes: Sequence[PlannedRoute]) -> None:
    forms: dict[tuple[str, str], PlannedRoute] = {}
    for route in routes:
        first = forms.setdefault((route.outbox, route.destination), route)
        if first.form != route.form:
            raise ConfigError(
                f"connectors.{route.name}.excludeheaders: {first.name} delivers there in another form"
            )


def _check_circles(connectors: Mapping[str, ConnectorSettings]) -> None:
    """A circle of connectors would pass a message round for ever."""
    graph: dict[str, set[str]] = {}
    for each in connectors.values():
        source, destination = (_place(each, kind) for kind in each.type.ends)
        graph.setdefault(source, set()).add(destination)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise ConfigError(f"connectors go round in a circle: {' ← '.join(error.args[1])}") from None


def _place(connector: ConnectorSettings, kind: str) -> str:
    if kind in ("nats", "stan"):  # a stream has what is published to its subject, whoever publishes
        return f"subject {connector.subject if kind == 'nats' else connector.channel}"
    return f"{kind} {connector.queue if kind == 'queue' else connector.topic}@{connector.queuemanager or ''}"

"""What a bridge takes in, and what becomes of a message that no route takes: for who starts or checks it."""

from __future__ import annotations

from collections.abc import Iterator

from isthmus.config.model.settings import Settings
from isthmus.config.syntax.hidden import shown


def outline(settings: Settings) -> dict[str, str]:
    """Facts that decide whether a message arrives, by name."""
    return {
        "takes": "; ".join(_ways_in(settings)) or "nothing but what isthmus send and other programs journal",
        "without a route": _unmatched(settings),
    }


def _ways_in(settings: Settings) -> Iterator[str]:
    if settings.listens_to_amqp:
        ports = [f"{settings.amqp.port}"] if settings.amqp.enabled else []
        if settings.amqps.port is not None:
            ports.append(f"{settings.amqps.port} (TLS)")
        yield f"AMQP and JMS clients at {shown(settings.amqp.host)}, port {' and '.join(ports)}"
    for name, broker in settings.amqp_brokers.items():
        if broker.addresses:
            yield f"AMQP broker {name}"
    if settings.connectors:
        yield f"connectors {', '.join(settings.connectors)}"
    if settings.nats_intakes:
        yield f"NATS {', '.join(shown(each.subject) for each in settings.nats_intakes.values())}"
    if settings.mq_intakes:
        sources = [each.queue or each.topic or "" for each in settings.mq_intakes.values()]
        yield f"MQ {', '.join(map(shown, sources))}"
    if settings.routing.source_topics:
        yield f"Kafka topics {', '.join(shown(each) for each in settings.routing.source_topics)}"


def _unmatched(settings: Settings) -> str:
    if settings.message_convert is not None:
        return f"a message goes to the topic that its address names, as {shown(settings.message_convert)}"
    if settings.keeps_destinations:
        return "an AMQP client's message goes to its JMS destination, the topic of its address, alone"
    return "a message stays in the journal and is published nowhere (message.convert is not set)"

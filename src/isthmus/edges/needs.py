"""Which edges a bridge has, by its settings. Asks for no client library."""

from __future__ import annotations

from isthmus.config import Settings
from isthmus.config.model.brokers import AMQP, BrokerSettings
from isthmus.config.model.mq import MqSettings


def outboxes(settings: Settings) -> list[str]:
    """The edges that routes deliver through: ``nats``, ``mq``, ``mq.<queue manager>``, ``amqp.<broker>``."""
    names = ["nats", *settings.plan.managers, *(f"{AMQP}{name}" for name in settings.amqp_brokers)]
    used = {route.topic for route in settings.routes if route.destination is not None}
    return [name for name in names if settings.outbox(name) in used]


def needed(settings: Settings) -> bool:
    """Whether a bridge has any edges."""
    intakes = settings.nats_intakes or settings.mq_intakes or settings.plan.intakes
    return bool(intakes or amqp_intakes(settings) or outboxes(settings) or settings.listens_to_amqp)


def amqp_intakes(settings: Settings) -> dict[str, BrokerSettings]:
    """The brokers that messages are taken from."""
    return {name: broker for name, broker in settings.amqp_brokers.items() if broker.addresses}


def uses_nats(settings: Settings) -> bool:
    """Whether anything of a bridge is on NATS."""
    planned = any(each.edge == "nats" for each in settings.plan.intakes)
    return bool(settings.nats_intakes) or planned or "nats" in outboxes(settings)


def queue_managers(settings: Settings) -> list[MqSettings]:
    """The queue managers that a bridge speaks to, each once."""
    plan = settings.plan
    found = [settings.mq] if settings.mq_intakes else []
    found += [each.manager for each in plan.intakes if each.manager is not None]
    found += [plan.managers[name] for name in outboxes(settings) if name in plan.managers]
    return list(dict.fromkeys(found))

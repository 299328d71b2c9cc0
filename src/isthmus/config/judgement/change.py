"""What of a configuration can change while its bridge runs: routes, users and certificates.

In: the configuration that is in force, and another. Out: what the other one changes that needs a restart, by
key, or in words where no single key says it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from isthmus.config.judgement.keys import ROUTES
from isthmus.config.judgement.reading import Reading
from isthmus.config.model.settings import Settings

CHANGEABLE: Final = frozenset(
    {
        "amqp.users.file",
        "amqps.certificate",
        "amqps.client-ca",
        "amqps.key",
        "amqps.require-client-certificate",
        "routing.non-durable",
        "routing.on-error",
    }
)
"""The keys that a running bridge takes over, beside those of routes."""


def needs_restart(now: Reading, then: Reading) -> list[str]:
    """What keeps a running bridge from going by ``then``: empty if it can."""
    keys = dict.fromkeys((*now.entries, *then.entries))
    return [key for key in keys if not _is_changeable(key) and _value(now, key) != _value(then, key)] + [
        *_consequences(now.settings, then.settings)
    ]


def _is_changeable(key: str) -> bool:
    return key in CHANGEABLE or key.startswith(ROUTES)


def _value(reading: Reading, key: str) -> str | None:
    entry = reading.entries.get(key)
    return None if entry is None or entry.value is None else str.__str__(entry.value)


def _consequences(now: Settings, then: Settings) -> Iterator[str]:
    """What changes by routes and files that is not theirs alone."""
    if (now.amqp.users_file is None) != (then.amqp.users_file is None):
        yield "amqp.users.file, for the first time or no longer"
    if (now.amqps.client_ca is None) != (then.amqps.client_ca is None):
        yield "amqps.client-ca, for the first time or no longer"
    if now.listens_to_amqp != then.listens_to_amqp:
        yield "whether AMQP clients can connect"
    if then.uses_json and not now.uses_json:
        yield "a route with the converter json, the first one"
    for system in sorted(_outboxes(then) - _outboxes(now)):
        yield f"a route to {system}, the first one"


def _outboxes(settings: Settings) -> set[str]:
    prefix = settings.outbox("")
    topics = {route.topic for route in settings.routes if route.destination is not None}
    return {topic.removeprefix(prefix) for topic in topics}

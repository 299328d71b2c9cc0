"""Which bridge a file is for that is none of ours: by its keys, as far as properties syntax sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from isthmus.config.foreign import strimzi
from isthmus.config.syntax.properties import Entry


class Format(NamedTuple):
    """Another bridge's configuration."""

    bridge: str
    command: str
    """What ``isthmus import`` calls it."""


STRIMZI: Final = Format("Strimzi's AMQP bridge", "strimzi")
JMS_BRIDGE: Final = Format("the JMS bridge", "jms-bridge")
NATS_MQ: Final = Format("the NATS-MQ bridge", "nats-mq")

_JMS_BRIDGE: Final = re.compile(r'"?bridge"?\.(kafka|journals|routing|streams|ha|security)\b.*')
_NATS_MQ: Final = frozenset({"connect", "stan", "nats", "monitoring", "reconnectinterval"})
_OURS_ALONE: Final = ("routes.", "routing.", "journal.", "connectors.", "nats.", "mq.", "pipeline.", "state.")
_OPENED: Final = re.compile(r'[{\s"]*(\w+)"?\s*[:=]?\s*[{\[]')


def format_of(entries: Mapping[str, Entry]) -> Format | None:
    """The format of a file whose keys are not ours."""
    lines = (f"{key} {entry.value or ''}" for key, entry in entries.items())
    opened = {found[1].lower() for line in lines if (found := _OPENED.match(line))}
    if "bridge" in opened or any(_JMS_BRIDGE.fullmatch(key) for key in entries):
        return JMS_BRIDGE
    if opened & _NATS_MQ:
        return NATS_MQ
    if strimzi.is_newer(entries) and not any(key.startswith(_OURS_ALONE) for key in entries):
        return STRIMZI
    return None

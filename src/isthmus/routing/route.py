"""A route: which messages it takes, and what becomes of them.

Routes are tried in the order of the configuration, and the first one that matches takes the message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from isthmus.routing.predicate import Predicate


class OnError(StrEnum):
    """What follows a soft failure: one message that has no usable key, or cannot be converted."""

    STOP = "stop"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True, slots=True)
class Route:
    """Where the messages that match a predicate go, under which key and in which form."""

    name: str
    predicate: Predicate = field(repr=False)
    """Not in the repr: it may hold a value that was read from a secret. ``written`` is."""
    topic: str
    key: str | None = None
    """The canonical name of the header that becomes the Kafka key; None: the message id."""
    convert: str = "jms"
    on_error: OnError | None = None
    """None: what ``routing.on-error`` says."""
    written: str = field(default="", compare=False)
    """The predicate as the configuration has it, for people."""

"""A route: which messages it takes, and what becomes of them.

Routes are tried in the order of the configuration, and the first one that matches takes the message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from isthmus.routing.predicate import Predicate, parse

DIRECT = "direct"
"""The name of the route that ``message.convert`` makes."""


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
    """Empty for the direct route: the topic that the message's address names."""
    key: str | None = None
    """The canonical name of the header that becomes the Kafka key; None: the message id."""
    convert: str = "jms"
    """A built-in converter's name, or ``package.module:Class``."""
    on_error: OnError | None = None
    """None: what ``routing.on-error`` says."""
    written: str = field(default="", compare=False)
    """The predicate as the configuration has it, for people."""
    destination: str | None = None
    """The subject, queue or address for an edge to deliver to, if the topic is that edge's outbox."""

    @property
    def is_direct(self) -> bool:
        """Whether the message itself names the topic."""
        return not self.topic

    @property
    def has_own_converter(self) -> bool:
        """Whether a class of the user's converts, which takes Python and so micro-batches."""
        return ":" in self.convert


def direct_route(convert: str) -> Route:
    """The route behind all others: it takes any message in the journal, to the topic that its address names.

    A record of a source topic is in the topic of its name already.
    """
    everything = "exists(msg.address)"
    return Route(DIRECT, parse(everything), topic="", convert=convert, written=everything)


def topic_of_address(address: str) -> str:
    """The topic of the direct route: Kafka has no slashes in its names."""
    return address.replace("/", ".")

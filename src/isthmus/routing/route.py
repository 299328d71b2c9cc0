"""A route: which messages it takes, and what becomes of them.

Routes are tried in the order of the configuration, and the first one that matches takes the message.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache

from isthmus.converters.contract import NoBody
from isthmus.converters.registry import DESTINATION
from isthmus.routing.predicate import Predicate, parse

DIRECT = "direct"
"""The name of the route that ``message.convert`` makes."""
DESTINATIONS = "isthmus.destinations"
"""The name of the route to JMS destinations, where there is no direct one."""
TEMPORARY_PREFIX = "isthmus.temporary."
"""What the addresses of temporary queues begin with."""


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
    key_pattern: str | None = None
    """A regular expression that the whole key has to match."""
    no_body: NoBody = NoBody.NULL
    """What a message of the journal becomes that has no body."""
    for_destination: bool = False
    """Whether it takes nothing but what is sent to the JMS destination of its topic."""

    @property
    def is_direct(self) -> bool:
        """Whether the message itself names the topic."""
        return not self.topic

    @property
    def has_jms_headers(self) -> bool:
        """Whether its records have the message's headers, so that their key and partition are not chosen by
        its annotations."""
        return self.convert in ("jms", DESTINATION)

    @property
    def has_own_converter(self) -> bool:
        """Whether a class of the user's converts, which takes Python and so micro-batches."""
        return ":" in self.convert


@cache
def direct_route(convert: str) -> Route:
    """The route behind all others: it takes any message in the journal, to the topic that its address names.

    A record of a source topic is in the topic of its name already.
    """
    everything = "exists(msg.address)"
    return Route(DIRECT, parse(everything), topic="", convert=convert, written=everything)


@cache
def destinations_route() -> Route:
    """The same for JMS destinations alone: it takes no message by its predicate.

    Who is to have it nevertheless is said by `isthmus.routing.plan.RoutingPlan.keep_destinations`.
    """
    nothing = "!exists(msg.address)"
    return Route(DESTINATIONS, parse(nothing), topic="", convert=DESTINATION, written=nothing)


@cache
def destination_route(topic: str, convert: str) -> Route:
    """The same for one destination, whose topic a route of the file writes in a form of its own: whoever
    receives from it expects that form."""
    name = f"{DESTINATIONS}.{topic}"
    return replace(destinations_route(), name=name, topic=topic, convert=convert, for_destination=True)


@cache
def temporary_routes(topic: str, source_topics: tuple[str, ...]) -> tuple[Route, ...]:
    """The routes to temporary queues, all of which share a topic; the key says which queue it is.

    What an AMQP client sends there goes as it is, whatever its body. A Kafka client answers by setting
    ``jms.Destination`` on a record of a source topic.
    """
    text = rf"msg.address =~ '^{TEMPORARY_PREFIX.replace('.', '[.]')}'"
    routes = [_temporary("isthmus.temporary", text, topic, "raw")]
    if source_topics:
        answered = text.replace("msg.address", "msg.header.Destination")
        sources = ", ".join(f"'{each}'" for each in source_topics)
        routes.append(
            _temporary("isthmus.replies", f"msg.address in ({sources}) && {answered}", topic, "jms")
        )
    return tuple(routes)


def _temporary(name: str, predicate: str, topic: str, convert: str) -> Route:
    return Route(name, parse(predicate), topic, key="Destination", convert=convert, written=predicate)


def topic_of_address(address: str) -> str:
    """The topic of the direct route: Kafka has no slashes in its names."""
    return address.replace("/", ".")

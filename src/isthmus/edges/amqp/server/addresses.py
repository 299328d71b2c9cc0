"""Which addresses can be sent to: those that a route may take, and those of topics for the direct route.

Whether a route takes a message is known only with the message. An address counts as taken by a route unless
the route's predicate fails for it whatever the headers are, or depends on a pattern that only Java and
Python's own search can tell: see `isthmus.routing.search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from isthmus.config.model import values
from isthmus.kafka.admin import KafkaAdmin
from isthmus.message import Body, BodyKind, Message
from isthmus.routing.predicate import (
    Address,
    All,
    Any,
    Compare,
    Exists,
    HeaderField,
    Match,
    Not,
    OneOf,
    Predicate,
    matches,
)
from isthmus.routing.reserved import BY_PREFIX, ReservedTopics
from isthmus.routing.route import TEMPORARY_PREFIX, Route, topic_of_address
from isthmus.routing.search import found

QUEUE: Final = "queue"
"""The capability of a target that is a JMS queue."""
MAX_ADDRESS: Final = 1000
"""How many characters an address may have: four times what a topic's name may."""
KEPT: Final = 10_000
"""How many addresses are remembered; then they are asked for anew."""


class AddressBook(Protocol):
    """Knows which addresses there are."""

    def knows(self, address: str) -> bool:
        """Whether an address is known to be taken, without asking anyone."""
        ...

    async def find(self, address: str, *, queue: bool = False) -> str | None:
        """None if the address is taken, which may make it so; else why not, for people.

        ``queue`` is whether it is known to be that of a queue. Raises `HardFailure` when Kafka does not
        answer.
        """
        ...


class KafkaAddresses:
    """The addresses of a bridge's routes, and with ``direct`` those of Kafka's topics."""

    def __init__(
        self,
        admin: KafkaAdmin,
        routes: Sequence[Route],
        *,
        direct: bool,
        auto_create: bool,
        partitions: int = 4,
        queue_partitions: int = 1,
        reserved: ReservedTopics = BY_PREFIX,
    ) -> None:
        self._admin = admin
        self._routes = [route for route in routes if not route.is_direct]
        self._direct = direct or any(route.is_direct for route in routes)
        self._auto_create = auto_create
        self._partitions = partitions
        self._queue_partitions = queue_partitions
        self._reserved = reserved
        self._known: set[str] = set()

    def knows(self, address: str) -> bool:
        """Whether the address was found before, or is that of a temporary queue, here or elsewhere."""
        return address in self._known or address.startswith(TEMPORARY_PREFIX)

    async def find(self, address: str, *, queue: bool = False) -> str | None:
        """Look the address up; topics are made where that is allowed, for a queue with one partition."""
        if self.knows(address):
            return None
        if len(address) > MAX_ADDRESS:
            return f"{address!r:.300}: an address has no more than {MAX_ADDRESS} characters"
        if not any(_possible(route.predicate, address) is not False for route in self._routes):
            problem = await self._find_topic(address, queue) if self._direct else "no route takes it"
            if problem is not None:
                return f"{address!r:.300}: {problem}"
        if len(self._known) >= KEPT:  # routes may take any number of them
            self._known.clear()
        self._known.add(address)
        return None

    async def _find_topic(self, address: str, queue: bool) -> str | None:
        topic = topic_of_address(address)
        try:
            values.topic_name(topic)
        except ValueError as error:
            return f"no topic can have that name: {error}"
        if topic in self._reserved:
            return f"no message is published to {topic}, which Kafka or the bridge keeps for itself"
        if await self._admin.topic(topic) is None:
            if not self._auto_create:
                return f"there is no topic {topic}, and no route takes it"
            await self._admin.create_topic(topic, self._queue_partitions if queue else self._partitions)
        return None


def _possible(predicate: Predicate, address: str) -> bool | None:
    """Whether the predicate holds for a message to that address; None if that is not known yet."""
    match predicate:
        case All(terms):
            each = [_possible(term, address) for term in terms]
            return False if False in each else None if None in each else True
        case Any(terms):
            each = [_possible(term, address) for term in terms]
            return True if True in each else None if None in each else False
        case Not(term):
            inner = _possible(term, address)
            return None if inner is None else not inner
        case Match(Address(), pattern):
            return found(pattern, address)  # in a bounded time, which the address must not decide
        case Compare(field) | Match(field) | OneOf(field) | Exists(field):
            if isinstance(field, HeaderField):
                return None
            message = Message(id="", address=address, protocol="", value=None, body=Body(BodyKind.EMPTY))
            return matches(predicate, message)

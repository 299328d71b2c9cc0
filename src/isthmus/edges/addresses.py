"""Which addresses can be sent to: those that a route may take, and those that Kafka has a topic for.

Whether a route takes a message is known only with the message. An address counts as taken by a route unless
the route's predicate fails for it whatever the headers are. Of an address with a topic the journal is told
which one that is, for the router, which relies on it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple, Protocol

import re2

from isthmus.config.judgement.routing_plan import address_topic as address_topic
from isthmus.config.model import values
from isthmus.errors import HardFailure
from isthmus.journal.layout import AddressTopic, KafkaHeader, topic_header
from isthmus.kafka.admin import KafkaAdmin
from isthmus.message import Body, BodyKind, Message
from isthmus.routing.pattern import in_re2
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

JMS: Final = frozenset({"queue", "topic"})
"""The capabilities of a node that is a JMS destination."""
JMS_PARTITIONS: Final = 1
"""A JMS destination that the bridge makes has one: only then do its messages come in the order in which they
were sent. Any number of receivers have their part of it, or their copies."""
PARTITIONS: Final = 4
"""How many any other topic has that is made for an address."""
MAX_ADDRESS: Final = 1000
"""How many characters an address may have: four times what a topic's name may."""
KEPT: Final = 10_000
"""How many addresses are remembered; then they are asked for anew."""
REFRESH_S: Final = 10.0
"""How long what Kafka said of an address holds."""


class KnownAddress(NamedTuple):
    """An address that can be sent to."""

    topic: AddressTopic | None
    """The topic that it has; None if only routes take it."""
    header: KafkaHeader | None = None
    """The header that tells the router of it."""
    jms: bool = False
    """Whether it is known to be that of a JMS destination."""
    expires: float = math.inf
    """When Kafka is to be asked again, by the loop's clock."""


_ROUTED: Final = KnownAddress(None)


class AddressBook(Protocol):
    """Knows which addresses there are."""

    def known(self, address: str) -> KnownAddress | None:
        """An address that is known to be taken, without waiting for anyone; None if it is not any longer."""
        ...

    async def find(self, address: str, *, jms: bool = False) -> str | None:
        """None if the address is taken, which may make it so; else why not, for people.

        ``jms`` is whether it is known to be that of a JMS destination. Raises `HardFailure` when Kafka does
        not answer.
        """
        ...


class KafkaAddresses:
    """The addresses of a bridge's routes, and with ``direct`` or ``keep`` those of Kafka's topics.

    With ``keep`` a topic is a JMS destination: it gets what is sent to its address, whatever routes do. What
    Kafka says of a topic holds for some seconds; then it is asked again, so that a topic which is gone, or
    has changed, is noticed.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        routes: Sequence[Route],
        *,
        auto_create: bool,
        direct: bool = False,
        keep: bool = False,
        refuse: bool = True,
        partitions: int = PARTITIONS,
        reserved: ReservedTopics = BY_PREFIX,
        refresh_s: float = REFRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without ``refuse`` any address is taken: what becomes of a message is left to the router."""
        self._admin = admin
        self._routes = _tables(routes)
        self._direct = direct
        self._keep = keep
        self._refuse = refuse
        self._auto_create = auto_create
        self._partitions = partitions
        self._reserved = reserved
        self._refresh_s = refresh_s
        self._clock = clock
        self._known: dict[str, KnownAddress] = {}
        self._asking: dict[str, asyncio.Future[str | None]] = {}

    def change(self, *routes: Sequence[Route]) -> None:
        """Have other routes. Of several lists, an address must be one that each of them may take."""
        self._routes = _tables(*routes)
        self._known.clear()

    def known(self, address: str) -> KnownAddress | None:
        """One that was found a short time ago, or that of a temporary queue, here or elsewhere.

        One that is in use is looked up again in good time, and holds while Kafka is slow to answer: nobody's
        messages wait for what others ask of Kafka.
        """
        found = self._known.get(address)
        if found is None:
            return _ROUTED if address.startswith(TEMPORARY_PREFIX) else None
        left_s = found.expires - self._clock()
        if left_s > self._refresh_s / 2:
            return found
        if left_s > 0:
            self._ask(address, found.jms)
        return found if left_s > 0 or (address in self._asking and left_s > -self._refresh_s) else None

    async def find(self, address: str, *, jms: bool = False) -> str | None:
        """Look the address up; topics are made where that is allowed."""
        if self.known(address) is not None:
            return None
        if len(address) > MAX_ADDRESS:
            return f"{address!r:.300}: an address has no more than {MAX_ADDRESS} characters"
        return await asyncio.shield(self._ask(address, jms))

    def _ask(self, address: str, jms: bool) -> asyncio.Future[str | None]:
        asking = self._asking.get(address)
        if asking is None:  # those who ask at the same time share one answer
            asking = self._asking[address] = asyncio.ensure_future(self._find(address, jms))
            asking.add_done_callback(partial(self._asked, address))
        return asking

    def _asked(self, address: str, asking: asyncio.Future[str | None]) -> None:
        del self._asking[address]
        if not asking.cancelled():
            asking.exception()  # whoever asked may be gone

    async def _find(self, address: str, jms: bool) -> str | None:
        old = self._known.get(address)
        jms = jms or (old is not None and old.jms)
        try:
            topic, problem = await self._look_up(address, jms)
        except HardFailure:
            if old is None:
                raise
            topic, problem = old.topic, None  # while Kafka does not answer, nobody can have changed anything
        if problem is not None:
            self._known.pop(address, None)
            return f"{address!r:.300}: {problem}"
        if len(self._known) >= KEPT:  # routes may take any number of them
            self._known.clear()
        header = None if topic is None else topic_header(topic)
        self._known[address] = KnownAddress(topic, header, jms, self._clock() + self._refresh_s)
        return None

    async def _look_up(self, address: str, jms: bool) -> tuple[AddressTopic | None, str | None]:
        """The topic of an address, if it has one; and why the address is not taken."""
        possible = [[_possible(each, address) for each in table] for table in self._routes]
        routed = not self._refuse or all(True in each or None in each for each in possible)
        if not self._keep and (all(True in each for each in possible) or not self._direct):
            return None, None if routed else "no route takes it"
        found = await self._find_topic(address, jms=jms, create=self._keep or not routed)
        if isinstance(found, str):
            return None, None if routed else found
        return found, None

    async def _find_topic(self, address: str, *, jms: bool, create: bool) -> AddressTopic | str:
        topic = topic_of_address(address)
        try:
            values.topic_name(topic)
        except ValueError as error:
            return f"no topic can have that name: {error}"
        if topic in self._reserved:
            return f"no message is published to {topic}, which Kafka or the bridge keeps for itself"
        facts = await self._admin.describe(topic)
        if facts is None and create and self._auto_create:
            await self._admin.create_topic(topic, JMS_PARTITIONS if jms else self._partitions)
            facts = await self._admin.describe(topic)
        if facts is None:
            return f"there is no topic {topic}, and no route takes it"
        if not facts.writable:
            return f"the bridge may not write the topic {topic}"
        return address_topic(topic, facts, keep=self._keep)


def _tables(*routes: Sequence[Route]) -> list[list[Predicate]]:
    return [[route.predicate for route in each if not route.is_direct] for each in routes]


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
            return _search(pattern)(address) is not None
        case Compare(field) | Match(field) | OneOf(field) | Exists(field):
            if isinstance(field, HeaderField):
                return None
            message = Message(id="", address=address, protocol="", value=None, body=Body(BodyKind.EMPTY))
            return matches(predicate, message)


@lru_cache(maxsize=1_000)
def _search(pattern: str) -> Callable[[str], object | None]:
    """Finds a route's pattern in addresses, which anybody may choose: RE2 reads each once."""
    search: Callable[[str], object | None] = re2.compile(in_re2(pattern)).search
    return search

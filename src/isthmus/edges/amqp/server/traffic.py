"""What went over the links of an AMQP server, by address, and how a server stands in numbers.

A link is given its `LinkTraffic` when it is opened and adds to that, so that a message costs no look-up.
Clients choose addresses, so those beyond a limit are counted together, and temporary queues are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from isthmus.routing.route import TEMPORARY_PREFIX
from isthmus.telemetry.parts import AddressTraffic

MOST_ADDRESSES: Final = 1_000
ANONYMOUS, OTHERS, TEMPORARY = "(anonymous)", "(others)", "(temporary)"
"""The address of links to the anonymous relay, of those beyond the limit, and of temporary queues."""
INCOMING: Final = "in"
OUTGOING: Final = "out"


class LinkTraffic:
    """What went over the links of one address in one direction, over all the time."""

    __slots__ = ("bytes", "links", "messages")

    def __init__(self) -> None:
        self.links = 0
        """How many there are now."""
        self.messages = 0
        self.bytes = 0

    def add(self, messages: int, size: int) -> None:
        """Count messages, however many at a time."""
        self.messages += messages
        self.bytes += size


class Traffic:
    """That of all links of a server."""

    def __init__(self, most: int = MOST_ADDRESSES) -> None:
        self._most = most
        self._by_address: dict[tuple[str, str], LinkTraffic] = {}

    def join(self, direction: str, address: str) -> LinkTraffic:
        """Where a link counts that is opened. It takes itself off ``links`` when it is closed."""
        shown = TEMPORARY if address.startswith(TEMPORARY_PREFIX) else address or ANONYMOUS
        if (direction, shown) not in self._by_address and len(self._by_address) >= self._most:
            shown = OTHERS
        traffic = self._by_address.setdefault((direction, shown), LinkTraffic())
        traffic.links += 1
        return traffic

    def reports(self) -> list[AddressTraffic]:
        """All of it. May be called from another thread."""
        return [
            AddressTraffic(direction, address, each.links, each.messages, each.bytes)
            for (direction, address), each in self._by_address.copy().items()
        ]


class ServerFigures(msgspec.Struct, frozen=True):
    """How one process of a server stands."""

    counts: dict[str, int]
    """What it has counted since its start; ``connections`` are those of now."""
    links: list[AddressTraffic]
    transactions: int = 0
    """How many are open."""
    oldest_transaction_s: float = 0.0

    def after_its_end(self) -> ServerFigures:
        """What still counts when the process is gone."""
        gone = [msgspec.structs.replace(each, links=0) for each in self.links]
        return ServerFigures({name: n for name, n in self.counts.items() if name != "connections"}, gone)


def together(figures: Iterable[ServerFigures]) -> ServerFigures:
    """Those of all processes of a server."""
    all_figures = list(figures)
    links: dict[tuple[str, str], AddressTraffic] = {}
    for each in (link for one in all_figures for link in one.links):
        have = links.get((each.direction, each.address), AddressTraffic(each.direction, each.address))
        links[each.direction, each.address] = AddressTraffic(
            each.direction,
            each.address,
            have.links + each.links,
            have.messages + each.messages,
            have.bytes + each.bytes,
        )
    return ServerFigures(
        Counter[str]() + sum((Counter(each.counts) for each in all_figures), Counter()),
        list(links.values()),
        sum(each.transactions for each in all_figures),
        max((each.oldest_transaction_s for each in all_figures), default=0.0),
    )

"""Links that outlive their session or connection, for clients that resume them (2.6.13).

A client that lost its connection opens another with the same container id, attaches a link of the same name,
and says which deliveries it knows to be unsettled. Until then they are kept, with the locks that Kafka has on
them and within the bytes that receivers may have. Who does not come in time has them redelivered; and if too
many links are kept, the oldest goes first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from isthmus.edges.amqp.protocol.terms import Source, Target

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.contract import Client
    from isthmus.edges.amqp.server.link import ServerLink

RESUMABLE_S: Final = 60
"""How long a link is kept at most."""
MAX_KEPT: Final = 1000
MAX_KEPT_BYTES: Final = 8 * 2**20
"""What is kept of them at most, beside the messages of receivers."""
LINK_DETACH: Final = "link-detach"
"""The expiry policy of a terminus of which nothing is kept."""
CONNECTION_CLOSE: Final = "connection-close"
NEVER: Final = "never"

T = TypeVar("T", Source, Target)


def granted(terminus: T) -> T:
    """A terminus that lasts no longer than links are kept, for what it asks."""
    if terminus.expiry_policy == NEVER:
        return replace(terminus, expiry_policy=CONNECTION_CLOSE, timeout=RESUMABLE_S)
    return replace(terminus, timeout=min(terminus.timeout, RESUMABLE_S))


def lasts_s(terminus: Source | Target, *, connected: bool) -> float:
    """How long a terminus that was granted outlives its session, or if not ``connected`` its connection."""
    if terminus.expiry_policy == LINK_DETACH:
        return 0.0
    if connected and terminus.expiry_policy == CONNECTION_CLOSE:
        return RESUMABLE_S
    return terminus.timeout


class LinkKey(NamedTuple):
    """What tells links apart, whatever connection they are of."""

    user: str
    container_id: str
    name: str
    role: bool

    @classmethod
    def of(cls, client: Client, name: str, role: bool) -> LinkKey:
        """The key of a client's link."""
        return cls(client.identity.user, client.container_id, name, role)


class SuspendedLinks:
    """The links that are kept. To be used on one event loop."""

    def __init__(self, max_kept: int = MAX_KEPT, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept = max_kept
        self._max_bytes = max_bytes
        self._links: dict[LinkKey, tuple[ServerLink, asyncio.TimerHandle]] = {}

    def keep(self, key: LinkKey, link: ServerLink, seconds: float) -> None:
        """Keep a link for so long, unless it is taken. One of the same key gives way."""
        self._expire(key)
        room = self._max_bytes - link.kept_bytes
        while len(self._links) >= self._max_kept or (self._links and self._kept_bytes > room):
            self._expire(next(iter(self._links)))
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, key)
        self._links[key] = link, timer

    def take(self, key: LinkKey) -> ServerLink | None:
        """Hand a link over to whoever resumes it."""
        link, timer = self._links.pop(key, (None, None))
        if timer is not None:
            timer.cancel()
        return link

    def close(self) -> None:
        """Keep none any longer."""
        for key in list(self._links):
            self._expire(key)

    @property
    def _kept_bytes(self) -> int:
        return sum(link.kept_bytes for link, _ in self._links.values())

    def _expire(self, key: LinkKey) -> None:
        link = self.take(key)
        if link is not None:
            link.expire()

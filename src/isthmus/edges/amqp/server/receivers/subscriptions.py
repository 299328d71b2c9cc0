"""JMS subscriptions: their names, what each was made with, and who receives from it.

A subscription that others share, or that its client comes back to, is a consumer group::

    jms:<client id>:<name>             durable
    jms:<client id>:<name>:volatile    shared and not durable

Clients without a client id of their own (capability ``global``) share the name with all such: the id in the
group is then empty. A client library that needs several links for one subscription puts ``|`` and something
behind the name.

Topic, selector, no-local and user are committed with the group's offsets, as a note. Who asks for the name
with another topic, selector or no-local gets a new subscription, and the backlog of the old one is gone; he
is refused while somebody receives from it. Another user is refused in any case.

An unshared subscription has one consumer in all processes of a bridge: its group is a name that one process
holds. One that another is about to let go of, since its connection was lost, is waited for.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus.edges.amqp.protocol.conditions import (
    NOT_ALLOWED,
    NOT_FOUND,
    RESOURCE_LOCKED,
    UNAUTHORIZED_ACCESS,
)
from isthmus.edges.amqp.protocol.terms import Source
from isthmus.edges.amqp.server.contract import Client
from isthmus.edges.amqp.server.receivers.admin import ReceiverAdmin
from isthmus.edges.amqp.server.receivers.filters import Filters
from isthmus.errors import Refused
from isthmus.kafka.name_locks import NameLocks

SHARED: Final = "shared"
GLOBAL: Final = "global"
NEVER: Final = "never"
_LINK_MARK: Final = "|"
_PREFIX: Final = "jms"
_VOLATILE: Final = "volatile"
_LOCKED: Final = "somebody receives from the subscription already"
_POLL_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a subscription was made with."""

    topic: str
    shared: bool
    selector: str
    """The digest of its selector; empty without one."""
    no_local: bool
    user: str
    """Whose it is; empty without users."""

    @property
    def note(self) -> str:
        """What is committed with the offsets."""
        terms = {
            "shared": self.shared,
            "selector": self.selector,
            "noLocal": self.no_local,
            "user": self.user,
        }
        return json.dumps(terms, separators=(",", ":"))

    @classmethod
    def read(cls, topic: str, note: str) -> Terms | None:
        """The terms of a group; None if it was not made as a subscription, or by an older version."""
        try:
            found = json.loads(note)
            return cls(
                topic=topic,
                shared=bool(found["shared"]),
                selector=str(found["selector"]),
                no_local=bool(found["noLocal"]),
                user=str(found["user"]),
            )
        except (ValueError, TypeError, KeyError):
            return None


class Subscription(NamedTuple):
    """A subscription by its group."""

    group: str
    durable: bool


def subscription_of(source: Source, link_name: str, client: Client) -> Subscription | None:
    """The subscription that a receiver of a JMS topic asks for; None if it is the receiver's alone."""
    durable = source.durable > 0 or source.expiry_policy == NEVER
    if not durable and SHARED not in source.capabilities:
        return None
    name = group_name(link_name, "" if GLOBAL in source.capabilities else client.container_id)
    return Subscription(name if durable else f"{name}:{_VOLATILE}", durable)


def terms_of(source: Source, topic: str, filters: Filters, client: Client) -> Terms:
    """What a receiver asks a subscription for."""
    return Terms(
        topic=topic,
        shared=SHARED in source.capabilities,
        selector="" if filters.selector is None else filters.selector.digest,
        no_local=filters.no_local,
        user=_user(client),
    )


def group_name(link_name: str, client_id: str) -> str:
    """The group of a durable subscription."""
    return f"{_PREFIX}:{client_id}:{link_name.partition(_LINK_MARK)[0]}"


class Subscriptions:
    """The subscriptions that receivers of this process use."""

    def __init__(self, groups: ReceiverAdmin, locks: NameLocks, *, patience_s: float = 2.0) -> None:
        """``locks`` holds unshared subscriptions, for ``patience_s`` at most it is waited for one."""
        self._groups = groups
        self._locks = locks
        self._patience_s = patience_s
        self._receivers: Counter[str] = Counter()
        """How many receive from a subscription, by its group."""

    def in_use(self) -> dict[str, int]:
        """How many receive from each subscription that somebody receives from, by its group."""
        return {group: count for group, count in self._receivers.items() if count > 0}

    async def open(
        self, group: str, terms: Terms, partitions: Collection[int], on_lost: Callable[[Refused], None]
    ) -> bool:
        """Receive from a subscription, which is made if need be: then it is True. Raises `Refused`, or
        `HardFailure`.

        ``on_lost`` is called should another process turn out to receive from it.
        """
        if not terms.shared:
            await self._lock(group, lambda: on_lost(Refused(RESOURCE_LOCKED, _LOCKED)))
        self._receivers[group] += 1
        try:
            return await self._make(group, terms, partitions)
        except BaseException:
            await self._release(group)
            raise

    async def close(self, group: str, *, detached: bool) -> None:
        """Receive no more; unless the client may come back the subscription ends, if others are not in it."""
        is_last = self._receivers[group] == 1
        try:
            if is_last and not detached:
                await self._groups.delete(group)
        finally:
            await self._release(group)

    async def find(self, link_name: str, client: Client, *, shares_name: bool) -> tuple[str, str]:
        """Group and topic of a durable subscription that is to be ended. Raises `Refused`."""
        group = group_name(link_name, "" if shares_name else client.container_id)
        begun = await self._groups.begun(group)
        if begun is None:
            raise Refused(NOT_FOUND, f"there is no subscription {link_name!r:.300}")
        topic, note = begun
        terms = Terms.read(topic, note)
        _check_user(terms, _user(client))
        if not client.may_receive(topic):
            raise Refused(UNAUTHORIZED_ACCESS, f"you may not receive from {topic!r:.300}")
        if self._receivers[group] or await self._groups.has_members(group):
            raise Refused(RESOURCE_LOCKED, "somebody receives from the subscription")
        return group, topic

    async def end(self, group: str, *, detached: bool) -> None:
        """End a durable subscription, unless the client has thought better of it."""
        if not detached:
            await self._groups.delete(group)

    async def _lock(self, group: str, on_lost: Callable[[], None]) -> None:
        deadline = asyncio.get_running_loop().time() + self._patience_s
        while self._receivers[group] or not await self._locks.take(group, on_lost):
            if asyncio.get_running_loop().time() >= deadline:
                raise Refused(RESOURCE_LOCKED, _LOCKED)
            await asyncio.sleep(_POLL_S)

    async def _release(self, group: str) -> None:
        self._receivers[group] -= 1
        if not self._receivers[group]:
            del self._receivers[group]
            await self._locks.give_up(group)

    async def _make(self, group: str, terms: Terms, partitions: Collection[int]) -> bool:
        begun = await self._groups.begun(group)
        found = None if begun is None else Terms.read(*begun)
        _check_user(found, terms.user)
        if found is not None and found.shared != terms.shared:
            raise Refused(NOT_ALLOWED, "the name is that of a subscription which is shared, or which is not")
        if found is not None and found != terms:
            if self._receivers[group] > 1 or await self._groups.has_members(group):
                raise Refused(RESOURCE_LOCKED, "others receive with another topic or selector")
            await self._groups.delete(group)
        await self._groups.begin(terms.topic, partitions, group, terms.note)
        return found != terms


def _user(client: Client) -> str:
    return "" if client.user is None else client.user.name


def _check_user(terms: Terms | None, user: str) -> None:
    if terms is not None and terms.user != user:
        raise Refused(UNAUTHORIZED_ACCESS, "the subscription is another user's")

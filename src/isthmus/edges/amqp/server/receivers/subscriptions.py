"""JMS subscriptions: their names, and where each begins.

A subscription that others share, or that its client comes back to, is a consumer group::

    jms:<client id>:<name>             durable
    jms:<client id>:<name>:volatile    shared and not durable

Clients without a client id of their own (capability ``global``) share the name with all such: the id in the
group is then empty. A client library that needs several links for one subscription puts ``|`` and something
behind the name.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from isthmus.edges.amqp.protocol.terms import Source
from isthmus.edges.amqp.server.contract import Client

SHARED: Final = "shared"
GLOBAL: Final = "global"
NEVER: Final = "never"
_LINK_MARK: Final = "|"
_PREFIX: Final = "jms"
_VOLATILE: Final = "volatile"


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


def group_name(link_name: str, client_id: str) -> str:
    """The group of a durable subscription."""
    return f"{_PREFIX}:{client_id}:{link_name.partition(_LINK_MARK)[0]}"

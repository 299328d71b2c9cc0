"""What a receiver asks for: a topic and a consumer group, a JMS queue, or a JMS topic.

=====================================  ===============================================================
source                                 is
=====================================  ===============================================================
``orders/eu/group.id/billing``         topic ``orders.eu``, consumer group ``billing``
``orders`` with capability ``queue``   a JMS queue: topic ``orders``, shared by its receivers
``orders``                             the same, if the configuration says so; else refused
``orders`` with capability ``topic``   a JMS topic: topic ``orders``, all of it for every subscription
``isthmus.temporary.…``                a temporary queue of this connection
=====================================  ===============================================================

The first ``/group.id/`` splits; slashes after it are the group's own. Nobody names a group of the bridge, of
a queue or of a subscription: those say who has a client id, and what a subscriber has had.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from isthmus.edges.amqp.protocol.conditions import UNAUTHORIZED_ACCESS
from isthmus.edges.amqp.protocol.terms import Source
from isthmus.edges.amqp.server.contract import ERROR_PREFIX
from isthmus.edges.amqp.server.nodes import TEMPORARY_QUEUE, TEMPORARY_TOPIC
from isthmus.errors import Refused
from isthmus.routing.route import TEMPORARY_PREFIX, topic_of_address

GROUP_MARK: Final = "/group.id/"
NO_GROUP_ID: Final = f"{ERROR_PREFIX}no-group-id"
RESERVED_GROUPS: Final = ("isthmus.", "jms:", "jms-queue:")
"""What the groups of any bridge begin with, those of its subscriptions and those of its queues."""
COPY: Final = "copy"
"""The distribution mode of those who look at a queue, and take nothing from it."""


class Kind(Enum):
    """How records of a topic are shared out."""

    GROUP = "group"
    """Among the receivers of a consumer group."""
    QUEUE = "queue"
    """Among all receivers, each record to one of them."""
    TOPIC = "topic"
    """To every subscription."""
    BROWSER = "browser"
    """To whoever looks, who takes nothing."""
    TEMPORARY = "temporary"
    """To the connection that made the queue."""


_KINDS: Final = {
    "queue": Kind.QUEUE,
    "topic": Kind.TOPIC,
    TEMPORARY_QUEUE: Kind.TEMPORARY,
    TEMPORARY_TOPIC: Kind.TEMPORARY,
}


class Origin(NamedTuple):
    """Where a receiver's messages come from."""

    kind: Kind
    address: str
    """As the client wrote it: what its messages are addressed to."""
    topic: str
    """Empty for a temporary queue."""
    group: str = ""


def origin_of(source: Source, *, bare_is_queue: bool = False) -> Origin:
    """What a source asks for. Raises `Refused`.

    ``bare_is_queue``: an address with neither a capability nor a group is a queue, as brokers have it.
    """
    address = source.address or ""
    kind = next((_KINDS[each] for each in source.capabilities if each in _KINDS), Kind.GROUP)
    if address.startswith(TEMPORARY_PREFIX) or kind is Kind.TEMPORARY:
        return Origin(Kind.TEMPORARY, address, "")
    topic, mark, group = address.partition(GROUP_MARK)
    if mark:
        kind = Kind.GROUP
    elif kind is Kind.GROUP and bare_is_queue:
        kind = Kind.QUEUE
    if kind is Kind.GROUP and not mark:
        raise Refused(NO_GROUP_ID, "Mandatory group.id not specified in the address")
    if kind is Kind.QUEUE and source.distribution_mode == COPY:
        kind = Kind.BROWSER
    if not topic:
        raise Refused(NO_GROUP_ID, "Empty topic in specified address")
    if mark and not group:
        raise Refused(NO_GROUP_ID, "Empty consumer group in specified address")
    if group.startswith(RESERVED_GROUPS):
        raise Refused(
            UNAUTHORIZED_ACCESS, f"the group {group!r:.300} is one that the bridge keeps for itself"
        )
    return Origin(kind, address, topic_of_address(topic), group)

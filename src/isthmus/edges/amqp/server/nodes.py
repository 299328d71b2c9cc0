"""Nodes that links make: what a client may ask of one, and what it gets (3.5.9 to 3.5.13)."""

from __future__ import annotations

from typing import Any, Final

from isthmus.codecs.amqp import Array, Symbol
from isthmus.edges.amqp.protocol.composite import Composite, interpret
from isthmus.edges.amqp.protocol.conditions import INVALID_FIELD
from isthmus.edges.amqp.protocol.terms import LIFETIME_POLICIES, DeleteOnClose, Source, Target
from isthmus.errors import Refused

TEMPORARY_QUEUE: Final = "temporary-queue"
TEMPORARY_TOPIC: Final = "temporary-topic"
"""The capabilities of JMS' temporary destinations."""
_LIFETIME: Final = Symbol("lifetime-policy")
_ON_CLOSE: Final = DeleteOnClose()


def is_jms(terminus: Source | Target) -> bool:
    """Whether a node is a temporary destination of JMS', which is its connection's alone."""
    return TEMPORARY_QUEUE in terminus.capabilities or TEMPORARY_TOPIC in terminus.capabilities


def lifetime_of(terminus: Source | Target) -> Composite:
    """The lifetime policy that a dynamic node gets: what is asked for, but of JMS' it goes with its link.

    Raises `Refused` for properties that are not of their type.
    """
    asked = terminus.dynamic_node_properties or {}
    policy, modes = asked.get("lifetime-policy"), asked.get("supported-dist-modes")
    lifetime = _ON_CLOSE if policy is None else interpret(policy)
    if not isinstance(lifetime, LIFETIME_POLICIES):
        raise Refused(INVALID_FIELD, f"{policy!r:.100} is not a lifetime policy")
    of_symbols = isinstance(modes, Symbol) or (isinstance(modes, Array) and modes.type == "symbol")
    if modes is not None and not of_symbols:
        raise Refused(INVALID_FIELD, f"{modes!r:.100} are not distribution modes")
    return _ON_CLOSE if is_jms(terminus) else lifetime


def node_properties(lifetime: Composite) -> dict[Any, Any]:
    """What a client is told of the node that was made."""
    return {_LIFETIME: lifetime.described()}

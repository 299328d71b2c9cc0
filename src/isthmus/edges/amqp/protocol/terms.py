"""What links and deliveries speak of: errors, sources and targets, delivery states, transactions.

Parts 2.8, 3.4, 3.5 and 4.5 of the specification. Filters and dynamic-node-properties stay as they came.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from isthmus.edges.amqp.protocol.composite import Composite


class Error(Composite, frozen=True):
    """error: why a link, session, connection or message failed."""

    CODE: ClassVar[int] = 0x1D
    SYMBOL: ClassVar[str] = "amqp:error:list"
    WIRE: ClassVar[tuple[str, ...]] = ("symbol!", "string", "map")

    condition: str
    description: str | None = None
    info: dict[Any, Any] | None = None


class Received(Composite, frozen=True):
    """received: how much of a delivery has arrived. Not terminal."""

    CODE: ClassVar[int] = 0x23
    SYMBOL: ClassVar[str] = "amqp:received:list"
    WIRE: ClassVar[tuple[str, ...]] = ("uint!", "ulong!")

    section_number: int
    section_offset: int


class Accepted(Composite, frozen=True):
    """accepted: the message has a new owner."""

    CODE: ClassVar[int] = 0x24
    SYMBOL: ClassVar[str] = "amqp:accepted:list"
    WIRE: ClassVar[tuple[str, ...]] = ()


class Rejected(Composite, frozen=True):
    """rejected: the message is invalid and cannot be processed."""

    CODE: ClassVar[int] = 0x25
    SYMBOL: ClassVar[str] = "amqp:rejected:list"
    WIRE: ClassVar[tuple[str, ...]] = ("error",)

    error: Error | None = None


class Released(Composite, frozen=True):
    """released: the message was not, and will not be, processed."""

    CODE: ClassVar[int] = 0x26
    SYMBOL: ClassVar[str] = "amqp:released:list"
    WIRE: ClassVar[tuple[str, ...]] = ()


class Modified(Composite, frozen=True):
    """modified: not processed; the message changes as it says."""

    CODE: ClassVar[int] = 0x27
    SYMBOL: ClassVar[str] = "amqp:modified:list"
    WIRE: ClassVar[tuple[str, ...]] = ("boolean", "boolean", "map")

    delivery_failed: bool = False
    undeliverable_here: bool = False
    message_annotations: dict[Any, Any] | None = None


class Source(Composite, frozen=True):
    """source: where messages of a link come from."""

    CODE: ClassVar[int] = 0x28
    SYMBOL: ClassVar[str] = "amqp:source:list"
    WIRE: ClassVar[tuple[str, ...]] = (
        "string", "uint", "symbol", "uint", "boolean", "map", "symbol", "map", "*", "symbol[]", "symbol[]",
    )  # fmt: skip

    address: str | None = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Any, Any] | None = None
    distribution_mode: str | None = None
    filter: dict[Any, Any] | None = None
    default_outcome: object = None
    outcomes: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


class Target(Composite, frozen=True):
    """target: where messages of a link go to."""

    CODE: ClassVar[int] = 0x29
    SYMBOL: ClassVar[str] = "amqp:target:list"
    WIRE: ClassVar[tuple[str, ...]] = (
        "string", "uint", "symbol", "uint", "boolean", "map", "symbol[]",
    )  # fmt: skip

    address: str | None = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Any, Any] | None = None
    capabilities: tuple[str, ...] = ()


class DeleteOnClose(Composite, frozen=True):
    """delete-on-close: a dynamic node lives as long as the link that made it."""

    CODE: ClassVar[int] = 0x2B
    SYMBOL: ClassVar[str] = "amqp:delete-on-close:list"


class DeleteOnNoLinks(Composite, frozen=True):
    """delete-on-no-links: a dynamic node lives as long as it has links."""

    CODE: ClassVar[int] = 0x2C
    SYMBOL: ClassVar[str] = "amqp:delete-on-no-links:list"


class DeleteOnNoMessages(Composite, frozen=True):
    """delete-on-no-messages: a dynamic node lives as long as it has messages."""

    CODE: ClassVar[int] = 0x2D
    SYMBOL: ClassVar[str] = "amqp:delete-on-no-messages:list"


class DeleteOnNoLinksOrMessages(Composite, frozen=True):
    """delete-on-no-links-or-messages: a dynamic node lives as long as it has either."""

    CODE: ClassVar[int] = 0x2E
    SYMBOL: ClassVar[str] = "amqp:delete-on-no-links-or-messages:list"


class Coordinator(Composite, frozen=True):
    """coordinator: the target of a link that controls transactions."""

    CODE: ClassVar[int] = 0x30
    SYMBOL: ClassVar[str] = "amqp:coordinator:list"
    WIRE: ClassVar[tuple[str, ...]] = ("symbol[]",)

    capabilities: tuple[str, ...] = ()


class Declare(Composite, frozen=True):
    """declare: begin a transaction. The body of a message to the coordinator."""

    CODE: ClassVar[int] = 0x31
    SYMBOL: ClassVar[str] = "amqp:declare:list"
    WIRE: ClassVar[tuple[str, ...]] = ("*",)

    global_id: object = None


class Discharge(Composite, frozen=True):
    """discharge: end a transaction. The body of a message to the coordinator."""

    CODE: ClassVar[int] = 0x32
    SYMBOL: ClassVar[str] = "amqp:discharge:list"
    WIRE: ClassVar[tuple[str, ...]] = ("binary!", "boolean")

    txn_id: bytes
    fail: bool = False


class Declared(Composite, frozen=True):
    """declared: the outcome of declare."""

    CODE: ClassVar[int] = 0x33
    SYMBOL: ClassVar[str] = "amqp:declared:list"
    WIRE: ClassVar[tuple[str, ...]] = ("binary!",)

    txn_id: bytes


class TransactionalState(Composite, frozen=True):
    """transactional-state: what a delivery's state will be once the transaction commits."""

    CODE: ClassVar[int] = 0x34
    SYMBOL: ClassVar[str] = "amqp:transactional-state:list"
    WIRE: ClassVar[tuple[str, ...]] = ("binary!", "*")

    txn_id: bytes
    outcome: object = None


ACCEPTED: Final = Accepted()
RELEASED: Final = Released()

OUTCOMES: Final = (Accepted, Rejected, Released, Modified)
LIFETIME_POLICIES: Final = (DeleteOnClose, DeleteOnNoLinks, DeleteOnNoMessages, DeleteOnNoLinksOrMessages)
DELIVERY_STATES: Final = (*OUTCOMES, Received, Declared, TransactionalState)
"""What may stand in the state of a transfer or disposition."""

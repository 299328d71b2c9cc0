"""The performatives (part 2, 2.7) and the frames of SASL (part 5, 5.3.3) as structs.

Numbers are plain integers here; the wire's own types are in ``WIRE``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from isthmus.edges.amqp.protocol.composite import Composite
from isthmus.edges.amqp.protocol.terms import Error

TRANSFER: Final = 0x14
UINT_MAX: Final = 0xFFFF_FFFF
SENDER: Final = False
RECEIVER: Final = True

UNSETTLED, SETTLED, MIXED = 0, 1, 2
"""snd-settle-mode."""
FIRST, SECOND = 0, 1
"""rcv-settle-mode."""


class Open(Composite, frozen=True):
    """open: negotiate connection parameters."""

    CODE: ClassVar[int] = 0x10
    SYMBOL: ClassVar[str] = "amqp:open:list"
    WIRE: ClassVar[tuple[str, ...]] = (
        "string!", "string", "uint", "ushort", "uint", "symbol[]", "symbol[]", "symbol[]", "symbol[]", "map",
    )  # fmt: skip

    container_id: str
    hostname: str | None = None
    max_frame_size: int = UINT_MAX
    channel_max: int = 0xFFFF
    idle_time_out: int | None = None
    outgoing_locales: tuple[str, ...] = ()
    incoming_locales: tuple[str, ...] = ()
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: dict[Any, Any] | None = None


class Begin(Composite, frozen=True, kw_only=True):
    """begin: begin a session on a channel."""

    CODE: ClassVar[int] = 0x11
    SYMBOL: ClassVar[str] = "amqp:begin:list"
    WIRE: ClassVar[tuple[str, ...]] = (
        "ushort", "uint!", "uint!", "uint!", "uint", "symbol[]", "symbol[]", "map",
    )  # fmt: skip

    remote_channel: int | None = None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = UINT_MAX
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: dict[Any, Any] | None = None


class Attach(Composite, frozen=True):
    """attach: attach a link to a session."""

    CODE: ClassVar[int] = 0x12
    SYMBOL: ClassVar[str] = "amqp:attach:list"
    WIRE: ClassVar[tuple[str, ...]] = (
        "string!", "uint!", "boolean!", "ubyte", "ubyte", "*", "*", "map", "boolean", "uint", "ulong",
        "symbol[]", "symbol[]", "map",
    )  # fmt: skip

    name: str
    handle: int
    role: bool
    snd_settle_mode: int = MIXED
    rcv_settle_mode: int = FIRST
    source: object = None
    target: object = None
    unsettled: dict[Any, Any] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int = 0
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: dict[Any, Any] | None = None


class Flow(Composite, frozen=True, kw_only=True):
    """flow: update the state of a session, and of a link if a handle is given."""

    CODE: ClassVar[int] = 0x13
    SYMBOL: ClassVar[str] = "amqp:flow:list"
    WIRE: ClassVar[tuple[str, ...]] = (
        "uint", "uint!", "uint!", "uint!", "uint", "uint", "uint", "uint", "boolean", "boolean", "map",
    )  # fmt: skip

    next_incoming_id: int | None = None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: dict[Any, Any] | None = None


class Transfer(Composite, frozen=True):
    """transfer: (a part of) a message. Read and written by the session itself, for speed."""

    CODE: ClassVar[int] = TRANSFER
    SYMBOL: ClassVar[str] = "amqp:transfer:list"
    WIRE: ClassVar[tuple[str, ...]] = (
        "uint!", "uint", "binary", "uint", "boolean", "boolean", "ubyte", "*", "boolean", "boolean",
        "boolean",
    )  # fmt: skip

    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool = False
    rcv_settle_mode: int | None = None
    state: object = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False


class Disposition(Composite, frozen=True):
    """disposition: the state of deliveries."""

    CODE: ClassVar[int] = 0x15
    SYMBOL: ClassVar[str] = "amqp:disposition:list"
    WIRE: ClassVar[tuple[str, ...]] = ("boolean!", "uint!", "uint", "boolean", "*", "boolean")

    role: bool
    first: int
    last: int | None = None
    settled: bool = False
    state: object = None
    batchable: bool = False


class Detach(Composite, frozen=True):
    """detach: detach a link from its session; closed ends the link for good."""

    CODE: ClassVar[int] = 0x16
    SYMBOL: ClassVar[str] = "amqp:detach:list"
    WIRE: ClassVar[tuple[str, ...]] = ("uint!", "boolean", "error")

    handle: int
    closed: bool = False
    error: Error | None = None


class End(Composite, frozen=True):
    """end: end the session."""

    CODE: ClassVar[int] = 0x17
    SYMBOL: ClassVar[str] = "amqp:end:list"
    WIRE: ClassVar[tuple[str, ...]] = ("error",)

    error: Error | None = None


class Close(Composite, frozen=True):
    """close: close the connection."""

    CODE: ClassVar[int] = 0x18
    SYMBOL: ClassVar[str] = "amqp:close:list"
    WIRE: ClassVar[tuple[str, ...]] = ("error",)

    error: Error | None = None


class SaslMechanisms(Composite, frozen=True):
    """sasl-mechanisms: what the server offers."""

    CODE: ClassVar[int] = 0x40
    SYMBOL: ClassVar[str] = "amqp:sasl-mechanisms:list"
    WIRE: ClassVar[tuple[str, ...]] = ("symbol[]!",)

    mechanisms: tuple[str, ...]


class SaslInit(Composite, frozen=True):
    """sasl-init: what the client chose, with its first response."""

    CODE: ClassVar[int] = 0x41
    SYMBOL: ClassVar[str] = "amqp:sasl-init:list"
    WIRE: ClassVar[tuple[str, ...]] = ("symbol!", "binary", "string")

    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


class SaslChallenge(Composite, frozen=True):
    """sasl-challenge: from the server."""

    CODE: ClassVar[int] = 0x42
    SYMBOL: ClassVar[str] = "amqp:sasl-challenge:list"
    WIRE: ClassVar[tuple[str, ...]] = ("binary!",)

    challenge: bytes


class SaslResponse(Composite, frozen=True):
    """sasl-response: from the client."""

    CODE: ClassVar[int] = 0x43
    SYMBOL: ClassVar[str] = "amqp:sasl-response:list"
    WIRE: ClassVar[tuple[str, ...]] = ("binary!",)

    response: bytes


class SaslOutcome(Composite, frozen=True):
    """sasl-outcome: whether the client is who it says it is."""

    CODE: ClassVar[int] = 0x44
    SYMBOL: ClassVar[str] = "amqp:sasl-outcome:list"
    WIRE: ClassVar[tuple[str, ...]] = ("ubyte!", "binary")

    code: int
    additional_data: bytes | None = None

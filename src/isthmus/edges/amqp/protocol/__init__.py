"""AMQP 1.0, sans I/O: an engine of connections, sessions and links, as server and as client.

::

    Connection ──► Session ──► Receiver, Sender ──► Delivery
        │ receive_data(bytes, now) → events
        └ data_to_send() → bytes

Deliveries are raw: the engine carries the bytes of messages and never looks into them. It refuses what the
specification forbids with the right condition, and holds no more than its `Limits` and the credit granted
allow. There are no sockets, clocks or threads in it; `isthmus.edges.amqp.transport` puts it on asyncio.
"""

from isthmus.edges.amqp.protocol.connection import Connection, Limits
from isthmus.edges.amqp.protocol.events import (
    Authenticated,
    Closed,
    Delivery,
    Disposed,
    Event,
    Flowed,
    LinkAttached,
    LinkDetached,
    Opened,
    PasswordGiven,
    SessionBegun,
    SessionEnded,
    Undelivered,
)
from isthmus.edges.amqp.protocol.handler import LinkHandler
from isthmus.edges.amqp.protocol.link import Link, Receiver, Sender
from isthmus.edges.amqp.protocol.performatives import Attach, Open
from isthmus.edges.amqp.protocol.sasl import Identity, PasswordCheck, SaslClient, SaslServer, ScramSecret
from isthmus.edges.amqp.protocol.session import Session

__all__ = [
    "Attach",
    "Authenticated",
    "Closed",
    "Connection",
    "Delivery",
    "Disposed",
    "Event",
    "Flowed",
    "Identity",
    "Limits",
    "Link",
    "LinkAttached",
    "LinkDetached",
    "LinkHandler",
    "Open",
    "Opened",
    "PasswordCheck",
    "PasswordGiven",
    "Receiver",
    "SaslClient",
    "SaslServer",
    "ScramSecret",
    "Sender",
    "Session",
    "SessionBegun",
    "SessionEnded",
    "Undelivered",
]

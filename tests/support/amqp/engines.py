"""Two engines that talk to each other, and a peer that sends whatever a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from isthmus.codecs.amqp import Reader, UInt, encode_value
from isthmus.edges.amqp.protocol import (
    Closed,
    Connection,
    Delivery,
    Event,
    Limits,
    LinkAttached,
    Open,
    Receiver,
    Sender,
    Session,
)
from isthmus.edges.amqp.protocol.composite import Composite, interpret
from isthmus.edges.amqp.protocol.frames import AMQP_HEADER, encode_frame, wrap
from isthmus.edges.amqp.protocol.performatives import Attach, Begin, Transfer
from isthmus.edges.amqp.protocol.terms import Source, Target

E = TypeVar("E")
DEFAULT_LIMITS = Limits()
Cut = Callable[[bytes], list[bytes]]


def whole(data: bytes) -> list[bytes]:
    return [data]


def accept(event: LinkAttached, credit: int = 100, max_message_size: int = 0) -> None:
    """What a friendly server does with a link."""
    if event.link.attach_sent:
        return
    event.link.attach(source=event.link.source, target=event.link.target, max_message_size=max_message_size)
    if isinstance(event.link, Receiver) and credit:
        event.link.grant(credit)


class Pair:
    """A client and a server, and what each was told."""

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        client_limits: Limits | None = None,
        *,
        credit: int = 100,
        max_message_size: int = 0,
        cut: Cut = whole,
    ) -> None:
        self.server = Connection.server(limits, answer=Open("server"))
        self.client = Connection.client(client_limits or limits)
        self.at_server: list[Event] = []
        self.at_client: list[Event] = []
        self.now = 0.0
        self._credit = credit
        self._max_message_size = max_message_size
        self._cut = cut

    def talk(self) -> None:
        """Carry bytes to and fro until there are none."""
        while True:
            up = self.client.data_to_send(self.now)
            for piece in self._cut(up) if up else ():
                for event in self.server.receive_data(piece, self.now):
                    self.at_server.append(event)
                    if isinstance(event, LinkAttached):
                        accept(event, self._credit, self._max_message_size)
            down = self.server.data_to_send(self.now)
            for piece in self._cut(down) if down else ():
                self.at_client += self.client.receive_data(piece, self.now)
            if not up and not down:
                return

    def opened(self) -> Session:
        self.client.open(Open("client"))
        session = self.client.begin()
        self.talk()
        return session

    def sender(self, name: str = "out") -> Sender:
        link = self.opened().sender(name)
        link.attach(source=Source(), target=Target("orders"))
        self.talk()
        return link

    def receiver(self, name: str = "in") -> tuple[Receiver, Sender]:
        """A link that the client receives on, and the server's end of it."""
        link = self.opened().receiver(name)
        link.attach(source=Source("prices"), target=Target())
        self.talk()
        end = one(self.at_server, LinkAttached).link
        assert isinstance(end, Sender)
        return link, end

    def arrived(self) -> list[Delivery]:
        return [event for event in self.at_server if isinstance(event, Delivery)]


def one(events: list[Event], kind: type[E]) -> E:
    """The only event of a kind."""
    [found] = [event for event in events if isinstance(event, kind)]
    return found


class RawPeer:
    """Writes frames by hand to a server's engine and reads its answers."""

    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, *, credit: int = 100, max_message_size: int = 0
    ) -> None:
        self.connection = Connection.server(limits, answer=Open("server"))
        self.events: list[Event] = []
        self._credit = credit
        self._max_message_size = max_message_size

    def send(self, data: bytes) -> list[Composite]:
        """Send bytes; the performatives that come back."""
        for event in self.connection.receive_data(data, 0.0):
            self.events.append(event)
            if isinstance(event, LinkAttached):
                accept(event, self._credit, self._max_message_size)
        return performatives(self.connection.data_to_send())

    def frame(self, body: Composite, channel: int = 0) -> list[Composite]:
        return self.send(encode_frame(channel, body))

    def open(self) -> None:
        self.send(AMQP_HEADER + encode_frame(0, Open("peer")))

    def begin(self) -> None:
        self.open()
        self.frame(Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100))

    def attach(self, handle: int = 0, name: str = "link") -> None:
        self.frame(attach_of_sender(handle, name))

    def attached(self) -> None:
        self.begin()
        self.attach()

    def transfer(self, payload: bytes = b"message", **fields: Any) -> list[Composite]:
        given = {"handle": 0, "delivery_id": 0, "delivery_tag": b"t", **fields}
        body = Transfer(**given).described()
        return self.send(wrap(0, encode_value(body) + payload))

    @property
    def closed(self) -> Closed:
        return one(self.events, Closed)


def attach_of_sender(handle: int = 0, name: str = "link", **more: Any) -> Attach:
    given = {"source": Source(), "target": Target("orders"), "initial_delivery_count": UInt(0), **more}
    return Attach(name, handle, False, **given)


def performatives(data: bytes) -> list[Composite]:
    """The performatives in a stream of frames, payloads left out."""
    found = []
    while data:
        if data.startswith(b"AMQP"):
            data = data[8:]
            continue
        size = int.from_bytes(data[:4])
        body = data[8:size]
        if body:
            value = interpret(_first(body))
            assert isinstance(value, Composite)
            found.append(value)
        data = data[size:]
    return found


def _first(body: bytes) -> object:
    """The performative of a body, whatever its payload is."""
    return Reader(body).value()

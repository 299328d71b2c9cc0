"""Our own engine as a client on a blocking socket: for what no library lets a test do."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Self, TypeVar

from tests.support.polling import PATIENCE_S

from isthmus.codecs.amqp import AmqpMessage, AmqpValue, MessageProperties, Reader, UInt, encode_value
from isthmus.edges.amqp.protocol import (
    Connection,
    Delivery,
    Disposed,
    Event,
    Limits,
    Open,
    Opened,
    SaslClient,
    Sender,
)
from isthmus.edges.amqp.protocol.composite import Composite, interpret
from isthmus.edges.amqp.protocol.frames import AMQP_HEADER, encode_frame, wrap
from isthmus.edges.amqp.protocol.performatives import UINT_MAX, Begin, Transfer
from isthmus.edges.amqp.protocol.terms import Coordinator, Declare, Declared, Discharge, Source, Target

E = TypeVar("E")
P = TypeVar("P", bound=Composite)


class Wire:
    """A connection."""

    def __init__(
        self,
        port: int,
        sasl: SaslClient | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.socket: socket.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.engine = Connection.client(limits or Limits(idle_timeout_s=None), sasl or SaslClient())
        self.events: list[Event] = []
        self.lost = False
        self.received = b""
        """All bytes so far."""

    def open(self) -> Self:
        self.engine.open(Open("wire"))
        self.until(Opened)
        return self

    def pump(self, wait_s: float = 0.05) -> None:
        """Send what there is, and read what comes within a moment."""
        self.events += self.engine.tick(time.monotonic())
        self.socket.sendall(self.engine.data_to_send(time.monotonic()))
        self.socket.settimeout(wait_s)
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return
        except OSError:
            data = b""
        self.lost = not data
        self.received += data
        self.events += self.engine.receive_data(data, time.monotonic())

    def wait(self, condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + max(timeout_s, PATIENCE_S)
        while not condition():
            assert time.monotonic() < deadline, f"not in time; there was {self.events}"
            assert not self.lost or condition(), f"the connection is lost; there was {self.events}"
            self.pump()

    def until(self, kind: type[E]) -> E:
        """The next event of a kind."""
        found: list[E] = []

        def there() -> bool:
            found.extend(event for event in self.events if isinstance(event, kind))
            return bool(found)

        self.wait(there)
        self.events.remove(found[0])  # type: ignore[arg-type]
        return found[0]

    def sender(self, address: str | None, name: str | None = None, *, dynamic: bool = False) -> Sender:
        session = self.engine.begin()
        link = session.sender(name or f"out-{session.channel}")
        link.attach(source=Source(), target=Target(address, dynamic=dynamic))
        self.wait(lambda: link.credit)
        return link

    def coordinator(self, name: str = "tx") -> Sender:
        session = next(iter(self.engine.sessions.values()), None) or self.engine.begin()
        link = session.sender(name)
        link.attach(source=Source(), target=Coordinator())
        self.wait(lambda: link.credit)
        return link

    def say(self, coordinator: Sender, word: Composite) -> object:
        """The outcome of a word to the coordinator."""
        data = AmqpMessage(body=AmqpValue(word.described())).encode()
        return self.outcome(coordinator.send(b"word", data))

    def declare(self, coordinator: Sender) -> bytes:
        state = self.say(coordinator, Declare())
        assert isinstance(state, Declared)
        return state.txn_id

    def discharge(self, coordinator: Sender, id: bytes, *, fail: bool = False) -> object:
        return self.say(coordinator, Discharge(id, fail))

    def outcome(self, delivery: Delivery) -> object:
        while not delivery.settled:
            self.until(Disposed)
        return delivery.state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class RawWire:
    """Frames by hand on a blocking socket, any number at once, and the performatives that come back."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._rest = b""
        self.answers: list[Composite] = []
        self.lost = False

    def open(
        self, *, incoming_window: int = 1000, container_id: str = "raw", max_frame_size: int = UINT_MAX
    ) -> Self:
        """Open a connection and begin a session on channel 0, without waiting for the answers."""
        begin = Begin(next_outgoing_id=0, incoming_window=incoming_window, outgoing_window=1000)
        self.header()
        self.send(Open(container_id, max_frame_size=max_frame_size), begin)
        self.until(Begin)
        return self

    def header(self) -> None:
        self._socket.sendall(AMQP_HEADER)

    def send(self, *bodies: Composite) -> None:
        self._socket.sendall(b"".join(encode_frame(0, body) for body in bodies))

    def transfer(self, data: bytes, id: int = 0) -> None:
        """Send a message on handle 0."""
        self.frame(Transfer(handle=UInt(0), delivery_id=UInt(id), delivery_tag=id.to_bytes(4)), data)

    def frame(self, body: Composite, payload: bytes = b"", channel: int = 0) -> None:
        self._socket.sendall(wrap(channel, encode_value(body.described()) + payload))

    def pump(self) -> None:
        self._socket.settimeout(0.05)
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            return
        except OSError:
            data = b""
        self.lost = self.lost or not data
        self._rest += data
        while len(self._rest) >= 8:
            size = 8 if self._rest.startswith(b"AMQP") else int.from_bytes(self._rest[:4])
            if len(self._rest) < size:
                return
            frame, self._rest = self._rest[:size], self._rest[size:]
            if size > 8:
                said = interpret(Reader(frame[8:]).value())
                assert isinstance(said, Composite)
                self.answers.append(said)

    def wait(self, condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not in time; there was {self.answers}"
            assert not self.lost, f"the connection is lost; there was {self.answers}"
            self.pump()

    def all(self, kind: type[P]) -> list[P]:
        return [each for each in self.answers if isinstance(each, kind)]

    def until(self, kind: type[P], count: int = 1) -> list[P]:
        """As many answers of a kind, or more."""
        self.wait(lambda: len(self.all(kind)) >= count)
        return self.all(kind)

    def drop(self) -> None:
        """Be gone without a word."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def message(text: str, to: str | None = None) -> bytes:
    return AmqpMessage(properties=MessageProperties(to=to), body=AmqpValue(text)).encode()

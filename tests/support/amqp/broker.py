"""A small broker on proton, an implementation that is not ours, that does what a test tells it.

Queues keep their messages while it is stopped, as a broker's journal does. Addresses that begin with ``no-``
are refused until they are defined.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Self

import proton
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from isthmus.embedded.ports import free_port

CREDIT = 100


class Broker(MessagingHandler):  # type: ignore[misc]
    """Listens in a thread of its own, from `start` to `stop`, as often as one likes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.queues: defaultdict[str, deque[proton.Message]] = defaultdict(deque)
        self.outcomes: defaultdict[str, deque[Callable[[proton.Delivery], None]]] = defaultdict(deque)
        """What is done with the next messages to an address, in place of accepting them."""
        self.unsettled: dict[proton.Delivery, tuple[str, proton.Message]] = {}
        self.most_unsettled = 0
        self.rejected: list[tuple[proton.Message, str]] = []
        self.defined: set[str] = set()
        self.attached: list[tuple[str, list[str]]] = []
        self.gives_credit = True
        self.port = free_port()
        self._options = options
        self._connections: list[proton.Connection] = []
        self._senders: list[proton.Sender] = []

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    def bodies(self, address: str) -> list[object]:
        return [message.body for message in list(self.queues[address])]

    def start(self) -> Self:
        self._injector = EventInjector()
        self._container = Container(self, **self._options)
        self._container.selectable(self._injector)
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._container.run, name="broker")
        self._thread.start()
        assert self._listening.wait(60)
        return self

    def stop(self) -> None:
        """End all connections. What was not settled is in its queue again."""
        self._injector.trigger(ApplicationEvent("stop"))
        self._injector.close()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._connections.clear()
        self._forget(lambda _: True)

    def put(self, address: str, *messages: proton.Message) -> None:
        """Have messages in a queue."""
        self.queues[address].extend(messages)
        self._injector.trigger(ApplicationEvent("more"))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # What proton calls, in the thread

    def on_start(self, event: proton.Event) -> None:
        deadline = time.monotonic() + 10
        while True:
            try:
                self._acceptor = event.container.listen(f"127.0.0.1:{self.port}")
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self._listening.set()

    def on_stop(self, _: proton.Event) -> None:
        self._acceptor.close()
        for connection in self._connections:
            connection.condition = proton.Condition("amqp:connection:forced", "the broker ends")
            connection.close()

    def on_connection_opening(self, event: proton.Event) -> None:
        self._connections.append(event.connection)

    def on_more(self, _: proton.Event) -> None:
        for sender in self._senders:
            self._send(sender)

    def on_link_opening(self, event: proton.Event) -> None:
        link = event.link
        terminus = link.remote_source if link.is_sender else link.remote_target
        address = terminus.address
        if self._is_missing(address):
            return  # proton answers attach, and `on_link_opened` detaches
        self.attached.append((address, _symbols(terminus.capabilities)))
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.open()
        if link.is_sender:
            self._senders.append(link)
        elif self.gives_credit:
            link.flow(CREDIT)

    def on_link_opened(self, event: proton.Event) -> None:
        link = event.link
        address = (link.remote_source if link.is_sender else link.remote_target).address
        if self._is_missing(address):
            link.condition = proton.Condition("amqp:not-found", f"there is no {address}")
            link.close()

    def _is_missing(self, address: str | None) -> bool:
        return address is not None and address.startswith("no-") and address not in self.defined

    def on_sendable(self, event: proton.Event) -> None:
        self._send(event.link)

    def on_message(self, event: proton.Event) -> None:
        address = event.link.remote_target.address or event.message.address
        if self.outcomes[address]:
            self.outcomes[address].popleft()(event.delivery)
        else:
            event.delivery.update(proton.Delivery.ACCEPTED)
            self.queues[address].append(event.message)
        event.delivery.settle()
        event.link.flow(1)

    def on_accepted(self, event: proton.Event) -> None:
        self.unsettled.pop(event.delivery, None)
        event.delivery.settle()

    def on_rejected(self, event: proton.Event) -> None:
        condition = event.delivery.remote.condition
        self.rejected.append((self.unsettled.pop(event.delivery)[1], condition.name))
        event.delivery.settle()

    def on_released(self, event: proton.Event) -> None:
        address, message = self.unsettled.pop(event.delivery)
        self.queues[address].appendleft(message)
        event.delivery.settle()

    def on_link_closing(self, event: proton.Event) -> None:
        self._forget(lambda sender: sender == event.link)

    def on_connection_closing(self, event: proton.Event) -> None:
        self._forget(lambda sender: sender.connection == event.connection)

    def on_disconnected(self, event: proton.Event) -> None:
        self._forget(lambda sender: sender.connection == event.connection)

    def _forget(self, is_gone: Callable[[proton.Sender], bool]) -> None:
        """Have what a receiver had not settled in its queue again."""
        self._senders = [each for each in self._senders if not is_gone(each)]
        for delivery in reversed(list(self.unsettled)):
            if is_gone(delivery.link):
                address, message = self.unsettled.pop(delivery)
                self.queues[address].appendleft(message)

    def _send(self, sender: proton.Sender) -> None:
        address = sender.remote_source.address
        while sender.credit > 0 and self.queues[address]:
            message = self.queues[address].popleft()
            self.unsettled[sender.send(message)] = address, message
            self.most_unsettled = max(self.most_unsettled, len(self.unsettled))


def _symbols(capabilities: proton.Data) -> list[str]:
    capabilities.rewind()
    if not capabilities.next():
        return []
    found = capabilities.get_object()
    return [str(each) for each in found.elements] if isinstance(found, proton.Array) else [str(found)]


def rejecting(condition: str, description: str) -> Callable[[proton.Delivery], None]:
    def decide(delivery: proton.Delivery) -> None:
        delivery.local.condition = proton.Condition(condition, description)
        delivery.update(proton.Delivery.REJECTED)

    return decide


def releasing(delivery: proton.Delivery) -> None:
    delivery.update(proton.Delivery.RELEASED)


def modifying(*, undeliverable: bool) -> Callable[[proton.Delivery], None]:
    def decide(delivery: proton.Delivery) -> None:
        delivery.local.failed = True
        delivery.local.undeliverable = undeliverable
        delivery.update(proton.Delivery.MODIFIED)

    return decide

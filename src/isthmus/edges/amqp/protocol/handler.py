"""Who handles what happens on a link, at either end of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from isthmus.edges.amqp.protocol.events import Delivery
    from isthmus.edges.amqp.protocol.performatives import Attach
    from isthmus.edges.amqp.protocol.terms import Error


class LinkHandler(Protocol):
    """What a link's `handler` is told by whoever drives the engine; the engine itself calls nothing.

    `on_attach` comes first, `on_detach` last, each once.
    """

    def on_attach(self, attach: Attach) -> None:
        """The peer attached the link: to be answered with `Link.attach` or `Link.refuse`, if it began it.

        An answer to ours that has no terminus is a refusal: `on_detach` follows.
        """
        ...

    def on_delivery(self, delivery: Delivery) -> None:
        """A message has arrived, all of it."""
        ...

    def on_flow(self) -> None:
        """The link's credit, or the wish to drain it, has changed; or the socket takes bytes again."""
        ...

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """The peer gave a state to deliveries. Those that it did not settle are for us to settle."""
        ...

    def on_detach(self, *, closed: bool, error: Error | None, lost: bool) -> None:
        """The link is over: to be answered with `Link.detach`, which does nothing where none is due.

        ``closed`` and ``error`` are what the peer said. A session or connection that ended, and a fault of
        the peer's, close no link: ``closed`` is False then, and ``lost`` is True, since it did not detach it.
        """
        ...

"""Counts what a delivery hands over, destination by destination."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from isthmus.edges.contract import Delivery, OutboundMessage
from isthmus.errors import SoftFailure


@dataclass(slots=True)
class Delivered:
    """What went to one destination since the start."""

    messages: int = 0
    bytes: int = 0
    dead_letters: int = 0
    times_s: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    """How long the last batches with messages for it took."""


class MeteredDelivery:
    """A delivery like the one that it is given."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivered: defaultdict[str, Delivered] = defaultdict(Delivered)
        self._delivery = delivery

    async def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        """As the delivery does."""
        began = time.monotonic()
        answers = await self._delivery.deliver(messages)
        took_s = time.monotonic() - began
        for message, failure in zip(messages, answers, strict=True):
            delivered = self.delivered[message.destination]
            if failure is None:
                delivered.messages += 1
                delivered.bytes += len(message.record.value or b"")
            else:
                delivered.dead_letters += 1
        for destination in {message.destination for message in messages}:
            self.delivered[destination].times_s.append(took_s)
        return answers

"""The journal and deliveries of a bridge that exports spans: each tells of the messages that are sampled.

A bridge that exports none has the plain ones, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import time_ns

from isthmus.config import Settings
from isthmus.edges.contract import Delivery, OutboundMessage
from isthmus.edges.journal import EdgeJournal
from isthmus.errors import IsthmusError, SoftFailure
from isthmus.journal import OnDone
from isthmus.journal.layout import ADDRESS, PROTOCOL, Record, position
from isthmus.kafka.options import Kafka
from isthmus.telemetry.traces import Hop, Traces, sampled


async def open_journal(settings: Settings, kafka: Kafka, traces: Traces | None) -> EdgeJournal:
    """The journal of a bridge. Raises `HardFailure` when it is not there, or may not be written."""
    kind = EdgeJournal if traces is None else TracedJournal
    journal = await kind.open(
        kafka, settings.journal, as_json=settings.uses_json, clock_topic=settings.clock_topic
    )
    if isinstance(journal, TracedJournal) and traces is not None:
        journal.traces = traces
    return journal


class TracedJournal(EdgeJournal):
    """A journal that tells of every intake of a sampled message: until Kafka has it, or refuses."""

    traces: Traces

    def put_record(self, record: Record, session: str, on_done: OnDone) -> None:
        """As the journal does."""
        super().put_record(record, session, self._told([record], on_done))

    def put_together(self, records: Sequence[Record], size: int, session: str, on_done: OnDone) -> None:
        """As the journal does."""
        super().put_together(records, size, session, self._told(records, on_done))

    def _told(self, records: Sequence[Record], on_done: OnDone) -> OnDone:
        """What to call instead: the same, unless one of the records is sampled."""
        traced = [(record, trace) for record in records if (trace := sampled(record.headers)) is not None]
        if not traced:
            return on_done
        began_ns = time_ns()

        def done(failure: IsthmusError | None) -> None:
            ended_ns = time_ns()
            for record, (parent, state) in traced:
                address, protocol = _text(record, ADDRESS), _text(record, PROTOCOL)
                about = {"messaging.system": protocol, "messaging.destination.name": address}
                error = None if failure is None else str(failure)
                self.traces.add(Hop("intake", address, parent, state, began_ns, ended_ns, about, error))
            on_done(failure)

        return done


def _text(record: Record, name: str) -> str:
    return (record.headers[position(name)][1] or b"").decode(errors="replace")


class TracedDelivery:
    """A delivery like the one that it is given, which tells of the sampled messages that it delivers."""

    def __init__(self, delivery: Delivery, system: str, traces: Traces) -> None:
        self._delivery = delivery
        self._system = system
        self._traces = traces

    async def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        """As the delivery does."""
        began_ns = time_ns()
        answers = await self._delivery.deliver(messages)
        ended_ns = time_ns()
        for message, failure in zip(messages, answers, strict=True):
            if (trace := sampled(message.record.headers)) is not None:
                about = {
                    "messaging.system": self._system,
                    "messaging.destination.name": message.destination,
                    "isthmus.id": message.id,
                }
                error = None if failure is None else str(failure)
                self._traces.add(
                    Hop("deliver", message.destination, *trace, began_ns, ended_ns, about, error)
                )
        return answers

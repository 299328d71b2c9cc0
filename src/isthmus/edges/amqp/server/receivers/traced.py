"""Tells of sampled messages that receivers get: from their reading until the receiver has decided."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from time import time_ns

from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSink, RecordSource
from isthmus.journal.layout import stable_id
from isthmus.kafka.records import PolledRecord
from isthmus.telemetry.traces import Hop, Traces, sampled


class TracedSource:
    """Between a link and what reads for it: a `RecordSource` for it, and the `RecordSink` of another."""

    def __init__(self, source: RecordSource, address: str, traces: Traces) -> None:
        self._source = source
        self._address = address
        self._traces = traces
        self._since: dict[tuple[int, int], tuple[int, tuple[str, str]]] = {}
        """When sampled records were read, and their traces, by partition and offset."""
        self._sink: RecordSink

    # What the link calls

    def start(self, sink: RecordSink) -> None:
        """See `RecordSource`."""
        self._sink = sink
        self._source.start(self)

    def request(self, count: int, *, drain: bool = False) -> None:
        """See `RecordSource`."""
        self._source.request(count, drain=drain)

    def holds(self, record: PolledRecord) -> bool:
        """See `RecordSource`."""
        return self._source.holds(record)

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Tell of it, if it is sampled."""
        self._tell(record, acknowledgement.value)
        self._source.settle(record, acknowledgement)

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        """Tell of it, if it is sampled, and others can have it."""
        declined = self._source.decline(record, failed=failed)
        if declined:
            self._tell(record, "decline")
        return declined

    async def close(self) -> None:
        """See `RecordSource`."""
        self._since.clear()
        await self._source.close()

    def _tell(self, record: PolledRecord, outcome: str) -> None:
        found = self._since.pop((record.partition, record.offset), None)
        if found is not None:
            began_ns, trace = found
            about = {
                "messaging.system": "amqp",
                "messaging.destination.name": self._address,
                "isthmus.position": stable_id(record.topic, record.partition, record.offset),
                "isthmus.outcome": outcome,
            }
            error = None if outcome == Acknowledgement.ACCEPT.value else f"not accepted: {outcome}"
            self._traces.add(Hop("deliver", self._address, *trace, began_ns, time_ns(), about, error))

    # What the source calls

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        """Note those that are sampled."""
        for record in records:
            if (trace := sampled(record.read.headers)) is not None:
                self._since[record.partition, record.offset] = time_ns(), trace
        self._sink.on_records(records, redelivered=redelivered)

    def on_idle(self) -> None:
        """See `RecordSink`."""
        self._sink.on_idle()

    def on_revoked(self, partitions: Collection[int]) -> None:
        """Forget those of partitions that are somebody else's now."""
        self._since = {place: each for place, each in self._since.items() if place[0] not in partitions}
        self._sink.on_revoked(partitions)

    def on_failed(self, condition: str, description: str) -> None:
        """See `RecordSink`."""
        self._sink.on_failed(condition, description)

"""JMS's shared subscriptions: what one member of a consumer group reads, for all its receivers here, in turn.

::

    Kafka ──► GroupSource ──► SharedSubscription ──► SharedSource ──► link     one for every receiver

In Kafka a partition has one reader, so the consumers of a subscription would stand idle where it has more of
them than the topic has partitions. Here the process is the reader, and whoever has credit gets the next
record, each in turn, the first to come first. What a receiver gives back goes to that one again if it has
credit, else to another; what one leaves that is closed is for the others.

Several processes share the partitions out. All else is as `GroupSource` has it: what is settled is committed
up to the first record that is not, whoever has that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSink, RecordSource
from isthmus.kafka.records import PolledRecord


class Group(RecordSource, Protocol):
    """A member of the subscription's consumer group: `GroupSource` promises what this is for."""

    async def flush(self) -> None: ...  # noqa: D102


class SharedSource:
    """A shared subscription's records for one receiver."""

    def __init__(self, subscription: SharedSubscription) -> None:
        self.wanted = 0
        self.sink: RecordSink
        self._subscription = subscription

    def start(self, sink: RecordSink) -> None:
        """Remember who takes the records."""
        self.sink = sink
        self._subscription.add(self)

    def request(self, count: int, *, drain: bool = False) -> None:  # noqa: ARG002
        """Have that many records handed over."""
        self.wanted = count
        self._subscription.on_request()

    def holds(self, record: PolledRecord) -> bool:
        """See `GroupSource`."""
        return self._subscription.group.holds(record)

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement) -> None:
        """Count a record as done with, or have it handed over again."""
        self._subscription.settle(record, acknowledgement, self)

    def decline(self, record: PolledRecord, *, failed: bool) -> bool:
        """See `GroupSource`."""
        return self._subscription.group.decline(record, failed=failed)

    async def close(self) -> None:
        """Make what was settled hold, and leave the rest to the others."""
        self.wanted = 0
        await self._subscription.leave(self)


class SharedSubscription:
    """The receivers of one subscription in this process, and what waits for them."""

    def __init__(
        self, group: Group, *, wants: Callable[[PolledRecord], bool], on_left: Callable[[], object]
    ) -> None:
        """What nobody ``wants`` is done with. ``on_left`` is called when the last receiver leaves."""
        self.group = group
        self._wants = wants
        self._on_left = on_left
        self._users = 0
        self._receivers: deque[SharedSource] = deque()
        """Those that have begun; it is the first one's turn."""
        self._waiting: deque[PolledRecord] = deque()
        self._givers: dict[tuple[int, int], SharedSource] = {}
        """Who gave a record back, by partition and offset."""
        self._requested = 0
        """How many records the group is yet to read."""
        self._is_dispatching = False
        self._is_started = False

    def source(self) -> SharedSource:
        """Records for one more receiver."""
        self._users += 1
        return SharedSource(self)

    # What sources call

    def add(self, source: SharedSource) -> None:
        """Take a receiver in that has begun."""
        self._receivers.append(source)
        if not self._is_started:
            self._is_started = True
            self.group.start(self)

    def on_request(self) -> None:
        """Somebody's credit has changed."""
        if self._waiting and not self._is_dispatching:  # not at once: whoever asks is in the middle of it
            self._is_dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)
        self._request()

    def settle(self, record: PolledRecord, acknowledgement: Acknowledgement, source: SharedSource) -> None:
        """Do as a receiver says with a record."""
        if acknowledgement in (Acknowledgement.RELEASE, Acknowledgement.FAIL):
            self._givers[record.partition, record.offset] = source
        self.group.settle(record, acknowledgement)

    async def leave(self, source: SharedSource) -> None:
        """Let a receiver go, and the group with the last one."""
        if source in self._receivers:
            self._receivers.remove(source)
        self._givers = {place: giver for place, giver in self._givers.items() if giver is not source}
        self._users -= 1
        if self._users:
            self.on_request()
            await self.group.flush()
        else:
            self._on_left()
            await self.group.close()

    # What the group calls

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        """Hand records out."""
        if redelivered:
            self._waiting.extendleft(reversed(records))
        else:
            self._requested = max(0, self._requested - len(records))
            for record in records:
                if self._wants(record):
                    self._waiting.append(record)
                else:
                    self.group.settle(record, Acknowledgement.ACCEPT)
        self._dispatch()
        if self._lacking != self._requested:
            self._request()

    def on_idle(self) -> None:
        """Tell those who ask for more that there is nothing."""
        for source in list(self._receivers):
            if source.wanted:
                source.sink.on_idle()

    def on_revoked(self, partitions: Collection[int]) -> None:
        """Forget what is another process's now."""
        self._waiting = deque(each for each in self._waiting if each.partition not in partitions)
        self._givers = {place: giver for place, giver in self._givers.items() if place[0] not in partitions}
        for source in list(self._receivers):
            source.sink.on_revoked(partitions)

    def on_failed(self, condition: str, description: str) -> None:
        """Tell all receivers that nothing more comes."""
        for source in list(self._receivers):
            source.sink.on_failed(condition, description)

    # Inside

    @property
    def _lacking(self) -> int:
        """How many records there is credit for, beside those that wait."""
        return max(0, sum(each.wanted for each in self._receivers) - len(self._waiting))

    def _request(self) -> None:
        self._requested = self._lacking
        self.group.request(self._requested)

    def _dispatch(self) -> None:
        """Hand out what there is credit for."""
        self._is_dispatching = False
        handed: dict[SharedSource, list[PolledRecord]] = {}
        while self._waiting and any(each.wanted for each in self._receivers):
            record = self._waiting.popleft()
            source = self._taker_of(record)
            source.wanted -= 1
            handed.setdefault(source, []).append(record)
        for source, records in handed.items():
            source.sink.on_records(records)

    def _taker_of(self, record: PolledRecord) -> SharedSource:
        """Who gets a record: the one that gave it back, else whose turn it is, of those that have credit."""
        giver = self._givers.pop((record.partition, record.offset), None)
        if giver is not None and giver.wanted:
            return giver
        while not self._receivers[0].wanted:
            self._receivers.rotate(-1)
        self._receivers.rotate(-1)
        return self._receivers[-1]

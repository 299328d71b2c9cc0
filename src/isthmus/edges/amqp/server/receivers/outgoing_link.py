"""Fills a link with records: as many as there is credit for, each until it is decided.

A settled link gets every message at most once, any other at least once. Accepted records are done with;
released and modified ones are delivered again; rejected ones, and records that cannot be converted, go where
`Undeliverable` puts them, and count as done with only then. What has expired, or is not wanted, is done with
unsent. What a client decides in a transaction holds once that commits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from isthmus.codecs.amqp import AmqpMessage, MessageHeader
from isthmus.converters import MessageConverter, ReceivedRecord, converter
from isthmus.converters.jms_fast_path import encode_plain
from isthmus.edges.amqp.protocol import Delivery
from isthmus.edges.amqp.protocol.composite import interpret
from isthmus.edges.amqp.protocol.conditions import INTERNAL_ERROR
from isthmus.edges.amqp.protocol.performatives import SETTLED
from isthmus.edges.amqp.protocol.terms import (
    Accepted,
    Error,
    Modified,
    Rejected,
    Released,
    Source,
    TransactionalState,
)
from isthmus.edges.amqp.server.contract import ReceiverRequest
from isthmus.edges.amqp.server.receivers.record_source import Acknowledgement, RecordSource
from isthmus.edges.amqp.server.receivers.selected import has_expired
from isthmus.errors import HardFailure, RefusedFailure, SoftFailure
from isthmus.journal.layout import CLIENT, HEADER_PREFIX
from isthmus.kafka.records import PolledRecord

log = logging.getLogger(__name__)

JMS: Final = converter("jms")
SENDER_HEADERS: Final = (CLIENT, f"{HEADER_PREFIX}{CLIENT}")
DRAIN_S = 8.0
"""How long an answer to drain waits for Kafka to say what it has. Joining a group takes seconds."""

Undeliverable = Callable[[ReceivedRecord, SoftFailure], Awaitable[None]]
"""Keeps a record that no receiver takes, as the policy says. Raises `HardFailure` if it cannot."""


class Ended(Protocol):
    """What is to be done when a link is over."""

    async def __call__(self, *, detached: bool) -> None:
        """``detached`` tells that the client did not close it: it may come back."""
        ...


Wants = Callable[[AmqpMessage], bool]
"""Whether a receiver wants a message."""


def everything(_: AmqpMessage) -> bool:
    """Want any message."""
    return True


def with_deliveries(message: AmqpMessage, deliveries: int) -> AmqpMessage:
    """The message, marked as delivered before, so often."""
    return message.replace(header=replace(message.header or MessageHeader(), delivery_count=deliveries))


def _sender(record: PolledRecord) -> bytes | None:
    """The client id of a record's sender, where it says that, in whatever form it is."""
    return next((value for name, value in record.read.headers if name in SENDER_HEADERS), None)


async def skip(record: ReceivedRecord, failure: SoftFailure) -> None:
    """Leave a record out, with a line in the log."""
    log.warning("%s[%d]@%d was skipped: %s", record.topic, record.partition, record.offset, failure)


class KafkaOutgoingLink:
    """One link's messages."""

    def __init__(
        self,
        request: ReceiverRequest,
        records: RecordSource,
        converter: MessageConverter,
        source: Source,
        *,
        wants: Wants = everything,
        unwanted_client: str | None = None,
        undeliverable: Undeliverable = skip,
        closed: Ended | None = None,
    ) -> None:
        self.source = source
        self._request = request
        self._link = request.link
        self._records = records
        self._converter = converter
        self._wants = wants
        self._unwanted_client = None if unwanted_client is None else unwanted_client.encode()
        self._address = (source.address or "").encode()
        self._is_plain = converter is JMS and wants is everything
        self._undeliverable = undeliverable
        self._closed = closed
        self._settles = request.attach.snd_settle_mode == SETTLED
        self._ready: deque[PolledRecord] = deque()
        self._sent: dict[Delivery, PolledRecord] = {}
        self._in_transactions: dict[bytes, _Acknowledgements] = {}
        self._wanted = 0
        self._draining: asyncio.TimerHandle | None = None
        self._over = False
        self._tasks: set[asyncio.Task[None]] = set()
        records.start(self)

    # What the server calls

    def on_flow(self) -> None:
        """Send what there is credit for, and ask for what there is credit left for."""
        if self._over:
            return
        self._send()
        if self._link.drain and self._link.credit and self._draining is None:
            self._draining = asyncio.get_running_loop().call_later(DRAIN_S, self._drain)
        if not self._link.drain:
            self._stop_draining()
        wanted = max(0, self._link.credit - len(self._ready))
        if wanted or self._wanted:
            self._wanted = wanted
            self._records.request(wanted, drain=self._link.drain)
        self._request.wake()

    def on_disposition(self, deliveries: Sequence[Delivery], state: object, settled: bool) -> None:
        """Do as the client decided."""
        outcome, acknowledgements = state, None
        if isinstance(state, TransactionalState):
            outcome = interpret(state.outcome)
            acknowledgements = self._acknowledgements(state.txn_id)
        if outcome is None:
            outcome = interpret(self.source.default_outcome) if settled else None
        if not settled and not isinstance(outcome, Accepted | Rejected | Released | Modified):
            return  # not decided yet
        for delivery in deliveries:
            record = self._sent.pop(delivery, None)
            if record is not None and acknowledgements is not None:
                acknowledgements.add(record, outcome)
            elif record is not None:
                self.decide(record, outcome)
            if not settled:
                delivery.settle(state)
        self._request.wake()

    async def close(self, *, detached: bool, lost: bool) -> None:
        """Give back what is not decided, and make the rest hold.

        A client that closes a link in good order has read nothing of what it leaves undecided. One that is
        ``lost``, or ends its session, may have: that is marked as delivered before.
        """
        self._over = True
        self._stop_draining()
        if self._tasks:
            await asyncio.wait(self._tasks)
        sent, self._sent = self._sent, {}
        ready, self._ready = self._ready, deque()
        for record in sent.values():
            self._records.settle(record, Acknowledgement.FAIL if lost else Acknowledgement.RELEASE)
        for record in ready:
            self._records.settle(record, Acknowledgement.RELEASE)
        await self._records.close()
        if self._closed is not None:
            await self._closed(detached=detached)

    # What the source calls

    def on_records(self, records: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        """Take records."""
        if redelivered:
            self._ready.extendleft(reversed(records))
        else:
            self._ready.extend(records)
            self._wanted = max(0, self._wanted - len(records))
        if not self._over:
            self.on_flow()

    def on_idle(self) -> None:
        """Answer drain: there is nothing to wait for."""
        if self._draining is not None and not self._ready:
            self._drain()

    def on_revoked(self, partitions: Collection[int]) -> None:
        """Forget what is not ours any more. What was sent of it is decided in vain."""
        self._ready = deque(each for each in self._ready if each.partition not in partitions)
        self._sent = {
            delivery: record for delivery, record in self._sent.items() if record.partition not in partitions
        }

    def on_failed(self, condition: str, description: str) -> None:
        """Tell the client that nothing more comes."""
        if not self._over:
            self._request.detach(Error(condition, description))

    # What a transaction calls

    def decide(self, record: PolledRecord, outcome: object) -> None:
        """Act on an outcome. One that is missing leaves the record undecided: it is delivered again."""
        match outcome:
            case Accepted():
                self._records.settle(record, Acknowledgement.ACCEPT)
            case Rejected(error):
                self._reject(record, _said(error))
            case Modified(undeliverable_here=True):
                self._reject(record, "the receiver cannot take it")
            case Modified():
                self._records.settle(record, Acknowledgement.FAIL)
            case _:
                self._records.settle(record, Acknowledgement.RELEASE)

    def holds(self, record: PolledRecord) -> bool:
        """Whether an acceptance would hold."""
        return self._records.holds(record)

    def fail(self, record: PolledRecord) -> None:
        """Have a record delivered again, since the transaction that took it did not commit."""
        self._records.settle(record, Acknowledgement.FAIL)

    # Inside

    def _send(self) -> None:
        link = self._link
        sent = 0
        while self._ready and link.credit > 0 and link.attached and not self._request.congested():
            record = self._ready.popleft()
            try:
                data = self._encode(record)
            except SoftFailure as failure:
                self._spawn(self._dead_letter(record, failure))
                continue
            if data is None:
                self._records.settle(record, Acknowledgement.ACCEPT)
                continue
            delivery = link.send(record.tag, data, settled=self._settles)
            sent += 1
            if self._settles:
                self._records.settle(record, Acknowledgement.ACCEPT)
            else:
                self._sent[delivery] = record
        if sent:
            self._request.sent(sent)

    def _encode(self, record: PolledRecord) -> bytes | None:
        """The message of a record, or None if it is not wanted, or not any more."""
        if self._unwanted_client is not None and _sender(record) == self._unwanted_client:
            return None
        if self._is_plain and not record.deliveries:
            read = record.read
            plain = encode_plain(
                self._address,
                record.topic,
                record.partition,
                record.offset,
                read.key,
                read.value,
                read.headers,
            )
            if plain is not None:
                return plain
        message = self._converter.to_amqp_message(self.source.address or "", record.record)
        if not self._wants(message) or has_expired(message):
            return None
        properties = message.application_properties
        if properties and CLIENT in properties:
            others = {name: value for name, value in properties.items() if name != CLIENT}
            message = message.replace(application_properties=others or None)
        if record.deliveries:
            message = with_deliveries(message, record.deliveries)
        elif message.original is not None:
            return message.original
        return message.encode()

    def _drain(self) -> None:
        self._stop_draining()
        if self._link.drain and self._link.credit and self._link.attached:
            self._link.drained()
            self._wanted = 0
            self._records.request(0)
            self._request.wake()

    def _stop_draining(self) -> None:
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None

    def _acknowledgements(self, transaction_id: bytes) -> _Acknowledgements:
        if transaction_id not in self._in_transactions:
            made = _Acknowledgements(self, lambda: self._in_transactions.pop(transaction_id, None))
            transaction = self._request.transactions.find(transaction_id)
            if transaction is None:
                return (
                    made  # an unknown one never commits: what is in it is delivered again when the link ends
                )
            transaction.enlist(made)
            self._in_transactions[transaction_id] = made
        return self._in_transactions[transaction_id]

    def _reject(self, record: PolledRecord, why: str) -> None:
        self._spawn(self._dead_letter(record, RefusedFailure(f"rejected by the receiver: {why}")))

    async def _dead_letter(self, record: PolledRecord, failure: SoftFailure) -> None:
        try:
            await self._undeliverable(record.record, failure)
        except HardFailure as problem:
            self.on_failed(INTERNAL_ERROR, str(problem))
        else:
            self._records.settle(record, Acknowledgement.REJECT)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Acknowledgements:
    """What a client decided in one transaction."""

    def __init__(self, outgoing_link: KafkaOutgoingLink, forget: Callable[[], object]) -> None:
        self._link = outgoing_link
        self._forget = forget
        self._decided: list[tuple[PolledRecord, object]] = []

    def add(self, record: PolledRecord, outcome: object) -> None:
        """Remember an outcome."""
        self._decided.append((record, outcome))

    def can_commit(self) -> bool:
        """Whether all records that were accepted are still ours to accept."""
        return all(self._link.holds(record) for record, _ in self._decided)

    def commit(self) -> None:
        """They hold."""
        self._forget()
        for record, outcome in self._decided:
            self._link.decide(record, outcome)

    def roll_back(self) -> None:
        """They are void."""
        self._forget()
        for record, _ in self._decided:
            self._link.fail(record)


def _said(error: Error | None) -> str:
    return (
        "no reason given" if error is None else f"{error.condition}: {error.description or ''}".rstrip(": ")
    )

"""Fills a link with records: as many as there is credit for, each until it is decided.

A settled link gets every message at most once, any other at least once. Accepted records are done with;
released and modified ones come again; rejected ones, and records that cannot be converted, go where
`Undeliverable` puts them, and count as done with only then. What has expired, or is not wanted, is done with
unsent. What a client decides in a transaction holds once that commits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

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
from isthmus.errors import HardFailure, RefusedFailure, SoftFailure
from isthmus.journal.layout import CLIENT
from isthmus.kafka.records import PolledRecord

log = logging.getLogger(__name__)

JMS: Final = converter("jms")
DRAIN_S = 8.0
"""How long an answer to drain waits for Kafka to say what it has. Joining a group takes seconds."""

Undeliverable = Callable[[ReceivedRecord, SoftFailure], Awaitable[None]]
"""Keeps a record that no receiver takes, as the policy says. Raises `HardFailure` if it cannot."""
Ended = Callable[[], Awaitable[None]]
Wants = Callable[[AmqpMessage], bool]
"""Whether a receiver wants a message."""


def everything(_: AmqpMessage) -> bool:
    """Want any message."""
    return True


def _has_expired(message: AmqpMessage) -> bool:
    expiry_ms = None if message.properties is None else message.properties.absolute_expiry_time
    return expiry_ms is not None and 0 < expiry_ms < time.time() * 1000


async def skip(record: ReceivedRecord, failure: SoftFailure) -> None:
    """Leave a record out, with a line in the log."""
    log.warning("%s[%d]@%d was skipped: %s", record.topic, record.partition, record.offset, failure)


class KafkaOutgoingLink:
    """One link's messages."""

    def __init__(
        self,
        request: ReceiverRequest,
        supply: RecordSource,
        converter: MessageConverter,
        source: Source,
        *,
        wants: Wants = everything,
        undeliverable: Undeliverable = skip,
        closed: Ended | None = None,
    ) -> None:
        self.source = source
        self._request = request
        self._link = request.link
        self._records = supply
        self._converter = converter
        self._wants = wants
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
        supply.start(self)

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
            taken = self._sent.pop(delivery, None)
            if taken is not None and acknowledgements is not None:
                acknowledgements.add(taken, outcome)
            elif taken is not None:
                self.decide(taken, outcome)
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
        for taken in sent.values():
            self._records.settle(taken, Acknowledgement.FAIL if lost else Acknowledgement.RELEASE)
        for taken in ready:
            self._records.settle(taken, Acknowledgement.RELEASE)
        await self._records.close()
        if self._closed is not None and not detached:
            await self._closed()

    # What the supply calls

    def on_records(self, taken: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        """Take records."""
        if redelivered:
            self._ready.extendleft(reversed(taken))
        else:
            self._ready.extend(taken)
            self._wanted = max(0, self._wanted - len(taken))
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
            delivery: taken for delivery, taken in self._sent.items() if taken.partition not in partitions
        }

    def on_failed(self, condition: str, description: str) -> None:
        """Tell the client that nothing more comes."""
        if not self._over:
            self._request.detach(Error(condition, description))

    # What a transaction calls

    def decide(self, taken: PolledRecord, outcome: object) -> None:
        """Act on an outcome. One that is missing leaves the record undecided: it comes again."""
        match outcome:
            case Accepted():
                self._records.settle(taken, Acknowledgement.ACCEPT)
            case Rejected(error):
                self._keep(taken, _said(error))
            case Modified(undeliverable_here=True):
                self._keep(taken, "the receiver cannot take it")
            case Modified():
                self._records.settle(taken, Acknowledgement.FAIL)
            case _:
                self._records.settle(taken, Acknowledgement.RELEASE)

    def holds(self, taken: PolledRecord) -> bool:
        """Whether an acceptance would hold."""
        return self._records.holds(taken)

    def fail(self, taken: PolledRecord) -> None:
        """Have a record come again, since the transaction that took it did not commit."""
        self._records.settle(taken, Acknowledgement.FAIL)

    # Inside

    def _send(self) -> None:
        link = self._link
        sent = 0
        while self._ready and link.credit > 0 and link.attached and not self._request.congested():
            taken = self._ready.popleft()
            try:
                data = self._encode(taken)
            except SoftFailure as failure:
                self._spawn(self._put_away(taken, failure))
                continue
            if data is None:
                self._records.settle(taken, Acknowledgement.ACCEPT)
                continue
            delivery = link.send(taken.tag, data, settled=self._settles)
            sent += 1
            if self._settles:
                self._records.settle(taken, Acknowledgement.ACCEPT)
            else:
                self._sent[delivery] = taken
        if sent:
            self._request.sent(sent)

    def _encode(self, taken: PolledRecord) -> bytes | None:
        """The message of a record, or None if it is not wanted, or not any more."""
        if self._is_plain and not taken.deliveries:
            read = taken.read
            plain = encode_plain(
                self._address, taken.topic, taken.partition, taken.offset, read.key, read.value, read.headers
            )
            if plain is not None:
                return plain
        message = self._converter.to_amqp_message(self.source.address or "", taken.record)
        if not self._wants(message) or _has_expired(message):
            return None
        properties = message.application_properties
        if properties and CLIENT in properties:
            others = {name: value for name, value in properties.items() if name != CLIENT}
            message = message.replace(application_properties=others or None)
        if taken.deliveries:
            header = replace(message.header or MessageHeader(), delivery_count=taken.deliveries)
            message = message.replace(header=header)
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
                return made  # an unknown one never commits: what is in it comes again when the link ends
            transaction.enlist(made)
            self._in_transactions[transaction_id] = made
        return self._in_transactions[transaction_id]

    def _keep(self, taken: PolledRecord, why: str) -> None:
        self._spawn(self._put_away(taken, RefusedFailure(f"rejected by the receiver: {why}")))

    async def _put_away(self, taken: PolledRecord, failure: SoftFailure) -> None:
        try:
            await self._undeliverable(taken.record, failure)
        except HardFailure as problem:
            self.on_failed(INTERNAL_ERROR, str(problem))
        else:
            self._records.settle(taken, Acknowledgement.REJECT)

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

    def add(self, taken: PolledRecord, outcome: object) -> None:
        """Remember an outcome."""
        self._decided.append((taken, outcome))

    def can_commit(self) -> bool:
        """Whether all records that were accepted are still ours to accept."""
        return all(self._link.holds(taken) for taken, _ in self._decided)

    def commit(self) -> None:
        """They hold."""
        self._forget()
        for taken, outcome in self._decided:
            self._link.decide(taken, outcome)

    def roll_back(self) -> None:
        """They are void."""
        self._forget()
        for taken, _ in self._decided:
            self._link.fail(taken)


def _said(error: Error | None) -> str:
    return (
        "no reason given" if error is None else f"{error.condition}: {error.description or ''}".rstrip(": ")
    )

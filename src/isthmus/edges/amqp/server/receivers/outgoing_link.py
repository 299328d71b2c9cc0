"""Fills a link with records: as many as there is credit for, each until it is decided.

A settled link gets every message at most once, any other at least once. Accepted records are done with;
released and modified ones are delivered again; rejected ones, and records that cannot be converted, go where
`Undeliverable` puts them, and count as done with only then. What has expired, or is not wanted, is done with
unsent. What a client decides in a transaction holds once that commits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from isthmus.codecs.amqp import AmqpMessage, MessageHeader
from isthmus.converters import MessageConverter, ReceivedRecord, converter
from isthmus.converters.jms_fast_path import encode_plain
from isthmus.edges.amqp.protocol import Delivery
from isthmus.edges.amqp.protocol.composite import Composite, interpret
from isthmus.edges.amqp.protocol.conditions import INTERNAL_ERROR
from isthmus.edges.amqp.protocol.performatives import SETTLED
from isthmus.edges.amqp.protocol.terms import (
    RELEASED,
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
from isthmus.edges.amqp.server.receivers.turns import Turns
from isthmus.errors import HardFailure, OversizeFailure, RefusedFailure, SoftFailure
from isthmus.events.amqp import RecordSkipped
from isthmus.journal.layout import CLIENT, HEADER_PREFIX
from isthmus.kafka.records import PolledRecord

JMS: Final = converter("jms")
SENDER_HEADERS: Final = (CLIENT, f"{HEADER_PREFIX}{CLIENT}")
DRAIN_S = 8.0
"""How long an answer to drain waits for Kafka to say what it has. Joining a group takes seconds."""

MAX_REASON: Final = 1000
"""How many characters of a reason for a rejection are of interest."""

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
    RecordSkipped(record.topic, record.partition, record.offset, failure).emit()


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
        turns: Turns | None = None,
    ) -> None:
        """``turns`` is the time that there is to convert records, and to compare them."""
        self.source = source
        self._request = request
        self._link = request.link
        self._records = records
        self._converter = converter
        self._wants = wants
        self._unwanted_client = None if unwanted_client is None else unwanted_client.encode()
        self._address = (source.address or "").encode()
        self._is_plain = converter is JMS and wants is everything
        self._turns = turns or Turns()
        self._undeliverable = undeliverable
        self._closed = closed
        self._settles = request.attach.snd_settle_mode == SETTLED
        self._ready: deque[PolledRecord] = deque()
        self._sent: dict[Delivery, PolledRecord] = {}
        self._resumed: deque[_Resumed] = deque()
        """What the client resumes, to be sent before all else."""
        self._kept: list[PolledRecord] = []
        """What was sent before the link was resumed, and the client has not yet said anything of."""
        self._sends_new = True
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
        wanted = max(0, self._link.credit - len(self._ready)) if self._sends_new else 0
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
                acknowledgements.add(delivery, record, outcome)
                continue  # what the client has not settled is settled after the discharge (4.4.2)
            if record is not None:
                self.decide(record, outcome)
            if not settled and (acknowledgements is None or not acknowledgements.has(delivery)):
                delivery.settle(state)
        self._request.wake()

    @property
    def unsettled(self) -> list[bytes]:
        """See `OutgoingLink`."""
        return [record.tag for record in self._unsettled()]

    def resume(self, request: ReceiverRequest, *, lost: bool) -> None:
        """Go on over another link. With an incomplete map of the client's nothing new may be sent (2.7.3)."""
        attach = request.attach
        known = attach.unsettled or {}
        unsettled = self._unsettled()
        states = {each.tag: interpret(known[each.tag]) for each in unsettled if each.tag in known}
        self._sends_new = not attach.incomplete_unsettled
        self._link, self._request = request.link, request
        self._stop_draining()
        resumed: deque[_Resumed] = deque()
        kept: list[PolledRecord] = []
        for record in unsettled:
            tag = record.tag
            outcome = states.get(tag)
            if isinstance(outcome, Accepted | Rejected | Released | Modified):
                self.decide(record, outcome)
                resumed.append(_Resumed(tag, None, outcome))
            elif tag in states:
                resumed.append(_Resumed(tag, record, None))
            elif self._sends_new:
                self._records.settle(record, Acknowledgement.FAIL if lost else Acknowledgement.RELEASE)
            else:
                kept.append(record)
        self._sent, self._resumed, self._kept = {}, resumed, kept

    def _unsettled(self) -> list[PolledRecord]:
        resumed = [each.record for each in self._resumed if each.record is not None]
        return [*self._kept, *resumed, *self._sent.values()]

    async def close(self, *, detached: bool, lost: bool) -> None:
        """Give back what is not decided, and make the rest hold.

        A client that closes a link in good order has read nothing of what it leaves undecided. One that is
        ``lost``, or ends its session, may have: that is marked as delivered before.
        """
        self._over = True
        self._stop_draining()
        if self._tasks:
            await asyncio.wait(self._tasks)
        unsettled = self._unsettled()
        self._sent, self._resumed, self._kept = {}, deque(), []
        ready, self._ready = self._ready, deque()
        for record in unsettled:
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
        self._kept = [each for each in self._kept if each.partition not in partitions]
        self._resumed = deque(
            each for each in self._resumed if each.record is None or each.record.partition not in partitions
        )
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
                if not self._records.decline(record, failed=outcome.delivery_failed):
                    self._reject(record, "it is undeliverable here, and no other receiver can have it")
            case Modified(delivery_failed=True):
                self._records.settle(record, Acknowledgement.FAIL)
            case _:
                self._records.settle(record, Acknowledgement.RELEASE)

    def holds(self, record: PolledRecord) -> bool:
        """Whether an acceptance would hold."""
        return self._records.holds(record)

    def fail(self, delivery: Delivery, record: PolledRecord) -> None:
        """Give a record back, since the transaction that took it did not commit: to the client, which goes on
        to have a delivery that it has not settled (4.4.2), or else to be delivered again."""
        if delivery.settled or self._over or delivery.link is not self._link or not self._link.speaks:
            self._records.settle(record, Acknowledgement.FAIL)
        else:
            self._sent[delivery] = record

    def answer(self, delivery: Delivery, outcome: object) -> None:
        """Settle a delivery whose outcome holds now, unless the client has, or has detached the link: then
        it finds nothing of it should it resume."""
        if not delivery.settled and delivery.link.speaks:
            delivery.settle(outcome)
            self._request.wake()

    # Inside

    def _send_resumed(self) -> None:
        """Send what the client resumes: what it has decided is only settled, the rest is sent again."""
        link = self._link
        while self._resumed and link.credit > 0 and link.attached and not self._request.congested():
            if not self._turns.has_time():
                self._turns.later(self.on_flow)
                return
            resumed = self._resumed.popleft()
            record = resumed.record
            if record is None:
                link.send(resumed.tag, b"", settled=True, state=resumed.outcome, resume=True)
                continue
            data = self._encode(record)  # as before: it is not sent here that has not been sent already
            if data is None:  # it has expired since
                self._records.settle(record, Acknowledgement.ACCEPT)
                link.send(resumed.tag, b"", settled=True, state=RELEASED, resume=True)
            else:
                self._sent[link.send(resumed.tag, data, resume=True)] = record

    def _send(self) -> None:
        link = self._link
        sent = size = 0
        if self._resumed:
            self._send_resumed()
        if self._resumed or not self._sends_new:
            return
        while self._ready and link.credit > 0 and link.attached and not self._request.congested():
            is_plain = self._is_plain and not self._ready[0].deliveries
            if not is_plain and not self._turns.has_time():
                self._turns.later(self.on_flow)
                break
            record = self._ready.popleft()
            try:
                data = self._encode(record)
            except SoftFailure as failure:
                self._spawn(self._dead_letter(record, failure))
                continue
            if data is None:
                self._records.settle(record, Acknowledgement.ACCEPT)
                continue
            if link.max_message_size and len(data) > link.max_message_size:
                self._decline_oversize(record, len(data))
                continue
            delivery = link.send(record.tag, data, settled=self._settles)
            sent += 1
            size += len(data)
            if self._settles:
                self._records.settle(record, Acknowledgement.ACCEPT)
            else:
                self._sent[delivery] = record
        if sent:
            self._request.sent(sent, size)

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

    def _decline_oversize(self, record: PolledRecord, size: int) -> None:
        """Leave a message that the client does not take to others, or to the dead letters (2.7.3)."""
        if self._settles or not self._records.decline(record, failed=False):
            said = f"the message has {size} bytes; the receiver takes {self._link.max_message_size}"
            self._spawn(self._dead_letter(record, OversizeFailure(said)))

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


class _Resumed:
    """A delivery that the client resumes: with its record, unless the client has decided on it."""

    def __init__(self, tag: bytes, record: PolledRecord | None, outcome: Composite | None) -> None:
        self.tag = tag
        self.record = record
        self.outcome = outcome


class _Acknowledgements:
    """What a client decided in one transaction."""

    def __init__(self, outgoing_link: KafkaOutgoingLink, forget: Callable[[], object]) -> None:
        self._link = outgoing_link
        self._forget = forget
        self._decided: dict[Delivery, tuple[PolledRecord, object]] = {}

    def add(self, delivery: Delivery, record: PolledRecord, outcome: object) -> None:
        """Remember an outcome: as much of it as matters, for however long the transaction takes."""
        self._decided[delivery] = record, _lean(outcome)

    def has(self, delivery: Delivery) -> bool:
        """Whether an outcome of it is remembered."""
        return delivery in self._decided

    def can_commit(self) -> bool:
        """Whether all records that were accepted are still ours to accept."""
        return all(self._link.holds(record) for record, _ in self._decided.values())

    def commit(self) -> None:
        """They hold."""
        self._forget()
        for delivery, (record, outcome) in self._decided.items():
            self._link.decide(record, outcome)
            self._link.answer(delivery, outcome)

    def roll_back(self) -> None:
        """They are void."""
        self._forget()
        for delivery, (record, _) in self._decided.items():
            self._link.fail(delivery, record)


def _lean(outcome: object) -> object:
    """An outcome without what is not acted on. Whatever is none counts as released."""
    match outcome:
        case None | Accepted() | Released():
            return outcome
        case Modified():
            return Modified(outcome.delivery_failed, outcome.undeliverable_here)
        case Rejected(Error() as error):
            return Rejected(
                Error(error.condition[:MAX_REASON], (error.description or "")[:MAX_REASON] or None)
            )
        case Rejected():
            return outcome
        case _:
            return RELEASED


def _said(error: Error | None) -> str:
    if error is None:
        return "no reason given"
    return f"{error.condition}: {error.description or ''}".rstrip(": ")[:MAX_REASON]

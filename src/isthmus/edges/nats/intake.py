"""Takes messages from NATS into the journal.

`SubjectIntake` subscribes to a subject, alone or in a queue group. NATS itself keeps nothing of these: what
is published while the bridge does not run is not for the bridge.

`StreamIntake` pulls from a stream through a durable consumer. A message is acknowledged when the journal has
it, so it is redelivered after a crash on either side. For as long as it waits for the journal the server is
told that it is in progress, and does not redeliver it. One that was delivered more often than the redelivery
limit is dead-lettered, as is one that cannot be read; both are terminated.

Whatever else goes wrong while a message is taken ends the intake: nothing waits for ever, and nothing is lost
in silence.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import nats.errors
from nats.aio.msg import Msg

from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.edges.contract import DeadLetters, Journal, Traffic
from isthmus.edges.in_flight import InFlight
from isthmus.edges.nats.client import NatsClient
from isthmus.edges.nats.streams import ACK_WAIT_S, ensure_consumer
from isthmus.edges.nats.translate import Arrived, FromNats, from_nats
from isthmus.edges.reconnect import Backoff
from isthmus.edges.running import end_if_cancelled
from isthmus.errors import ConversionFailure, HardFailure, RedeliveryFailure, SoftFailure, Unreachable
from isthmus.events.nats import AcknowledgementsDelayed, IntakeFailed
from isthmus.journal.layout import Entry, Op
from isthmus.message import Message

FINISH_S = 10.0
"""How long an intake that ends waits for the journal."""
IN_FLIGHT = 2_000
HEARTBEAT_S = 5.0
_EXPIRY_S = 60.0
_PAUSE_S = 0.5
"""Between two looks for a consumer that was there and is not."""
_NEVER = -math.inf
_BUFFER_BYTES = 256 * 2**20


def _arrived(message: Msg, reply: str = "") -> Arrived:
    return Arrived(message.subject, message.data, message.headers, reply)


def _reading(read: FromNats) -> FromNats:
    """A mistake of the bridge's own shall cost no more than the one message on which it shows."""

    def read_or_refuse(arrived: Arrived, own_id: str) -> Message:
        try:
            return read(arrived, own_id)
        except SoftFailure:
            raise
        except Exception as error:
            IntakeFailed(arrived.subject).emit(trace=error)
            raise ConversionFailure(f"the bridge fails on it: {type(error).__name__}: {error}") from error

    return read_or_refuse


def _heeded(in_flight: InFlight, take: Callable[[Msg], Awaitable[None]]) -> Callable[[Msg], Awaitable[None]]:
    """The callback for nats-py, which keeps to itself what a callback raises."""

    async def on_message(message: Msg) -> None:
        try:
            await take(message)
        except Exception as error:
            in_flight.fail(error)

    return on_message


class SubjectIntake:
    """Everything that is published to a subject, from `run` until that is cancelled."""

    def __init__(
        self,
        client: NatsClient,
        journal: Journal,
        source: NatsIntakeSettings,
        *,
        dead_letters: DeadLetters,
        read: FromNats = from_nats,
        in_flight: int = IN_FLIGHT,
        finish_s: float = FINISH_S,
    ) -> None:
        self.traffic = Traffic()
        self.ready = asyncio.Event()
        self._client = client
        self._journal = journal
        self._source = source
        self._dead_letters = dead_letters
        self._read = _reading(read)
        self._limit = in_flight
        self._finish_s = finish_s

    async def run(self) -> None:
        """Take messages until cancelled. Raises what the journal refuses with."""
        in_flight = InFlight(self._journal, self._dead_letters, traffic=self.traffic)

        async def on_message(message: Msg) -> None:
            arrived = _arrived(message, message.reply)
            own_id = f"ID:{uuid.uuid4()}"
            await in_flight.room(self._limit)
            try:
                in_flight.put(Entry(Op.ADD, self._read(arrived, own_id)))
            except SoftFailure as failure:
                in_flight.dead_letter(from_nats(arrived, own_id), failure)

        client = await self._client.available()
        subscription = await client.subscribe(
            self._source.subject,
            queue=self._source.queue or "",
            cb=_heeded(in_flight, on_message),
            pending_bytes_limit=_BUFFER_BYTES,
        )
        self.ready.set()
        try:
            end_if_cancelled()
            await in_flight.failure
        finally:
            # What the server has sent already is taken; one that is unavailable has sent nothing more.
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await asyncio.wait_for(subscription.drain(), self._finish_s)  # type: ignore[no-untyped-call]
            await in_flight.finish(self._finish_s)


class StreamPosition(NamedTuple):
    """Which message of a stream it is, and how often it was delivered."""

    stream: str
    sequence: int
    delivered: int


def stream_position(acknowledgement: str) -> StreamPosition:
    """What the subject says on which a message of JetStream is acknowledged.

    ``$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.…``, with domain and account before the stream in
    newer servers.
    """
    tokens = acknowledgement.split(".")
    first = 2 if len(tokens) == 9 else 4
    return StreamPosition(tokens[first], int(tokens[first + 3]), int(tokens[first + 2]))


class StreamIntake:
    """The messages of a stream, from `run` until that is cancelled."""

    def __init__(
        self,
        client: NatsClient,
        journal: Journal,
        source: NatsIntakeSettings,
        *,
        dead_letters: DeadLetters,
        read: FromNats = from_nats,
        create_stream: bool = False,
        ack_wait_s: float = ACK_WAIT_S,
        in_flight: int = IN_FLIGHT,
        finish_s: float = FINISH_S,
    ) -> None:
        self.traffic = Traffic()
        self.ready = asyncio.Event()
        self._client = client
        self._journal = journal
        self._source = source
        self._dead_letters = dead_letters
        self._read = _reading(read)
        self._create_stream = create_stream
        self._ack_wait_s = ack_wait_s
        self._limit = in_flight
        self._finish_s = finish_s
        self._unacknowledged: dict[str, float] = {}
        """By the subject of its acknowledgement: since when the server thinks that we have a message."""
        self._requested = 0
        """How many messages the server may still send on what was requested."""
        self._heard = _NEVER
        self._due: list[tuple[str, bytes]] = []
        """Acknowledgements that are to be sent: subject and payload."""
        self._sending: asyncio.Future[None] | None = None
        self._wake = asyncio.Event()
        self._backoff = Backoff(
            f"NATS {source.subject}, consumer {source.durable}", longest_wait_s=HEARTBEAT_S
        )

    async def run(self) -> None:
        """Take messages until cancelled. Raises what the journal refuses with, or why there is no stream."""
        in_flight = InFlight(self._journal, self._dead_letters, traffic=self.traffic)
        self._client.on_return.append(self._forget_requests)
        pulling = asyncio.ensure_future(self._pull(in_flight))
        try:
            await asyncio.wait((pulling, in_flight.failure), return_when=asyncio.FIRST_COMPLETED)
            for ended in (in_flight.failure, pulling):
                if ended.done():
                    ended.result()
        finally:
            self._client.on_return.remove(self._forget_requests)
            pulling.cancel()
            await asyncio.wait((pulling,))
            await in_flight.finish(self._finish_s)
            if self._sending is not None:
                await self._sending

    async def _acknowledge(self) -> None:
        """Send what is due, in one go for all that the journal has told at once."""
        while self._due:
            due, self._due = self._due, []
            try:
                client = self._client.live
                for acknowledgement, answer in due:
                    await client.publish(acknowledgement, answer)
            except (Unreachable, HardFailure, nats.errors.Error):
                AcknowledgementsDelayed(len(due)).emit()
        if self._requested + len(self._unacknowledged) <= self._limit // 2:
            self._wake.set()

    async def _pull(self, in_flight: InFlight) -> None:
        async def on_message(message: Msg) -> None:
            await self._on_message(in_flight, message)

        inbox = ""
        next_message = ""
        subscription = None
        try:
            while True:
                end_if_cancelled()
                try:
                    client = self._client.live
                    if self._heard + 3 * HEARTBEAT_S < time.monotonic():
                        stream, durable = await ensure_consumer(
                            self._client,
                            self._source,
                            create=self._create_stream,
                            ack_wait_s=self._ack_wait_s,
                        )
                        next_message = f"{self._client.api_prefix}.CONSUMER.MSG.NEXT.{stream}.{durable}"
                        self._forget_requests()
                    if subscription is None:
                        inbox = client.new_inbox()
                        subscription = await client.subscribe(
                            inbox, cb=_heeded(in_flight, on_message), pending_bytes_limit=_BUFFER_BYTES
                        )
                        self.ready.set()
                    self._wake.clear()
                    room = self._limit - self._requested - len(self._unacknowledged)
                    if room >= max(1, self._limit // 2):
                        await client.publish(next_message, _request(room), inbox)
                        self._requested += room
                    await self._tell_of_progress()
                    self._backoff.succeeded()
                except Unreachable:
                    pass  # the client tells, and `on_return` wakes
                except (nats.errors.Error, TimeoutError) as error:
                    self._backoff.failed(error)
                end_if_cancelled()
                wait_s = self._backoff.next_wait_s() or min(HEARTBEAT_S, self._ack_wait_s / 3)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), wait_s)
        finally:
            if subscription is not None:
                with contextlib.suppress(nats.errors.Error):
                    await subscription.unsubscribe()

    async def _on_message(self, in_flight: InFlight, message: Msg) -> None:
        self._heard = time.monotonic()
        if not message.reply:
            self._on_status(message)
            return
        self._requested = max(0, self._requested - 1)
        acknowledgement = message.reply
        position = stream_position(acknowledgement)
        arrived = _arrived(message)
        own_id = f"{position.stream}:{position.sequence}"
        self._unacknowledged[acknowledgement] = self._heard

        def settle(answer: bytes = b"") -> None:
            del self._unacknowledged[acknowledgement]
            self._due.append((acknowledgement, answer))
            if self._sending is None or self._sending.done():
                self._sending = asyncio.ensure_future(self._acknowledge())

        # What is in flight may be redelivered after a reconnection: hence twice as many as are asked for.
        await in_flight.room(2 * self._limit)
        try:
            if position.delivered > self._source.redelivery_limit:
                raise RedeliveryFailure(
                    f"delivered {position.delivered} times and never settled", deliveries=position.delivered
                )
            read = self._read(arrived, own_id)
        except SoftFailure as failure:
            in_flight.dead_letter(from_nats(arrived, own_id), failure, lambda: settle(Msg.Ack.Term))
        else:
            in_flight.put(Entry(Op.ADD, read), settle)

    def _on_status(self, message: Msg) -> None:
        """A request that has ended, or a heartbeat."""
        headers = message.headers or {}
        match headers.get("Status"):
            case "100":
                return
            case "404" | "409" | "503":  # the consumer may be gone: look for it soon
                self._heard = _NEVER
                asyncio.get_running_loop().call_later(_PAUSE_S, self._wake.set)
            case _:
                self._wake.set()
        self._requested = max(0, self._requested - int(headers.get("Nats-Pending-Messages", self._requested)))

    def _forget_requests(self) -> None:
        """The server that was asked does not answer any more."""
        self._requested = 0
        self._heard = time.monotonic()
        self._wake.set()

    async def _tell_of_progress(self) -> None:
        """Have the server wait longer for messages that the journal does not have yet."""
        now = time.monotonic()
        for acknowledgement, since in list(self._unacknowledged.items()):
            if now - since > self._ack_wait_s / 3:
                self._unacknowledged[acknowledgement] = now
                await self._client.live.publish(acknowledgement, Msg.Ack.Progress)


def _request(messages: int) -> bytes:
    return json.dumps(
        {
            "batch": messages,
            "expires": int(_EXPIRY_S * 1e9),
            "idle_heartbeat": int(HEARTBEAT_S * 1e9),
        }
    ).encode()

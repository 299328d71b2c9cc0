"""Publishes messages to NATS: to plain subjects, or to JetStream.

A message's destination is a subject. ``jetstream:orders`` and ``core:orders`` say how it is published;
without either, ``nats.publish`` does. The destination ``_INBOX`` stands for whoever asked: the subject is
then the message's header ``Destination``, which must be an inbox.

- To JetStream: the message is delivered when a stream has acknowledged it. ``Nats-Msg-Id`` is the stable id,
  so that a stream drops duplicates within its duplicate window.
- To a plain subject: when the server has it. Nobody knows more: NATS keeps no messages there.

Many messages are in flight at a time; those of one destination are on the wire in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence

import nats.errors
from nats.aio.client import Client

from isthmus.config.model.nats_values import CORE, INBOX, JETSTREAM
from isthmus.edges.contract import OutboundMessage
from isthmus.edges.nats.client import NatsClient
from isthmus.edges.nats.publishing import NO_STREAM, Batch, Lines, Refusal, StreamPublisher
from isthmus.edges.nats.streams import ensure_stream
from isthmus.edges.nats.translate import Outgoing, Replies, ToNats, own_subject, to_nats
from isthmus.errors import ConversionFailure, OversizeFailure, SoftFailure, Unreachable
from isthmus.journal import layout

ACK_TIMEOUT_S = 10.0
NO_STREAM_S = 30.0
"""For how long a subject may have no stream before its messages are given up: servers restart."""

_TOO_LARGE = 10054  # JetStream's error code: the message exceeds what the stream takes


class NatsDelivery:
    """Delivery to NATS, as `isthmus.edges.contract` describes it."""

    def __init__(
        self,
        client: NatsClient,
        *,
        publish: str = "core",
        forms: Mapping[str, ToNats] | None = None,
        replies: Replies = own_subject,
        create_streams: bool = False,
        no_stream_s: float = NO_STREAM_S,
    ) -> None:
        """``forms`` says how messages for a destination are written, where that is not `to_nats`."""
        self._client = client
        self._to_jetstream = publish == "jetstream"
        self._forms = forms or {}
        self._replies = replies
        self._create_streams = create_streams
        self._no_stream_s = no_stream_s
        self._publisher: tuple[Client, StreamPublisher] | None = None
        self._no_stream_since: dict[str, float] = {}

    async def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[SoftFailure | None]:
        """Publish the messages, in order; return when NATS has them."""
        client = self._client.live
        breaks = self._client.counts.disconnects
        answers: list[SoftFailure | None] = [None] * len(messages)
        for_streams: list[tuple[int, Outgoing]] = []
        published = False
        try:
            for index, outbound in enumerate(messages):
                try:
                    subject, is_stream = self._destination(outbound)
                    outgoing = self._outgoing(outbound, subject)
                    _check_size(outgoing, client.max_payload)
                except SoftFailure as failure:
                    answers[index] = failure
                    continue
                if is_stream:
                    for_streams.append((index, outgoing))
                else:
                    published = True
                    lines = Lines(outgoing.headers)
                    await client.publish(subject, outgoing.payload, outgoing.reply, lines)
            if published:
                await client.flush(int(ACK_TIMEOUT_S))
            refusals = await self._publish_to_streams(
                client, [outgoing for _, outgoing in for_streams], breaks
            )
        except (nats.errors.Error, TimeoutError) as error:
            raise Unreachable(f"NATS did not take messages: {error or type(error).__name__}") from error
        if self._client.counts.disconnects != breaks:
            raise Unreachable("the connection to NATS broke: what it has is not known")
        for (index, outgoing), refusal in zip(for_streams, refusals, strict=True):
            answers[index] = await self._judge(outgoing.subject, refusal)
        return answers

    def _destination(self, outbound: OutboundMessage) -> tuple[str, bool]:
        """The subject, and whether it is a stream's."""
        destination = outbound.destination
        if destination == INBOX:
            headers = layout.decode_headers(outbound.record.headers)
            asked = headers["Destination"].text if "Destination" in headers else ""
            if not asked.startswith(f"{INBOX}."):
                raise ConversionFailure("nobody waits for this answer: its Destination is no inbox")
            return asked, False
        if destination.startswith(JETSTREAM):
            return destination.removeprefix(JETSTREAM), True
        if destination.startswith(CORE):
            return destination.removeprefix(CORE), False
        return destination, self._to_jetstream

    def _outgoing(self, outbound: OutboundMessage, subject: str) -> Outgoing:
        form = self._forms.get(outbound.destination, to_nats)
        return form(outbound.id, subject, outbound.record, self._replies)

    async def _publish_to_streams(
        self, client: Client, messages: Sequence[Outgoing], breaks: int
    ) -> Sequence[Refusal | None]:
        if self._publisher is None or self._publisher[0] is not client:
            self._publisher = client, StreamPublisher(client)

        async def wait(batch: Batch) -> None:
            deadline = time.monotonic() + ACK_TIMEOUT_S
            # What was lost with a connection is never acknowledged: no need to wait for that.
            while time.monotonic() < deadline and self._client.counts.disconnects == breaks:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(batch.answered.wait(), 0.25)
                    return
            raise Unreachable(f"JetStream has not acknowledged {batch.unanswered} messages")

        return await self._publisher[1].publish(messages, wait)

    async def _judge(self, subject: str, refusal: Refusal | None) -> SoftFailure | None:
        if refusal is None:
            self._no_stream_since.pop(subject, None)
            return None
        if refusal.err_code == _TOO_LARGE:
            return OversizeFailure(f"larger than the stream of {subject} takes")
        if refusal.code == NO_STREAM and not refusal.err_code:
            return await self._without_stream(subject)
        raise Unreachable(f"JetStream did not take a message for {subject}: {refusal.description}")

    async def _without_stream(self, subject: str) -> SoftFailure:
        if self._create_streams:
            await ensure_stream(self._client.jetstream, subject, create=True)
            raise Unreachable(f"a stream for {subject} was made just now")
        since = self._no_stream_since.setdefault(subject, time.monotonic())
        if time.monotonic() - since < self._no_stream_s:
            raise Unreachable(f"no stream of JetStream has the subject {subject}")
        return ConversionFailure(f"no stream of JetStream has the subject {subject}")


def _check_size(outgoing: Outgoing, max_payload: int) -> None:
    size = sum(len(name) + len(value.encode()) + 4 for name, value in outgoing.headers) + 12
    size += len(outgoing.payload)
    if size > max_payload:
        raise OversizeFailure(
            f"larger than the {max_payload} bytes that NATS takes, headers included",
            size=size,
            limit=max_payload,
        )

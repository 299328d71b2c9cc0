"""Publishes to JetStream: many messages at a time, and what a stream says to each.

nats-py can do this too, one semaphore and one future per message, but never tells when a stream refuses one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from isthmus.edges.nats.translate import HeaderLines, Outgoing

NO_STREAM = 503
"""The code of an answer that comes from nobody."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a message is not in a stream."""

    code: int
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct):
    error: Refusal | None = None


_decode = msgspec.json.Decoder(_Answer).decode
_NOBODY = Refusal(NO_STREAM, description="no stream has this subject")


class Batch:
    """Messages that were published together."""

    def __init__(self, size: int) -> None:
        self.refusals: list[Refusal | None] = [None] * size
        self.unanswered = size
        self.answered = asyncio.Event()

    def answer(self, index: int, refusal: Refusal | None) -> None:
        """A stream has spoken about a message."""
        self.refusals[index] = refusal
        self.unanswered -= 1
        if not self.unanswered:
            self.answered.set()


class StreamPublisher:
    """Publishes over one connection, until that is closed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._inbox = client.new_inbox()
        self._numbers = itertools.count()
        self._waiting: dict[str, tuple[Batch, int]] = {}
        self._subscribed = False

    async def publish(
        self, messages: Sequence[Outgoing], wait: Callable[[Batch], Any]
    ) -> list[Refusal | None]:
        """Publish in order, have ``wait`` wait for the answers, and say which were refused.

        ``wait`` may give up by raising.
        """
        if not self._subscribed:
            await self._client.subscribe(f"{self._inbox}.*", cb=self._on_answer)
            self._subscribed = True
        batch = Batch(len(messages))
        tokens = [str(next(self._numbers)) for _ in messages]
        try:
            for index, (token, message) in enumerate(zip(tokens, messages, strict=True)):
                self._waiting[token] = batch, index
                headers = message.headers
                if message.reply:  # the reply subject is where JetStream answers
                    headers = [*headers, ("ReplyTo", message.reply)]
                await self._client.publish(
                    message.subject, message.payload, f"{self._inbox}.{token}", Lines(headers)
                )
            if messages:
                await wait(batch)
        finally:
            for token in tokens:
                self._waiting.pop(token, None)
        return batch.refusals

    async def _on_answer(self, message: Msg) -> None:
        batch, index = self._waiting.pop(message.subject.rpartition(".")[2], (None, 0))
        if batch is None:
            return
        if message.headers and message.headers.get("Status") == str(NO_STREAM):
            batch.answer(index, _NOBODY)
            return
        try:
            refusal = _decode(message.data).error
        except msgspec.DecodeError:  # somebody who is no stream listens there, and answers
            refusal = Refusal(NO_STREAM, description="what answers is not JetStream")
        batch.answer(index, refusal)


class Lines(dict[str, Any]):
    """Headers for nats-py, which writes what `items` says: here a name may come several times."""

    def __init__(self, lines: HeaderLines) -> None:
        super().__init__(lines)
        self._lines = lines

    def items(self) -> Any:
        """Every line, in order."""
        return self._lines

"""A bridge's client and somebody else's, for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from nats.aio.client import Client

from isthmus.config.model.nats import NatsSettings
from isthmus.edges.contract import OutboundMessage
from isthmus.edges.nats.client import NatsClient, OrderlyClient
from isthmus.journal.layout import Record, encode_headers
from isthmus.message import Header


@contextlib.asynccontextmanager
async def bridge(*urls: str, **more: object) -> AsyncIterator[NatsClient]:
    client = NatsClient(NatsSettings(servers=urls, max_backoff_s=0.2, **more))  # type: ignore[arg-type]
    await client.connect()
    try:
        yield client
    finally:
        await client.close()


async def connect(url: str, **options: Any) -> Client:
    """A client of somebody else's, though with our flush: else a subscription may come too late."""
    client = OrderlyClient()
    await client.connect(url, **options)
    return client


@contextlib.asynccontextmanager
async def peer(url: str) -> AsyncIterator[Client]:
    client = await connect(url)
    try:
        yield client
    finally:
        await client.close()


def outbound(
    destination: str, body: bytes | None = b"body", *, id: str = "j:0:1", **headers: Header
) -> OutboundMessage:
    return OutboundMessage(id, destination, Record(b"k", body, encode_headers(headers)))

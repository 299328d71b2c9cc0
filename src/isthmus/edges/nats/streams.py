"""Streams and durable consumers: found, or made where that was asked for."""

from __future__ import annotations

import re

from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig
from nats.js.errors import BadRequestError, NotFoundError

from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.config.model.nats_values import Start
from isthmus.edges.nats.client import NatsClient
from isthmus.errors import HardFailure

ACK_WAIT_S = 30.0
"""After how long without a sign a message is redelivered."""
MAX_ACK_PENDING = 20_000
"""How many messages may wait for their acknowledgement: more than any one intake has in flight."""

_POLICIES = {
    "first": DeliverPolicy.ALL,
    "last": DeliverPolicy.LAST,
    "new": DeliverPolicy.NEW,
    "sequence": DeliverPolicy.BY_START_SEQUENCE,
    "time": DeliverPolicy.BY_START_TIME,
}


async def ensure_stream(jetstream: JetStreamContext, subject: str, *, create: bool) -> str:
    """The stream that has a subject. `HardFailure` if there is none, unless it is to be made."""
    try:
        return await jetstream.find_stream_name_by_subject(subject)
    except NotFoundError:
        if not create:
            raise HardFailure(
                f"no stream of JetStream has the subject {subject}",
                remedy=f"make one: nats stream add --subjects '{subject}', or set nats.jetstream.create=true",
            ) from None
    name = stream_name(subject)
    try:
        await jetstream.add_stream(StreamConfig(name=name, subjects=[subject]))
    except BadRequestError as error:
        raise HardFailure(
            f"the stream {name} for the subject {subject} cannot be made: {error.description}",
            remedy="make a stream with this subject by hand",
        ) from None
    return name


def stream_name(subject: str) -> str:
    """What a stream is called that the bridge makes for a subject."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", subject)


async def ensure_consumer(
    client: NatsClient, source: NatsIntakeSettings, *, create: bool, ack_wait_s: float = ACK_WAIT_S
) -> tuple[str, str]:
    """Stream and name of the durable consumer, made at its start if it is not there yet.

    Raises `HardFailure` for a stream that is not there, and for a consumer that is but cannot be used.
    """
    jetstream = client.jetstream
    durable = source.durable or ""
    stream = source.stream or await ensure_stream(jetstream, source.subject, create=create)
    try:
        found = (await jetstream.consumer_info(stream, durable)).config
    except NotFoundError:
        try:
            await jetstream.add_consumer(stream, _consumer(source, ack_wait_s))
        except (BadRequestError, NotFoundError) as error:
            raise _unusable(stream, durable, error.description or str(error)) from None
        return stream, durable
    if found.deliver_subject or found.ack_policy != AckPolicy.EXPLICIT:
        raise _unusable(
            stream, durable, "it is not one that is pulled from and acknowledged message by message"
        )
    return stream, durable


def _consumer(source: NatsIntakeSettings, ack_wait_s: float) -> ConsumerConfig:
    start: Start = source.start
    return ConsumerConfig(
        durable_name=source.durable,
        filter_subject=source.subject,
        deliver_policy=_POLICIES[start.at],
        opt_start_seq=start.sequence,
        opt_start_time=start.time,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ack_wait_s,
        # No limit in the server: it would stop delivering the message in silence.
        max_deliver=-1,
        max_ack_pending=MAX_ACK_PENDING,
    )


def _unusable(stream: str, durable: str, why: str) -> HardFailure:
    return HardFailure(
        f"the consumer {durable} of the stream {stream} cannot be used: {why}",
        remedy="give the intake another durable name, or remove that consumer",
    )

"""NATS and JetStream."""

from __future__ import annotations

from isthmus.events import Event


class Connected(Event, level="info", text="NATS at %(servers)s: connected"):
    """The first connection is made."""

    servers: str


class Refused(Event, level="error", text="%(error)s"):
    """NATS refuses the bridge for good, which ends it."""

    error: object


class MessagesDropped(
    Event,
    level="warning",
    text="NATS messages on %(subject)s arrive faster than they can be taken: some are lost",
):
    """Core NATS drops what a subscriber does not take in time. Told once; the metrics count each."""

    subject: str


class IntakeFailed(
    Event,
    level="error",
    text="NATS %(subject)s: the bridge fails on a message: please report this",
    limited=True,
):
    """A mistake of the bridge's own, with its traceback. The message goes where the error policy says."""

    subject: str


class AcknowledgementsDelayed(
    Event, level="debug", text="%(messages)d messages are in the journal and will be redelivered"
):
    """JetStream could not be told that messages were taken: it delivers them again, with the same id."""

    messages: int

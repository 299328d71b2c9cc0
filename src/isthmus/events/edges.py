"""What edges of all systems have in common."""

from __future__ import annotations

from isthmus.events import Event


class SystemUnavailable(Event, level="warning", text="%(system)s is unavailable: %(error)s"):
    """A system, or something in it, cannot be reached. Told once, however many attempts fail."""

    system: str
    error: object


class SystemAvailable(Event, level="info", text="%(system)s is available again"):
    """The end of `edges.system_unavailable`."""

    system: str


class OutboxUnreadable(Event, level="warning", text="%(topic)s: cannot be read now: %(error)s"):
    """Kafka does not let an outbox be read. Told once, until it can be read again."""

    topic: str
    error: str


class OutboxReadable(Event, level="info", text="%(topic)s: can be read again"):
    """The end of `edges.outbox_unreadable`."""

    topic: str


class OutboxNotCommitted(Event, level="warning", text="%(topic)s: no commit: %(error)s"):
    """Kafka refuses a commit of an outbox: what was delivered since the last one may be delivered again."""

    topic: str
    error: str


class MessageSkipped(
    Event, level="warning", text="%(where)s: a message was skipped: %(error)s", limited=True
):
    """A message that an edge can never handle was left out, as the error policy says."""

    where: str
    code: str
    error: str


class MessageDeadLettered(
    Event, level="warning", text="%(where)s: a message was dead-lettered: %(error)s", limited=True
):
    """A message that an edge can never handle is in the dead-letter topic."""

    where: str
    code: str
    error: str

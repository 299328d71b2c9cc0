"""Spark's queries: the router and the ledger."""

from __future__ import annotations

from isthmus.events import Event


class QueryStarted(Event, level="info", text="the %(query)s runs"):
    """A query was started, for whatever reason."""

    query: str


class QueryEnded(
    Event, level="warning", text="the %(query)s ended, and starts again in %(pause_s)g s: %(error)s"
):
    """A query failed for a reason that may pass. Until it runs, nothing is routed, or no outcome is known."""

    query: str
    pause_s: float
    error: object


class QueryRunsAgain(Event, level="warning", text="the %(query)s runs again"):
    """The end of `pipeline.query_ended`."""

    query: str


class TopicsChanged(Event, level="warning", text="%(change)s: the router starts again"):
    """What the router goes by is no longer so of a topic, such as its partitions: nothing is lost."""

    change: str


class Behind(
    Event,
    level="warning",
    text="%(records)d records are after the router's checkpoint, of which %(published)d are published "
    "(searched for %(seconds).1f s)",
):
    """A start has found records to catch up with, and what it must not publish again."""

    records: int
    published: int
    seconds: float


class Searching(Event, level="warning", text="%(what)s: %(seen)d records seen, %(found)d %(found_are)s"):
    """How far a start is with looking for what is published. Told every few seconds."""

    what: str
    seen: int
    found: int
    found_are: str


class DriverAwaited(Event, level="warning", text="waiting for the Spark driver of the last run to end"):
    """A start must not publish before the run before it can no longer."""


class MessageFailed(Event, level="warning", text="%(failure)s"):
    """The router has skipped or dead-lettered a message, or stopped at it."""

    failure: str
    position: str
    outcome: str
    route: str | None
    code: str | None


class MoreFailed(
    Event, level="warning", text="%(messages)d more messages failed; the topic of events has each"
):
    """So many lines of `pipeline.message_failed` were left out. Those messages are counted there."""

    messages: int

"""The monitor and its page."""

from __future__ import annotations

from isthmus.events import Event


class DeadLettersMoved(Event, level="warning", text="dead letters, by the monitor's page: %(counts)s"):
    """Somebody has replayed or dropped dead letters."""

    counts: str


class LookFailed(Event, level="error", text="the monitor could not look at the bridge"):
    """A mistake of the bridge's: the page shows nothing new. Told once, until it can look again."""


class AnswerFailed(Event, level="error", text="the monitor could not answer %(path)s", limited=True):
    """A mistake of the bridge's: whoever asked got the status 500."""

    path: str

"""IBM MQ."""

from __future__ import annotations

from isthmus.events import Event


class BackoutRefused(
    Event, level="warning", text="%(queue)s does not take what was backed out too often: %(error)s"
):
    """The backout queue cannot be used: the message goes where the error policy says."""

    queue: str
    error: object

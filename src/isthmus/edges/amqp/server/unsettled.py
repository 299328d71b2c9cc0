"""What is unsettled of a link, for clients that resume it: the maps of both sides, and outcomes (2.6.13).

Of a link that messages come in on, a delivery is unsettled until it has an outcome that the client is told,
or, in ``rcv-settle-mode`` second, until the client settles it. What gets its outcome while the link is
suspended stays unsettled: the client cannot know of it. So a sender that resumes learns the outcomes of what
the journal has, and sends again what never came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from isthmus.codecs.amqp import encode_value
from isthmus.edges.amqp.protocol.composite import Composite
from isthmus.edges.amqp.protocol.terms import RELEASED

Tell = Callable[[Composite], None]
"""Told the outcome of a delivery."""
_HEADS_BYTES = 3
"""What a tag and a missing state take in a map, beside the tag."""


class Unsettled:
    """The unsettled deliveries of one link that messages come in on, by their tags."""

    def __init__(self) -> None:
        self._states: dict[bytes, Composite | None] = {}
        """The outcomes; None for what has none yet."""
        self._resumed: dict[bytes, Tell] = {}

    def __len__(self) -> int:
        return len(self._states)

    def add(self, tag: bytes) -> None:
        """A delivery has begun. One of the same tag was settled, or its client would not begin another."""
        self._states[tag] = None
        self._resumed.pop(tag, None)

    def decide(self, tag: bytes, outcome: Composite | None) -> None:
        """A delivery has its outcome, or with None never will: then it is as if it had not been sent."""
        if tag not in self._states:
            return
        self._states[tag] = outcome
        tell = self._resumed.pop(tag, None)
        if outcome is None:
            self.forget(tag)
        if tell is not None:
            tell(RELEASED if outcome is None else outcome)

    def forget(self, tag: bytes) -> None:
        """A delivery is settled."""
        self._states.pop(tag, None)
        self._resumed.pop(tag, None)

    def resume(self, tag: bytes, tell: Tell) -> bool:
        """Tell the outcome of a delivery as soon as it is known. False if there is no such delivery."""
        if tag not in self._states:
            return False
        outcome = self._states[tag]
        if outcome is None:
            self._resumed[tag] = tell
        else:
            tell(outcome)
        return True

    def compare(self, known: Mapping[Any, Any], *, incomplete: bool) -> list[tuple[bytes, Composite | None]]:
        """What is unsettled on both sides, and then, if the client's map is ``incomplete``, on ours.

        What a complete map lacks, its client has settled.
        """
        if not incomplete:
            for tag in [tag for tag in self._states if tag not in known]:
                self.forget(tag)
        return sorted(self._states.items(), key=lambda entry: entry[0] not in known)


def told(entries: Iterable[tuple[bytes, Composite | None]], room: int) -> tuple[dict[bytes, Any], bool]:
    """As many entries as a map has room for, with their states; and whether some are left out."""
    fits: dict[bytes, Any] = {}
    for tag, state in entries:
        described = None if state is None else state.described()
        room -= len(tag) + _HEADS_BYTES + (0 if state is None else len(encode_value(described)))
        if room < 0:
            return fits, True
        fits[tag] = described
    return fits, False

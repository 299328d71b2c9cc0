"""What the router is to do, and what can become of a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from isthmus.routing.route import OnError, Route


class Outcome(StrEnum):
    """What became of a record that the router read: exactly one of these, for every route that took it.

    Two routes may have: its own, and the one to the JMS destination that it was sent to.
    """

    PUBLISHED = "published"
    DEAD_LETTERED = "dead-lettered"
    """A soft failure, kept in the dead-letter topic."""
    SKIPPED = "skipped"
    """A soft failure, counted and left."""
    STOPPED = "stopped"
    """A soft failure that stops the bridge."""
    UNMATCHED = "unmatched"
    """No route takes it: it stays in the journal."""
    LOOPED = "looped"
    """This bridge itself published it: publishing it again would go round for ever."""
    NON_DURABLE = "non-durable"
    """Not durable, and ``routing.non-durable`` is ``skip``."""
    EXPIRED = "expired"
    """Its ``jms.Expiration`` is past: nobody wants it any more."""
    IGNORED = "ignored"
    """Not a message: a tombstone, or a record for the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingPlan:
    """Everything that the router's decisions depend on."""

    bridge_id: str
    journal_topic: str
    source_topics: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    on_error: OnError = OnError.STOP
    dead_letter_topic: str | None = None
    events_topic: str | None = None
    """Where the router tells what happens; None if nobody wants to know."""
    traced: bool = False
    """Whether it tells of every message that somebody samples."""
    propagate_non_durable: bool = True
    keep_destinations: bool = False
    """Whether what was sent to a JMS destination goes there, whatever other route takes it. The last route
    is then a direct one, which has the form for it."""
    max_message_bytes: Mapping[str, int] = field(default_factory=dict)
    """How large a record each destination takes; a topic that is not named takes any."""
    max_source_bytes: int | None = None
    """How large a record the journal and the source topics take; None if that is not known."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many partitions each topic has that a message may be published to. A topic that is not among these
    is one for the direct route if the edge has found it: see `isthmus.journal.layout.AddressTopic`."""
    missing_topics: frozenset[str] = frozenset()
    """Topics that an edge has found, and that are gone since."""

    def policy(self, route: Route | None) -> OnError:
        """What follows a soft failure of this route's, or of a record that has no route."""
        return (route.on_error if route else None) or self.on_error

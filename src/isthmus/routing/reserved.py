"""Topics that are not for everyone: those of bridges, Kafka's own, and the dead letters.

No message gets into one of them because its address names it, and no pattern in a user's rights includes one:
whoever is to read the journal or the dead letters over AMQP is granted that topic by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.routing.route import topic_of_address

QUARANTINE: Final = ".quarantine"
"""What follows the name of the dead letters' topic in that of those which failed too often."""

PREFIXES: Final = ("isthmus.", "__")
"""What the topics of any bridge begin with, and Kafka's own."""


@dataclass(frozen=True, slots=True)
class ReservedTopics:
    """Those by their prefix, and those of this bridge that its configuration may call anything."""

    journal: str | None = None
    dead_letters: str | None = None

    def __contains__(self, address: str) -> bool:
        topic = topic_of_address(address)
        if self.dead_letters is not None and topic in (self.dead_letters, self.dead_letters + QUARANTINE):
            return True
        return topic.startswith(PREFIXES) or topic == self.journal


BY_PREFIX: Final = ReservedTopics()

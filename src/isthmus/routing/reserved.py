"""Topics that are not for everyone: those of bridges, Kafka's own, and the dead letters.

No message gets into one of them because its address names it, and no pattern in a user's rights includes one:
whoever is to read the journal or the dead letters over AMQP is granted that topic by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.routing.route import topic_of_address

PREFIXES: Final = ("isthmus.", "__")
"""What the topics of any bridge begin with, and Kafka's own."""


@dataclass(frozen=True, slots=True)
class ReservedTopics:
    """Those by their prefix, and the two of this bridge that its configuration may call anything."""

    journal: str | None = None
    dead_letters: str | None = None

    def __contains__(self, address: str) -> bool:
        topic = topic_of_address(address)
        return topic.startswith(PREFIXES) or topic in (self.journal, self.dead_letters)


BY_PREFIX: Final = ReservedTopics()

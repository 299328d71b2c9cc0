"""What waits in a queue, and for which of its receivers: the order of delivery, and JMS's selectors.

Records wait by priority, then in the order of their offsets; one that is given back is in its old place.
Receivers with the same selector share a `View`: the records that the selector is true for. A record may be in
several views; whoever takes it first has it.

To compare a record with a selector it must be converted, so that is done for so many in a turn of the loop.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from isthmus.edges.amqp.server.receivers.selected import DEFAULT_PRIORITY
from isthmus.edges.amqp.server.receivers.selector import Selector
from isthmus.journal.layout import HEADER_PREFIX
from isthmus.kafka.records import AcquiredRecord, ReadRecord

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.receivers.queue import QueueSource

_PRIORITY: Final = f"{HEADER_PREFIX}Priority"
_HEADER_SECTION: Final = b"\x00\x53\x70\xc0"
_UBYTE, _BOOLEAN = 0x50, 0x56
_HIGHEST: Final = 9


class Waiting:
    """A record that nobody has."""

    def __init__(self, record: AcquiredRecord, giver: QueueSource | None, since: float) -> None:
        """``giver`` is the receiver that had it, and gave it back; ``since`` is the loop's time."""
        self.since = since
        self.record = record
        self.giver = giver
        self.order = -priority_of(record.read), record.offset, record.partition
        self.taken = False

    @property
    def size(self) -> int:
        """How many bytes its value has."""
        return len(self.record.read.value or b"")


_order: Final = attrgetter("order")


class View:
    """The receivers with one selector, or with none, and what waits for them."""

    def __init__(self, selector: Selector | None, served: int) -> None:
        self.selector = selector
        self.served = served
        """How many records its receivers got: of views that want a record, the one that got fewest has it."""
        self.receivers: list[QueueSource] = []
        self.hungry: list[QueueSource] = []
        """Those that have credit, while records are handed out."""
        self.unseen: deque[Waiting] = deque()
        """What was not compared with the selector yet."""
        self.fitting: list[Waiting] = []
        """What its receivers want, in order; some of it may be taken."""
        self._turn = 0

    @property
    def wanted(self) -> int:
        """How many records its receivers have credit for, beside those that wait."""
        credit = sum(each.wanted for each in self.receivers)
        return 0 if self.unseen else max(0, credit - len(self.fitting))

    def offer(self, waiting: Waiting) -> None:
        """Have a record compared with the selector, or take it as it is without one."""
        if self.selector is None:
            self.keep(waiting)
        else:
            self.unseen.append(waiting)

    def keep(self, waiting: Waiting) -> None:
        """Have a record wait for these receivers."""
        fitting = self.fitting
        if not fitting or fitting[-1].order < waiting.order:
            fitting.append(waiting)
        else:
            insort(fitting, waiting, key=_order)

    def first(self) -> Waiting | None:
        """What is to be handed out next."""
        fitting = self.fitting
        while fitting and fitting[0].taken:
            del fitting[0]
        return fitting[0] if fitting else None

    def choose(self, giver: QueueSource | None) -> QueueSource:
        """Who gets the next record: whoever gave it back, else each in turn."""
        if giver in self.hungry:
            return giver
        self._turn += 1
        return self.hungry[self._turn % len(self.hungry)]

    def discard(self) -> None:
        """Drop what others have taken."""
        self.fitting = [each for each in self.fitting if not each.taken]


def by_priority(record: AcquiredRecord) -> int:
    """What records are sorted by."""
    return -priority_of(record.read)


def priority_of(read: ReadRecord) -> int:
    """JMS's priority of a message, in whatever form its record is; that of most if it has none."""
    for name, value in read.headers:
        if name == _PRIORITY:
            return int(value) if value and len(value) == 1 and value.isdigit() else DEFAULT_PRIORITY
    value = read.value
    return _encoded_priority(value) if value and value.startswith(_HEADER_SECTION) else DEFAULT_PRIORITY


def _encoded_priority(message: bytes) -> int:
    """The priority in the header section that an encoded message begins with."""
    count, durable = message[5:6], message[6:7]
    at = 8 if durable and durable[0] == _BOOLEAN else 7
    if not count or count[0] < 2 or message[at : at + 1] != bytes([_UBYTE]):
        return DEFAULT_PRIORITY
    return min(message[at + 1], _HIGHEST) if len(message) > at + 1 else DEFAULT_PRIORITY

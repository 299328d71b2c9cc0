"""What waits in a queue, and for which of its receivers: the order of delivery, and JMS's selectors.

Records wait by priority, then in the order of their offsets; one that is given back is in its old place.
Receivers with the same selector share a `View`: the records that the selector is true for. A record may be in
several views; whoever takes it first has it. In a view, records of one message group (``JMSXGroupID``) go to
the receiver that had the first of them, for as long as it is there.

To compare a record with a selector it must be converted, so that is done as far as there is time (`Turns`).
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
_GROUP: Final = f"{HEADER_PREFIX}JMSXGroupID"
_HEADER_SECTION: Final = b"\x00\x53\x70\xc0"
_UBYTE, _BOOLEAN = 0x50, 0x56
_HIGHEST: Final = 9


class Waiting:
    """A record that nobody has."""

    def __init__(
        self,
        record: AcquiredRecord,
        giver: QueueSource | None,
        since: float,
        declined: set[QueueSource] | None = None,
    ) -> None:
        """``giver`` is the receiver that had it, and gave it back; ``since`` is the loop's time.

        ``declined`` are the receivers that must not have it again.
        """
        self.since = since
        self.record = record
        self.giver = giver
        self.declined = declined
        self.group = group_of(record.read)
        self.order = -priority_of(record.read), record.offset, record.partition
        self.taken = False

    def may_go_to(self, source: QueueSource) -> bool:
        """Whether a receiver has not declined it."""
        return self.declined is None or source not in self.declined

    @property
    def size(self) -> int:
        """How many bytes its value has."""
        return len(self.record.read.value or b"")


_order: Final = attrgetter("order")


class View:
    """The receivers with one selector, or with none, and what waits for them."""

    def __init__(self, selector: Selector | None, served: int, owners: dict[bytes, QueueSource]) -> None:
        """``owners`` are the receivers of message groups, for all views."""
        self.selector = selector
        self._owners = owners
        self.served = served
        """How many records its receivers got: of views that want a record, the one that got fewest has it."""
        self.receivers: list[QueueSource] = []
        self.hungry: list[QueueSource] = []
        """Those that have credit, while records are handed out."""
        self.unseen: deque[Waiting] = deque()
        """What was not compared with the selector yet."""
        self.fitting: list[Waiting] = []
        """What its receivers want, in order; some of it may be taken."""
        self._any_bound = False
        """Whether there may be records that not every receiver may have."""
        self._next = 0
        self._turn = 0

    @property
    def wanted(self) -> int:
        """How many records its receivers have credit for, beside those that wait for any of them."""
        credit = sum(each.wanted for each in self.receivers)
        if self.unseen or not credit:
            return 0
        waiting = len(self.fitting)
        if self._any_bound:
            waiting = sum(1 for each in self.fitting if self._is_for_any(each))
        return max(0, credit - waiting)

    def owner_of(self, waiting: Waiting) -> QueueSource | None:
        """The receiver here that has a record's message group."""
        owner = None if waiting.group is None else self._owners.get(waiting.group)
        return owner if owner in self.receivers else None

    def _is_for_any(self, waiting: Waiting) -> bool:
        """Whether a record would use credit up, as one does that waits for nobody in particular."""
        owner = self.owner_of(waiting)
        return not waiting.declined and (owner is None or owner.wanted > 0)

    def _able(self, waiting: Waiting) -> list[QueueSource]:
        """Those of the hungry that may have a record."""
        if waiting.group is None and waiting.declined is None:
            return self.hungry
        owner = self.owner_of(waiting)
        return [each for each in self.hungry if owner in (None, each) and waiting.may_go_to(each)]

    def offer(self, waiting: Waiting) -> None:
        """Have a record compared with the selector, or take it as it is without one."""
        if self.selector is None:
            self.keep(waiting)
        else:
            self.unseen.append(waiting)

    def keep(self, waiting: Waiting) -> None:
        """Have a record wait for these receivers."""
        fitting = self.fitting
        self._any_bound = self._any_bound or waiting.declined is not None or waiting.group is not None
        if not fitting or fitting[-1].order < waiting.order:
            fitting.append(waiting)
        else:
            insort(fitting, waiting, key=_order)

    def begin(self) -> None:
        """Records are about to be handed out."""
        self.hungry = [each for each in self.receivers if each.wanted > 0]
        self._next = 0
        while self.fitting and self.fitting[0].taken:
            del self.fitting[0]

    def find_next(self) -> bool:
        """Whether there is a `next` that a hungry receiver may have: behind what none of them may have."""
        fitting = self.fitting
        for at in range(self._next, len(fitting)):
            self._next = at
            if not fitting[at].taken and self._able(fitting[at]):
                return True
        self._next = len(fitting)
        return False

    @property
    def next(self) -> Waiting:
        """What is to be handed out next, once `find_next` has found it."""
        return self.fitting[self._next]

    def choose(self) -> QueueSource:
        """Take `next`, for whoever gave it back, else for each in turn, the first to come first."""
        waiting = self.fitting.pop(self._next)
        able = self._able(waiting)
        if waiting.giver in able:
            return waiting.giver
        turn, self._turn = self._turn, self._turn + 1
        return able[turn % len(able)]

    def discard(self) -> None:
        """Drop what others have taken."""
        self.fitting = [each for each in self.fitting if not each.taken]
        self._any_bound = any(each.declined or each.group is not None for each in self.fitting)


def group_of(read: ReadRecord) -> bytes | None:
    """The message group of a record in the ``jms`` form, if it is in one."""
    for name, value in read.headers:
        if name == _GROUP:
            return value or None
    return None


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

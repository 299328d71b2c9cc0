"""Judges what applications saw of a queue: which messages were lost, came twice, or came out of order.

A queue has been sent the numbers 0, 1, … by one sender. A trace is what its receivers saw and did, by time,
as `JmsQueue.java` tells it, with a ``died`` for those that could not. A receiver *holds* what it has seen
until it acknowledges that, rolls it back, or dies.

- **lost**: neither acknowledged nor dead-lettered. What a receiver was acknowledging when it died is in
  doubt, and never lost.
- **duplicates**: deliveries of a message that was acknowledged before, or that a receiver still holds; dead
  letters of what was acknowledged; and second deliveries that are not marked as redelivered, which are
  **unmarked**, too. (Of what a program had seen when it was killed, Artemis marks only what had been enlisted
  in a transaction.)
- **inversions**, with one receiver: deliveries while a message of a lower number was due, that is, neither
  acknowledged nor held, and came only later. So first deliveries must have the order of sending, and after a
  rollback delivery must begin again with the first unacknowledged message. A lost message is no inversion.
- **marked unread**: first deliveries that are marked as redelivered.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from benches.jms import Event

SHOWN = 8


@dataclass
class Judgement:
    """The numbers of the messages that something was wrong with, once for each time; and how others ended."""

    lost: list[int] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    """The number and what is wrong."""
    inversions: list[int] = field(default_factory=list)
    unmarked: list[int] = field(default_factory=list)
    marked_unread: list[int] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    in_doubt: set[int] = field(default_factory=set)

    @property
    def faults(self) -> str:
        """What must not be, for people; empty if there is nothing."""
        kinds: dict[str, Sequence[object]] = {
            "lost": self.lost,
            "duplicates": self.duplicates,
            "inversions": self.inversions,
        }
        return ", ".join(f"{len(found)} {kind} ({_few(found)})" for kind, found in kinds.items() if found)


def judge(
    sent: int, trace: Iterable[Event], *, dead: Collection[int] = (), ordered: bool = False
) -> Judgement:
    """Find what is wrong with a trace; `dead` are dead-lettered, `ordered` asks for the order as well."""
    events = sorted(trace, key=lambda event: event.at_ns)
    judgement = Judgement()
    held: defaultdict[int, list[int]] = defaultdict(list)
    trying: set[int] = set()
    seen: set[int] = set()
    acknowledged, in_doubt = judgement.acknowledged, judgement.in_doubt
    for event in events:
        receiver = event.receiver
        match event.what:
            case "seen" | "took":
                number = event.number
                if number not in seen:
                    seen.add(number)
                    if event.redelivered:
                        judgement.marked_unread.append(number)
                elif number in acknowledged:
                    judgement.duplicates.append(f"{number} is acknowledged")
                elif any(number in numbers for numbers in held.values()):
                    judgement.duplicates.append(f"{number} is held")
                elif not event.redelivered:
                    judgement.duplicates.append(f"{number} is not marked")
                    judgement.unmarked.append(number)
                if event.what == "took":
                    acknowledged.add(number)
                else:
                    held[receiver].append(number)
            case "tries":
                trying.add(receiver)
            case "acked":
                trying.discard(receiver)
                acknowledged.update(held.pop(receiver, ()))
            case "back":
                held.pop(receiver, None)
            case "died":
                unfinished = held.pop(receiver, [])
                in_doubt.update(unfinished if receiver in trying else ())
    judgement.duplicates += [
        f"{number} is acknowledged and dead" for number in sorted(acknowledged & set(dead))
    ]
    judgement.lost = sorted(set(range(sent)) - acknowledged - in_doubt - set(dead))
    judgement.inversions = inversions(sent, events) if ordered else []
    return judgement


def inversions(sent: int, events: Sequence[Event]) -> list[int]:
    """The deliveries of one receiver that came while one of a lower number was due, and came only later."""
    to_come = Counter(event.number for event in events if event.what in ("seen", "took"))
    due = list(range(sent))  # a heap, of which what is held or acknowledged is dropped at the top
    held: set[int] = set()
    acknowledged: set[int] = set()
    found: list[int] = []
    for event in events:
        match event.what:
            case "seen" | "took":
                to_come[event.number] -= 1
                (held if event.what == "seen" else acknowledged).add(event.number)
                while due and (due[0] in held or due[0] in acknowledged or not to_come[due[0]]):
                    heapq.heappop(due)
                if due and due[0] < event.number:
                    found.append(event.number)
            case "acked":
                acknowledged |= held
                held.clear()
            case "back":
                for number in held - acknowledged:
                    heapq.heappush(due, number)
                held.clear()
    return found


def rate(trace: Sequence[Event]) -> float:
    """Messages a second, from the first to the last."""
    times = [event.at_ns for event in trace if event.what in ("seen", "took")]
    return 1e9 * (len(times) - 1) / (times[-1] - times[0])


def _few(found: Sequence[object]) -> str:
    return ", ".join(map(str, found[:SHOWN])) + (", …" if len(found) > SHOWN else "")

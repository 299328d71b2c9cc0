"""Looks at topics while the router runs: their limits and partitions are in its plan, and may change.

In: how to ask for a plan as it would be made now. Out: that plan, now and then. Asking takes as long as Kafka
takes to answer, so a thread does it: `TopicWatch.poll` never waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

from isthmus.errors import HardFailure, Outage
from isthmus.routing.plan import RoutingPlan

LOOK_S = 5.0
"""How often topics are looked at: so long may one be gone before the bridge stops for that."""
AGAIN_S = 2.0
"""When to look again for a topic that is not there: a broker that has just started may not know of it yet."""


class TopicWatch:
    """Asks every ``look_s``. To be polled by one thread."""

    def __init__(
        self,
        ask: Callable[[], RoutingPlan],
        *,
        look_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._look_s = look_s
        self._clock = clock
        self._due = clock() + look_s
        self._asking: Thread | None = None
        self._answers: list[RoutingPlan | HardFailure | None] = []
        """Of the look that is under way: each look has a list of its own."""
        self._missed = False

    def forget(self) -> None:
        """Drop the look that is under way: what it is compared with is about to change."""
        self._asking, self._missed, self._due = None, False, self._clock() + self._look_s

    def poll(self) -> RoutingPlan | None:
        """The plan as it would be made now, once after each look.

        Raises `HardFailure` for a topic that the bridge needs and, twice in a row, could not use any more.
        """
        if self._asking is None:
            if self._clock() >= self._due:
                self._answers = []
                self._asking = Thread(
                    target=self._look, args=(self._answers,), name="topic-watch", daemon=True
                )
                self._asking.start()
            return None
        if self._asking.is_alive():
            return None
        answer, self._asking = (self._answers[0] if self._answers else None), None
        if not isinstance(answer, HardFailure):
            self._missed, self._due = False, self._clock() + self._look_s
            return answer
        if self._missed:
            raise answer
        self._missed, self._due = True, self._clock() + min(AGAIN_S, self._look_s)
        return None

    def _look(self, answers: list[RoutingPlan | HardFailure | None]) -> None:
        try:
            answers.append(self._ask())
        except Outage:
            answers.append(None)  # asked again soon
        except HardFailure as failure:
            answers.append(failure)


def differ(now: RoutingPlan, then: RoutingPlan) -> bool:
    """Whether a plan must be made anew because the topics that it names are not as they were."""
    return _facts(now) != _facts(then)


def _facts(plan: RoutingPlan) -> object:
    # Of others, which messages name, the journal says how they are.
    named = {route.topic for route in plan.routes if route.topic} | {plan.dead_letter_topic}
    limits = {name: limit for name, limit in plan.max_message_bytes.items() if name in named}
    partitions = {name: count for name, count in plan.partitions.items() if name in named}
    return limits, partitions, plan.max_source_bytes

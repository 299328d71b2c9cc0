"""How much of everything there is, and what came of it on one server."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from benches.harness import say
from benches.jms import Event, JmsQueue, Reply
from benches.queue.servers import Server
from benches.queue.trace import judge

TIMEOUTS = "jms.requestTimeout=30000&jms.closeTimeout=15000"
"""A server that gives no answer is not waited for any longer."""
DEAD_LETTER_S = 5.0
POLL_S = 0.05


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    prefetches: tuple[int, ...] = (0, 1, 10, 1000)
    receivers: tuple[int, ...] = (1, 3)
    backlog: int = 1500
    alternating: int = 120
    queues: int = 12
    per_queue: int = 100
    slow: int = 400
    slow_ms: int = 150
    open_ms: int = 40_000
    after_ms: int = 2000
    """How long to wait for copies that must not come."""
    cycles: int = 1000
    warm_up: int = 60
    links: int = 100
    joins: int = 30
    browsed: int = 50
    browsers: int = 30
    to_kill: int = 60
    killed_prefetches: tuple[int, ...] = (0, 1, 10, 1000)
    speed: int = 20_000
    rounds: int = 3
    quiet_ms: int = 15_000
    """How long receivers wait for a message before they give up."""
    patience_ms: int = 35_000
    """How long to wait for what is missing. Kafka's lock on a record is 30 s."""


SMALL = Sizes(
    prefetches=(0, 1000),
    receivers=(1,),
    backlog=60,
    alternating=24,
    queues=3,
    per_queue=10,
    slow=5,
    slow_ms=20,
    open_ms=300,
    after_ms=300,
    cycles=8,
    warm_up=4,
    links=4,
    joins=2,
    browsed=10,
    browsers=2,
    to_kill=30,
    killed_prefetches=(10,),
    speed=200,
    rounds=1,
    quiet_ms=5_000,
    patience_ms=5_000,
)


@dataclass
class Trial:
    """One server's cases and what came of them."""

    server: Server
    jms: JmsQueue
    sizes: Sizes
    folder: Path
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("lost", "duplicates", "unmarked", "inversions", "marked_unread"), 0
        )
    )
    figures: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def url(self, prefetch: int) -> str:
        return f"{self.server.url}?jms.prefetchPolicy.all={prefetch}&{TIMEOUTS}"

    def queue(self, case: str, prefetch: int, receivers: int = 1) -> str:
        return f"{case}-p{prefetch}-r{receivers}-{next(self._names)}"

    def complain(self, queue: str, problem: str) -> None:
        """Note what went wrong."""
        self.broken.append(f"{self.server.name} {queue}: {problem}")
        say(f"    BROKEN {self.broken[-1]}")

    def settle(
        self,
        queue: str,
        sent: int,
        reply: Reply,
        *,
        earlier: Collection[Event] = (),
        ordered: bool = False,
        may_die: bool = False,
    ) -> None:
        """Look for what is missing, judge what came of a queue, and count it."""
        events = [*earlier, *(Event(*each) for each in reply.events)]
        problem, dead = reply.problem, set[int]()
        deadline = time.monotonic() + DEAD_LETTER_S
        while (missing := judge(sent, events, dead=dead).lost) and may_die:
            dead = self.server.dead_letters(queue)
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        if missing:
            late = self.jms.run(
                "receive", self.url(10), queue, count=len(missing), quiet_ms=self.sizes.patience_ms
            )
            events += [Event(*each) for each in late.events]
            problem = problem or late.problem
        judgement = judge(sent, events, dead=dead, ordered=ordered)
        for name in self.counts:
            self.counts[name] += len(getattr(judgement, name))
        if faults := ", ".join(filter(None, (problem, judgement.faults))):
            self.complain(queue, faults)

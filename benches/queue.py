"""What JMS applications rely on of queues, beside Artemis.

``python -m benches.queue [--small] [--only CASE] [--server NAME]``: one program on Qpid JMS uses queues of
the AMQP server and of Artemis in the same way, with a prefetch of 0, 1, 10 and 1,000, and with one and three
receivers where that makes a difference. Every queue has one sender, and in Kafka one partition.
`benches.queue_trace` defines what is lost, a duplicate, an inversion.

- *rollback*: ten messages, of which the first is always rolled back and the others are committed. After ten
  deliveries it must be dead-lettered, or delivered again to the next who asks.
- *order*: a backlog that is read in transactions of ten, with AUTO_ACKNOWLEDGE, and with every other batch
  rolled back or recovered; and twelve queues at once with a prefetch of 1.
- *copies*: consumers that need 150 ms a message, for a minute, and transactions that are open for 40 s while
  another receiver waits: both longer than Kafka's lock on a record.
- *cycle*: 1,000 receivers come and go on four connections, each for one message. On the AMQP server 100 links
  besides, of which the detach, or a flow without credit and the detach, follow the attach without waiting for
  an answer (Artemis gives none). Threads and memory (RSS) of the edge before and after that, some dozens of
  receivers having come and gone before.
- *join*: from the creation of a receiver to its first message, on a queue that holds one: new queues, and the
  same queues again.
- *kill*: a program is killed while it receives; others receive the rest.
- *speed*: the rate at which a backlog is read with AUTO_ACKNOWLEDGE; ``receive_ratio`` is ours over Artemis'.
- *exit*: from SIGTERM to the end of the process, with receivers attached.

``lost``, ``duplicates`` and ``inversions`` are the sums over all cases and must be 0. The last line is JSON;
``broken`` in it says what went wrong in which queue, whose name has case, prefetch and number of receivers.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benches.harness import ending_in_good_order, finish, machine, percentile, say
from benches.jms import Event, JmsQueue, Reply
from benches.queue_links import attach_and_detach
from benches.queue_servers import ArtemisBroker, Isthmus, Server, thread_count
from benches.queue_trace import judge, rate
from benches.soak import rss_mib

BARS = {
    "lost": 0,
    "duplicates": 0,
    "inversions": 0,
    "join_p50_ms": 100,
    "memory_growth_percent": 5,
    "exit_s": 10,
}
MAX_DELIVERIES = 10
CYCLE_LIMIT_S = 180
DEAD_LETTER_S = 5.0
SETTLE_S = 15.0
"""How long threads of closed receivers may take to end."""
STABLE_S = 1.0
"""How long a number of threads must be the same to count as that of a process at rest."""
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
    cycles: int = 1000
    warm_up: int = 60
    links: int = 100
    joins: int = 30
    to_kill: int = 60
    speed: int = 20_000
    rounds: int = 3
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
    cycles=8,
    warm_up=4,
    links=4,
    joins=2,
    to_kill=30,
    speed=200,
    rounds=1,
    patience_ms=10_000,
)


@dataclass
class Trial:
    """One server's cases and what came of them."""

    server: Server
    jms: JmsQueue
    sizes: Sizes
    folder: Path
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("lost", "duplicates", "inversions", "flagged_unread"), 0)
    )
    figures: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def url(self, prefetch: int) -> str:
        return f"{self.server.url}?jms.prefetchPolicy.all={prefetch}"

    def queue(self, case: str, prefetch: int, receivers: int = 1) -> str:
        return f"{case}-p{prefetch}-r{receivers}-{next(self._names)}"

    def complain(self, queue: str, problem: str) -> None:
        """Note what went wrong."""
        self.broken.append(f"{self.server.name} {queue}: {problem}")
        say(f"  BROKEN {self.broken[-1]}")

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
            ordered = ordered and not late.events
        judgement = judge(sent, events, dead=dead, ordered=ordered)
        for name in self.counts:
            self.counts[name] += len(getattr(judgement, name))
        if faults := ", ".join(filter(None, (problem, judgement.faults))):
            self.complain(queue, faults)


def rollback(trial: Trial) -> None:
    for prefetch, receivers in itertools.product(trial.sizes.prefetches, trial.sizes.receivers):
        queue = trial.queue("rollback", prefetch, receivers)
        trial.server.fill([queue], 10)
        reply = trial.jms.run(
            "receive",
            trial.url(prefetch),
            queue,
            mode="transacted",
            rollback="first",
            rollbacks=MAX_DELIVERIES,
            receivers=receivers,
            count=10,
        )
        trial.settle(queue, 10, reply, ordered=receivers == 1, may_die=True)


def order(trial: Trial) -> None:
    sizes, jms = trial.sizes, trial.jms
    for prefetch in sizes.prefetches:
        for case, count, options in (
            ("transacted", sizes.backlog, {"mode": "transacted", "batch": 10}),
            ("backlog", sizes.backlog, {"mode": "auto"}),
            ("rolled-back", sizes.alternating, {"mode": "transacted", "batch": 6, "rollback": "alternate"}),
            ("recovered", sizes.alternating, {"mode": "client", "batch": 6, "rollback": "alternate"}),
        ):
            queue = trial.queue(case, prefetch)
            trial.server.fill([queue], count)
            reply = jms.run("receive", trial.url(prefetch), queue, count=count, **options)
            trial.settle(queue, count, reply, ordered=True)
    queues = [trial.queue("credit-1", 1) for _ in range(sizes.queues)]
    trial.server.fill(queues, sizes.per_queue)
    requests = [jms.request("receive", trial.url(1), queue, count=sizes.per_queue) for queue in queues]
    for queue, request in zip(queues, requests, strict=True):
        trial.settle(queue, sizes.per_queue, jms.reply(request), ordered=True)


def begin_copies(trial: Trial) -> Callable[[], None]:
    """Returns what waits for it."""
    sizes = trial.sizes
    running: list[tuple[str, int, bool, int]] = []
    for prefetch, receivers in itertools.product(sizes.prefetches, sizes.receivers):
        queue = trial.queue("slow", prefetch, receivers)
        trial.server.fill([queue], sizes.slow)
        options = {"count": sizes.slow, "delay_ms": sizes.slow_ms, "after_ms": 2000}
        request = trial.jms.request("receive", trial.url(prefetch), queue, receivers=receivers, **options)
        running.append((queue, sizes.slow, receivers == 1, request))
    for prefetch in sizes.prefetches:
        queue = trial.queue("open", prefetch, 2)
        trial.server.fill([queue], 1)
        options = {
            "count": 1,
            "delay_ms": sizes.open_ms,
            "quiet_ms": sizes.open_ms + 10_000,
            "after_ms": 2000,
        }
        request = trial.jms.request(
            "receive", trial.url(prefetch), queue, mode="transacted", receivers=2, **options
        )
        running.append((queue, 1, False, request))

    def wait() -> None:
        for queue, sent, ordered, request in running:
            trial.settle(queue, sent, trial.jms.reply(request), ordered=ordered)

    return wait


def cycle(trial: Trial) -> None:
    sizes, server = trial.sizes, trial.server

    def come_and_go(receivers: int, links: int) -> None:
        queue = trial.queue("cycle", 0, receivers)
        count = receivers // len(sizes.prefetches)
        server.fill([queue], count * len(sizes.prefetches))
        requests = [
            trial.jms.request("cycle", trial.url(prefetch), queue, count=count, limit_s=CYCLE_LIMIT_S)
            for prefetch in sizes.prefetches
        ]
        replies = [trial.jms.reply(request) for request in requests]
        events = [
            Event(*each)._replace(receiver=connection)
            for connection, reply in enumerate(replies)
            for each in reply.events
        ]
        problems = ", ".join(reply.problem for reply in replies if reply.problem)
        trial.settle(queue, count * len(sizes.prefetches), Reply(problems, []), earlier=events)
        if server.pid is not None and (problem := attach_and_detach(server.url, queue, links)):
            trial.complain(queue, problem)

    if server.pid is None:
        come_and_go(sizes.cycles, 0)
        return
    come_and_go(sizes.warm_up, min(10, sizes.links))
    threads_before, rss_before = _settled(server.pid)
    come_and_go(sizes.cycles, sizes.links)
    threads_after, rss_after = _settled(server.pid, threads_before)
    trial.figures |= {
        "threads_before": threads_before,
        "threads_after": threads_after,
        "rss_before_mib": round(rss_before, 1),
        "rss_after_mib": round(rss_after, 1),
        "memory_growth_percent": round(100 * (rss_after / rss_before - 1), 1),
    }
    if threads_after > threads_before:
        trial.complain("cycle", f"{threads_before} threads before, {threads_after} after")


def _settled(pid: int, threads: int = 0) -> tuple[int, float]:
    """A process's threads and memory, once it has so many threads, or their number stays, or time is up."""
    deadline = time.monotonic() + SETTLE_S
    now, since = thread_count(pid), time.monotonic()
    while now > threads and time.monotonic() < (deadline if threads else min(deadline, since + STABLE_S)):
        time.sleep(POLL_S)
        if (later := thread_count(pid)) != now:
            now, since = later, time.monotonic()
    return now, rss_mib(pid)


def join(trial: Trial) -> None:
    times: dict[str, list[float]] = {}
    queues = [trial.queue("join", 10) for _ in range(trial.sizes.joins)]
    for kind in ("new", "known"):
        trial.server.fill(queues, 1)
        reply = trial.jms.run("join", trial.url(10), ",".join(queues))
        times[kind] = sorted(Event(*each).number / 1e6 for each in reply.events)
        if reply.problem:
            trial.complain(f"join, {kind} queues", reply.problem)
            trial.counts["lost"] += len(queues) - len(reply.events)
    every = sorted(itertools.chain(*times.values()))
    for name, ordered in (("join", every), ("join_new", times["new"]), ("join_known", times["known"])):
        if ordered:
            trial.figures[f"{name}_p50_ms"] = round(statistics.median(ordered), 1)
            trial.figures[f"{name}_p99_ms"] = round(percentile(ordered, 0.99), 1)


def kill(trial: Trial) -> None:
    sizes, jms = trial.sizes, trial.jms
    for prefetch, receivers in itertools.product(sizes.prefetches, sizes.receivers):
        queue = trial.queue("kill", prefetch, receivers)
        trial.server.fill([queue], sizes.to_kill)
        folder = trial.folder / f"{trial.server.name}-{queue}"
        with JmsQueue(folder, classes=jms.classes) as victim:
            # A commit is answered, an acknowledgement is not: both must hold.
            mode = "transacted" if receivers == 1 else "client"
            victim.request(
                "receive",
                trial.url(prefetch),
                queue,
                mode=mode,
                batch=3,
                count=sizes.to_kill,
                delay_ms=20,
                live=1,
            )
            lines = [victim.answer()]
            request = jms.request(
                "receive",
                trial.url(prefetch),
                queue,
                mode="transacted",
                receivers=receivers,
                count=sizes.to_kill,
                delay_ms=20,
            )
            while lines[-1].startswith("[") and sum('"seen"' in line for line in lines) < 8:
                lines.append(victim.answer())
            died_ns = time.monotonic_ns()
            lines += victim.kill().splitlines()
        trace = [Event(*msgspec.json.decode(line))._replace(receiver=-1) for line in lines if _is_event(line)]
        died_ns = max([died_ns, *(event.at_ns + 1 for event in trace)])
        trace.append(Event(died_ns, "died", -1))
        known = judge(sizes.to_kill, trace)
        jms.expect(request, sizes.to_kill - len(known.acknowledged | known.in_doubt))
        flagged = trial.counts["flagged_unread"]
        trial.settle(queue, sizes.to_kill, jms.reply(request), earlier=trace)
        trial.counts["flagged_unread"] = flagged  # nobody can tell what a dead program had read


def _is_event(line: str) -> bool:
    return line.startswith("[") and line.endswith("]")


def copies(trials: Sequence[Trial]) -> None:
    """Most of it is waiting, so all queues of all servers take part at once."""
    for wait in [begin_copies(trial) for trial in trials]:
        wait()


def speed(trials: Sequence[Trial]) -> None:
    """A round goes before that does not count: it is the JIT's."""
    rates: defaultdict[str, list[float]] = defaultdict(list)
    for number, trial in itertools.product(range(trials[0].sizes.rounds + 1), trials):
        count = trial.sizes.speed
        queue = trial.queue("speed", 1000)
        trial.server.fill([queue], count)
        reply = trial.jms.run("receive", trial.url(1000), queue, count=count)
        trial.settle(queue, count, reply, ordered=True)
        if number and len(reply.events) > 1:
            rates[trial.server.name].append(rate([Event(*each) for each in reply.events]))
    for trial in trials:
        if found := rates[trial.server.name]:
            trial.figures["receive_per_s"] = round(statistics.median(found))


def exit_(trial: Trial) -> None:
    for prefetch in trial.sizes.prefetches:
        queue = trial.queue("exit", prefetch, 5)
        trial.server.fill([queue], 1)
        if problem := trial.jms.run("attach", trial.url(prefetch), queue, receivers=5).problem:
            trial.complain(queue, problem)
    began = time.monotonic()
    trial.server.stop()
    trial.figures["exit_s"] = round(time.monotonic() - began, 1)


def one_by_one(case: Callable[[Trial], None]) -> Callable[[Sequence[Trial]], None]:
    def run(trials: Sequence[Trial]) -> None:
        for trial in trials:
            with timed(f"  {trial.server.name}"):
                case(trial)

    return run


CASES: dict[str, Callable[[Sequence[Trial]], None]] = {
    "rollback": one_by_one(rollback),
    "order": one_by_one(order),
    "copies": copies,
    "cycle": one_by_one(cycle),
    "join": one_by_one(join),
    "kill": one_by_one(kill),
    "speed": speed,
    "exit": one_by_one(exit_),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a little of everything, for a test")
    parser.add_argument("--only", choices=CASES, action="append", help="this case alone; may be repeated")
    parser.add_argument("--server", choices=("isthmus", "artemis"), help="this server alone")
    options = parser.parse_args()
    sizes = SMALL if options.small else Sizes()
    say(machine())
    with (
        ending_in_good_order(),
        tempfile.TemporaryDirectory() as name,
        JmsQueue(Path(name) / "jms") as jms,
        ExitStack() as stack,
    ):
        servers: list[Server] = []
        if options.server != "isthmus":
            servers.append(stack.enter_context(ArtemisBroker.running(Path(name), jms)))
        if options.server != "artemis":
            servers.append(stack.enter_context(Isthmus.running(Path(name))))
        trials = [Trial(server, jms, sizes, Path(name)) for server in servers]
        for trial in trials:  # on a new Kafka, the first receiver of all waits for topics of Kafka's own
            trial.server.fill(["warm-up"], 1)
            jms.run("receive", trial.url(1), "warm-up", quiet_ms=sizes.patience_ms)
        for case in options.only or CASES:
            with timed(case):
                CASES[case](trials)
    finish("queue", summary(trials))


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - began:.1f} s")


def summary(trials: Sequence[Trial]) -> dict[str, object]:
    """The last line: Artemis' figures with its name before them, and what was broken."""
    results: dict[str, object] = {}
    for trial in trials:
        prefix = "" if trial.server.name == "isthmus" else f"{trial.server.name}_"
        results |= {f"{prefix}{name}": figure for name, figure in (trial.counts | trial.figures).items()}
    match results:
        case {"receive_per_s": float() | int() as ours, "artemis_receive_per_s": float() | int() as theirs}:
            results["receive_ratio"] = round(ours / theirs, 2)
    return {**results, "bars": BARS, "broken": [line for trial in trials for line in trial.broken]}


if __name__ == "__main__":
    main()

"""What the program is asked to do with the queues of a server: a function for each case."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from benches.harness import percentile
from benches.jms import Event, JmsQueue, Reply
from benches.queue.links import attach_and_detach
from benches.queue.servers import thread_count
from benches.queue.trace import judge, rate
from benches.queue.trial import POLL_S, Trial
from benches.soak import rss_mib

MAX_DELIVERIES = 10
CYCLE_LIMIT_S = 180
EXIT_S = 10.0
KILL_AFTER = 8
"""How many messages a program sees before it is killed."""
SETTLE_S = 15.0
"""How long threads of closed receivers may take to end."""
STABLE_S = 1.0
"""How long a number of threads must be the same to count as that of a process at rest."""


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
            quiet_ms=trial.sizes.quiet_ms,
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
            reply = jms.run(
                "receive", trial.url(prefetch), queue, count=count, quiet_ms=sizes.quiet_ms, **options
            )
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
        options = {"count": sizes.slow, "delay_ms": sizes.slow_ms, "after_ms": sizes.after_ms}
        request = trial.jms.request("receive", trial.url(prefetch), queue, receivers=receivers, **options)
        running.append((queue, sizes.slow, receivers == 1, request))
    for prefetch in sizes.prefetches:
        queue = trial.queue("open", prefetch, 2)
        trial.server.fill([queue], 1)
        options = {
            "count": 1,
            "delay_ms": sizes.open_ms,
            "quiet_ms": sizes.open_ms + 10_000,
            "after_ms": sizes.after_ms,
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
            trial.jms.request(
                "cycle",
                trial.url(prefetch),
                queue,
                count=count,
                limit_s=CYCLE_LIMIT_S,
                quiet_ms=sizes.quiet_ms,
            )
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
        reply = trial.jms.run("join", trial.url(10), ",".join(queues), quiet_ms=trial.sizes.quiet_ms)
        times[kind] = sorted(Event(*each).number / 1e6 for each in reply.events)
        if reply.problem:
            trial.complain(f"join, {kind} queues", reply.problem)
            trial.counts["lost"] += 1
    every = sorted(itertools.chain(*times.values()))
    for name, ordered in (("join", every), ("join_new", times["new"]), ("join_known", times["known"])):
        if ordered:
            trial.figures[f"{name}_p50_ms"] = round(statistics.median(ordered), 1)
            trial.figures[f"{name}_p99_ms"] = round(percentile(ordered, 0.99), 1)


def browse(trial: Trial) -> None:
    sizes, queue = trial.sizes, trial.queue("browse", 1)
    trial.server.fill([queue], sizes.browsed)
    took = trial.jms.run("receive", trial.url(1), queue, count=sizes.browsed)
    trial.server.fill([queue], sizes.browsed)
    reply = trial.jms.run("browse", trial.url(1000), queue, count=sizes.browsed, browsers=sizes.browsers)
    times = sorted(Event(*each).number / 1e6 for each in reply.events)
    if problem := took.problem or reply.problem:
        trial.complain(queue, problem)
    if times:
        trial.figures["browse_p50_ms"] = round(statistics.median(times), 1)
        trial.figures["browse_p99_ms"] = round(percentile(times, 0.99), 1)


def kill(trial: Trial) -> None:
    sizes, jms = trial.sizes, trial.jms
    for prefetch, receivers in itertools.product(sizes.killed_prefetches, sizes.receivers):
        queue = trial.queue("kill", prefetch, receivers)
        trial.server.fill([queue], sizes.to_kill)
        options = {"count": sizes.to_kill, "delay_ms": 20, "quiet_ms": sizes.quiet_ms}
        folder = trial.folder / f"{trial.server.name}-{queue}"
        with JmsQueue(folder, classes=jms.classes) as victim:
            # A commit is answered, an acknowledgement is not: both must hold.
            mode = "transacted" if receivers == 1 else "client"
            victim.request("receive", trial.url(prefetch), queue, mode=mode, batch=3, live=1, **options)
            lines = [victim.answer()]
            others = jms.request(
                "receive", trial.url(prefetch), queue, mode="transacted", receivers=receivers, **options
            )
            while lines[-1].startswith("[") and sum('"seen"' in line for line in lines) < KILL_AFTER:
                lines.append(victim.answer())
            died_ns = time.monotonic_ns()
            lines += victim.kill().splitlines()
        if lines[-1].startswith("{"):
            trial.complain(queue, f"the program to be killed has ended: {lines[-1]}")
        trace = [Event(*msgspec.json.decode(line))._replace(receiver=-1) for line in lines if _is_event(line)]
        trace.append(Event(max(died_ns, trace[-1].at_ns + 1) if trace else died_ns, "died", -1))
        known = judge(sizes.to_kill, trace)
        jms.expect(others, sizes.to_kill - len(known.acknowledged | known.in_doubt))
        marked = trial.counts["marked_unread"]
        trial.settle(queue, sizes.to_kill, jms.reply(others), earlier=trace)
        trial.counts["marked_unread"] = marked  # nobody can tell what a dead program had read


def _is_event(line: str) -> bool:
    return line.startswith("[") and line.endswith("]")  # the last line may be cut off


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
    if trial.figures["exit_s"] > EXIT_S:
        trial.complain("exit", f"it took {trial.figures['exit_s']} s or more")

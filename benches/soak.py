"""Whether the AMQP server holds out: ``python -m benches.soak [--minutes N] [--rate N] [--connections N]``.

500 connections of Qpid JMS with two links each: of ten, one sends in transactions, one waits for every
message, eight send with a completion listener; 50 subscribe to a topic in place of their second producer.
The topic gets 50 messages a second for each of its subscribers, all the time. First all connections send as
fast as they can, for ten seconds: the maximum is what was completed, by the time until the last completion.
Then they send at half of that rate, for ten minutes.

``growth`` is that of the edge's memory (RSS) after the first minute. ``lost`` and ``reordered`` come of
reading the journal: every message has its number within its session, and they must be there in that order,
all that were completed. Subscribers count what they get out of order, too. The last line is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

from benches.front_door import front_door
from benches.harness import embedded_kafka, ending_in_good_order, finish, machine, options_of, say
from benches.jms import JmsProgram
from isthmus.kafka.blocking import QUIET, create_topics, read_topic
from isthmus.kafka.options import Kafka

CONNECTIONS = 500
SUBSCRIBERS = 50
TOPIC = "soak-out"
TOPIC_RATE = 50
MAXIMUM_S = 10.0
FIRST_MINUTE_S = 60.0
SAMPLE_S = 2.0
GROWTH_BAR = 0.10
JOURNAL = "soak-journal"


def rss_mib(pid: int) -> float:
    """The memory that a process has. Linux only."""
    [line] = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in each)
    return int(line.split()[1]) / 1024


class Watch(threading.Thread):
    """Notes the edge's memory, and writes to the topic that the subscribers read."""

    def __init__(self, pid: int, kafka: Kafka) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, float]] = []
        """Seconds since the clock was set, MiB."""
        self.written = 0
        self._since = time.monotonic()
        self._pid = pid
        self._producer = Producer({**kafka.python_options(), "linger.ms": 5}, logger=QUIET)
        self._end = threading.Event()

    def run(self) -> None:
        """Until `stop`."""
        began = time.monotonic()
        while not self._end.wait(1 / TOPIC_RATE):
            now = time.monotonic()
            while self.written < (now - began) * TOPIC_RATE:
                headers: list[tuple[str, str | bytes | None]] = [("jms.number", str(self.written).encode())]
                self._producer.produce(TOPIC, b"x" * 256, headers=headers)
                self.written += 1
            self._producer.poll(0)
            passed = now - self._since
            if not self.samples or passed - self.samples[-1][0] >= SAMPLE_S:
                self.samples.append((passed, rss_mib(self._pid)))
        self._producer.flush(10)

    def set_clock(self) -> None:
        """Count the time from now on."""
        self.samples, self._since = [], time.monotonic()

    def stop(self) -> None:
        """End it."""
        self._end.set()
        self.join()


def check(kafka: Kafka) -> tuple[int, int, int]:
    """How many messages the journal has, how many it lacks, and how many are out of order."""
    due: defaultdict[str | bytes | None, int] = defaultdict(int)
    gaps: set[tuple[str | bytes | None, int]] = set()
    found = reordered = 0
    for record in read_topic(kafka, JOURNAL):
        headers = dict(record.headers() or [])
        if "jms.number" not in headers:
            continue  # the outcome of a transaction
        found += 1
        peer, number = headers["jms.peer"], int(headers["jms.number"] or b"0")
        if number < due[peer]:
            reordered += 1
            gaps.discard((peer, number))
            continue
        gaps.update((peer, missing) for missing in range(due[peer], number))
        due[peer] = number + 1
    return found, len(gaps), reordered


def growth(samples: list[tuple[float, float]]) -> tuple[float, float]:
    """The memory after the first minute, and at the end, in MiB."""
    later = [mib for passed, mib in samples if passed >= FIRST_MINUTE_S] or [mib for _, mib in samples]
    few = max(1, min(10, len(later) // 4))
    return statistics.median(later[:few]), statistics.median(later[-few:])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=float, help="messages a second, in place of half the maximum")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--maximum", type=float, default=MAXIMUM_S, help="seconds of sending all they can")
    options = options_of(parser, arguments, minutes=0.05, rate=200, connections=20, maximum=1.0)
    subscribers = min(SUBSCRIBERS, options.connections)
    say(machine())
    with (
        ending_in_good_order(),
        tempfile.TemporaryDirectory() as name,
        embedded_kafka(Path(name) / "kafka") as kafka,
    ):
        create_topics(kafka, [TOPIC], 1)
        with (
            front_door(Path(name), kafka, f"journal.topic={JOURNAL}\n") as (url, pid),
            JmsProgram(
                "JmsSoak",
                Path(name) / "jms",
                f"{url}?amqp.maxFrameSize=65536",  # Qpid JMS has buffers of that size for every connection
                str(options.connections),
                str(subscribers),
                TOPIC,
            ) as jms,
        ):
            jms.answer()
            say(f"{options.connections} connections, {rss_mib(pid):.0f} MiB")
            watch = Watch(pid, kafka)
            watch.start()
            began = time.monotonic()
            jms.ask(f"{options.maximum} 0")
            maximum = int(jms.answer().split()[1]) / (time.monotonic() - began)
            rate = options.rate or maximum / 2
            say(f"at most {maximum:,.0f} msg/s; now {rate:,.0f} msg/s for {options.minutes:g} minutes")
            watch.set_clock()
            jms.ask(f"{options.minutes * 60} {rate}")
            sent, completed, failed, received, disorder = map(int, jms.answer().split())
            watch.stop()
            said = jms.complaints.read_text()[-1000:]
        found, lost, reordered = check(kafka)
    before, after = growth(watch.samples)
    figures: dict[str, object] = {
        "connections": options.connections,
        "links": 2 * options.connections,
        "minutes": options.minutes,
        "maximum_per_s": round(maximum),
        "rate_per_s": round(rate),
        "sent": sent,
        "completed": completed,
        "failed": failed,
        "journaled": found,
        "lost": lost + max(0, completed - found),
        "reordered": reordered,
        "received": received,
        "received_out_of_order": disorder,
        "rss_mib_after_first_minute": round(before, 1),
        "rss_mib_at_end": round(after, 1),
        "growth": round(after / before - 1, 3),
        "growth_bar": GROWTH_BAR,
    }
    if failed:
        say(said)
    say(f"{sent:,} sent, {found:,} in the journal, {lost} lost, {reordered} out of order, {failed} failed")
    say(f"{received:,} received of {watch.written:,} for each of {subscribers}, {disorder} out of order")
    say(f"memory {before:.0f} MiB after the first minute, {after:.0f} MiB at the end")
    finish("soak", figures)


if __name__ == "__main__":
    main()

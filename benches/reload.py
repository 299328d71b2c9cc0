"""Whether routes can change under load without a message lost or published twice, and for how long it stands.

``python -m benches.reload [--reloads N] [--rate N] [--pause A B] [--batch S] [--seed N]``: a Kafka of its
own, ``isthmus pipeline`` as users run it, and messages at an even rate for three routes; of a hundred
messages one has no key, and becomes a dead letter. At random moments every route gets the topic of the
next one, and ``isthmus reload`` has the bridge go by that.

The journal says what there should be: ``lost`` are its messages that are in no destination, ``duplicates``
are further copies of one, in whatever topic. ``gap_max_ms`` is the longest time in which nothing was
published, ``age_max_ms`` the longest that a message waited for it, and ``reload_max_s`` the longest that the
command took. The last line is JSON.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from math import inf
from pathlib import Path

from confluent_kafka import Message

from benches.harness import ending_in_good_order, finish, machine, options_of, progress, say
from benches.once import DESTINATIONS, JOURNAL, PATIENCE_S, Load, PipelineProcess, Watch, identity_of
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.journal import layout
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka


class Bridge(PipelineProcess):
    """A pipeline whose routes change."""

    def reload(self, turn: int) -> float:
        """Give each route the topic that is so many further on; says how long it took, in s."""
        self.route_to(turn)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "isthmus", "reload", str(self.file), "--timeout", "300"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{done.stderr}\n{self.said}")
        return time.monotonic() - began


def judge(journaled: set[str], published: Iterable[Message]) -> dict[str, int]:
    """How many of these ids are lost, and how many copies there are of others."""
    copies = Counter(map(identity_of, published))
    return {"lost": len(journaled - copies.keys()), "duplicates": sum(copies.values()) - len(copies)}


def waits(published: Sequence[Message], since_ms: int, until_ms: float = inf) -> dict[str, int]:
    """How long nothing was published, and how long a message waited, of those that were sent meanwhile."""
    sent = [(int(record.value() or b"0"), record.timestamp()[1]) for record in published]
    times = sorted(then for _, then in sent if since_ms <= then < until_ms)
    return {
        "gap_max_ms": max((after - before for before, after in pairwise(times)), default=0),
        "age_max_ms": max((then - began for began, then in sent if since_ms <= began < until_ms), default=0),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reloads", type=int, default=10)
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second")
    parser.add_argument("--pause", type=float, nargs=2, default=(5.0, 60.0), help="s between two reloads")
    parser.add_argument("--batch", type=float, default=120.0, help="s from checkpoint to checkpoint")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = options_of(parser, arguments, reloads=2, rate=200, pause=(1.0, 2.0), batch=20.0, seed=0)
    chance = random.Random(options.seed)
    say(f"{machine()}; seed {options.seed}")
    took_s, began_ms = [], []
    with ExitStack() as ends:
        ends.enter_context(ending_in_good_order())
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="isthmus-reload-")))
        broker = ends.enter_context(EmbeddedKafka(folder / "kafka"))
        kafka = Kafka(broker.bootstrap_servers)
        create_topics(kafka, [JOURNAL.topic, *DESTINATIONS], 4)
        bridge = Bridge(folder, broker.bootstrap_servers, options.batch)
        ends.callback(bridge.stop)
        bridge.start()
        load, watch = Load(kafka, options.rate), Watch(kafka)
        load.start()
        watch.start()
        watch.real_time_since(0, bridge)
        since_ms = round(time.time() * 1000)
        bar = ends.enter_context(progress())
        task = bar.add_task("", total=options.reloads)
        for turn in range(1, options.reloads + 1):
            time.sleep(chance.uniform(*options.pause))
            began_ms.append(round(time.time() * 1000))
            took_s.append(bridge.reload(turn))
            watch.real_time_since(0, bridge)
            say(f"reload {turn}: {took_s[-1]:.1f} s")
            bar.advance(task)
        load.finish()
        journaled = {
            layout.stable_id(record.topic() or "", record.partition() or 0, record.offset() or 0)
            for record in read_topic(kafka, JOURNAL.topic)
        }
        deadline = time.monotonic() + PATIENCE_S
        while not journaled <= watch.found and time.monotonic() < deadline:
            time.sleep(0.5)
        bridge.stop()
        published = [record for name in DESTINATIONS for record in read_topic(kafka, name)]
        figures = judge(journaled, published)
        if any(figures.values()):
            say(bridge.said)
    gaps_ms = [
        waits(published, since_ms, until_ms)["gap_max_ms"]
        for since_ms, until_ms in pairwise([*began_ms, round(time.time() * 1000)])
    ]
    say(f"the longest gap of each, in ms: {', '.join(map(str, gaps_ms))}")
    finish(
        "reload",
        {
            "seed": options.seed,
            "rate_per_s": options.rate,
            "reloads": options.reloads,
            "sent": load.sent,
            "journaled": len(journaled),
            **figures,
            **waits(published, since_ms),
            "reload_max_s": round(max(took_s), 1),
        },
    )


if __name__ == "__main__":
    main()

"""What the monitor's page costs, and how fresh it is, while messages flow.

``python -m benches.page [--rate N] [--seconds N] [--paints N]``: ``isthmus run`` as users have it, on an
embedded Kafka, with messages written to its journal at an even rate, and the page in a Chromium. Linux only.

- ``first_paint_ms``: from the navigation to the first content, the median of several loads.
- ``age_max_s``: how old the count of published messages was, at worst, that the page showed: the time since
  the topic last had no more records than that.
- ``cpu_percent``: of one core, by how much the CPU time of the bridge's Python process is higher while the
  page is open; ``thread_percent`` is what the monitor's own thread took of it.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import bisect
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any

from benches.harness import cpu_s, ending_in_good_order, finish, machine, middle, options_of, say
from isthmus.embedded.kafka import find_running
from isthmus.kafka.blocking import EndOffsets, producer
from isthmus.kafka.options import Kafka
from isthmus.routing.explain import sample

CONFIG = """
bridge.id=page
state.dir={folder}/state
amqp.enabled=false
monitor.port=0
journal.partitions=2
routes.orders.predicate=msg.address==orders
routes.orders.dest.topic=page-orders
"""
JOURNAL, TOPIC = "isthmus.page.journal", "page-orders"
START_S = 300.0
LOOK_S = 0.05
TICK_S = 0.02
_FIRST_COUNT = """() => {
  const cell = document.querySelector("td[data-label=Published]");
  return cell && Number(cell.textContent.replaceAll(",", "")) > 0;
}"""
_SAMPLES = """async ([seconds, every]) => {
  const found = [];
  for (const end = Date.now() + seconds * 1000; Date.now() < end; ) {
    const cell = document.querySelector("td[data-label=Published]");
    if (cell) found.push([Date.now() / 1000, Number(cell.textContent.replaceAll(",", ""))]);
    await new Promise((done) => setTimeout(done, every * 1000));
  }
  return found;
}"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=int, default=10_000, help="how many messages a second")
    parser.add_argument("--seconds", type=float, default=30, help="how long each measurement takes")
    parser.add_argument("--warm-up", type=float, default=30, help="how long messages flow before that")
    parser.add_argument("--paints", type=int, default=7, help="how often the page is loaded")
    options = options_of(parser, arguments, rate=500, seconds=4, warm_up=3, paints=2)
    say(f"[bold]page[/]: {options.rate} messages a second on {machine()}")
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no Chromium (chromium) on this machine")
    with ExitStack() as ends:
        ends.enter_context(ending_in_good_order())
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="isthmus-page-")))
        bridge, url = _start(folder)
        ends.callback(_stop, bridge)
        kafka = find_running(folder / "state" / "kafka")
        assert kafka is not None
        ends.enter_context(_Load(kafka, options.rate))
        topic = ends.enter_context(_Topic(kafka))
        time.sleep(options.warm_up)
        results = _measured(bridge.pid, url, chromium, topic, options)
    for name, figure in results.items():
        say(f"{name:<16}{figure:8.2f}")
    finish("page", {**results, "rate": options.rate, "seconds": options.seconds})


def _measured(
    pid: int, url: str, chromium: str, topic: _Topic, options: argparse.Namespace
) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    alone = _cpu_percent(pid, options.seconds)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"], timeout=START_S * 1000
        )
        paints = [_first_paint_ms(browser, url) for _ in range(options.paints)]
        page = _new_page(browser)
        page.goto(f"{url}/#/routes")
        page.wait_for_function(_FIRST_COUNT)
        thread_before = _monitor_cpu_s(url)
        before, began = cpu_s(pid) or 0.0, time.monotonic()
        shown = page.evaluate(_SAMPLES, [options.seconds, LOOK_S])
        took_s = time.monotonic() - began
        watched = ((cpu_s(pid) or 0.0) - before) / took_s * 100
        thread = (_monitor_cpu_s(url) - thread_before) / took_s * 100
        browser.close()
    return {
        "first_paint_ms": round(middle(paints), 1),
        "age_max_s": round(max(topic.age_s(at, count) for at, count in shown), 2),
        "cpu_percent": round(max(0.0, watched - alone), 2),
        "thread_percent": round(thread, 2),
        "published": shown[-1][1],
        "published_per_s": round((shown[-1][1] - shown[0][1]) / (shown[-1][0] - shown[0][0]), 1),
    }


def _new_page(browser: Any) -> Any:
    """With nothing in its cache."""
    page = browser.new_page()
    page.set_default_timeout(START_S * 1000)
    return page


def _first_paint_ms(browser: Any, url: str) -> float:
    page = _new_page(browser)
    page.goto(url)
    entry = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    page.wait_for_function(entry)
    paint = float(page.evaluate(entry))
    page.close()
    return paint


def _cpu_percent(pid: int, seconds: float) -> float:
    before, began = cpu_s(pid) or 0.0, time.monotonic()
    time.sleep(seconds)
    return ((cpu_s(pid) or 0.0) - before) / (time.monotonic() - began) * 100


def _monitor_cpu_s(url: str) -> float:
    """What the monitor's thread has used so far, as it says itself."""
    with closing(HTTPConnection(url.removeprefix("http://"), timeout=30)) as connection:
        connection.request("GET", "/api/feed")
        events = connection.getresponse()
        while not (line := events.readline()).startswith(b"data: "):
            pass
    return float(json.loads(line[6:])["monitor"]["cpu_s"])


class _Load:
    """Messages in the journal, at an even rate, until the end of a ``with`` block."""

    def __init__(self, kafka: Kafka, rate: int) -> None:
        self._producer = producer(kafka, {"linger.ms": 5, "acks": "all"})
        self._rate = rate
        self._record = sample("orders", {}, b"x" * 256, json=False)
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._over.wait(TICK_S):
            due = int((time.monotonic() - began) * self._rate)
            for number in range(sent, due):
                self._producer.produce(
                    JOURNAL,
                    self._record.value,
                    self._record.key,
                    headers=list(self._record.headers),
                    partition=number % 2,
                )
            sent = due
            self._producer.poll(0)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush(10)


class _Topic:
    """How many records the destination had, and when."""

    def __init__(self, kafka: Kafka) -> None:
        self._offsets = EndOffsets(kafka)
        self._times: list[float] = []
        self._counts: list[int] = []
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def age_s(self, at_s: float, count: int) -> float:
        """How long ago, at that time, it last had no more than so many."""
        index = bisect.bisect_right(self._counts, count) - 1
        return max(0.0, at_s - self._times[index]) if index >= 0 else 0.0

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            ends = self._offsets.of(lambda name: name == TOPIC)
            self._times.append(time.time())
            self._counts.append(sum(ends.values()))

    def __enter__(self) -> _Topic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    file, log = folder / "page.properties", folder / "bridge.log"
    file.write_text(CONFIG.format(folder=folder))
    with log.open("wb") as output:
        bridge = subprocess.Popen(
            [sys.executable, "-m", "isthmus", "run", str(file)], stdout=output, stderr=output
        )
    deadline = time.monotonic() + START_S
    while not (found := re.search(r"^ready:.*monitor (http://\S+)", log.read_text(), re.MULTILINE)):
        if bridge.poll() is not None or time.monotonic() > deadline:
            bridge.kill()
            raise SystemExit(f"the bridge does not start:\n{log.read_text()}")
        time.sleep(0.1)
    return bridge, found[1]


def _stop(bridge: subprocess.Popen[bytes]) -> None:
    bridge.send_signal(signal.SIGTERM)
    bridge.wait()


if __name__ == "__main__":
    main()

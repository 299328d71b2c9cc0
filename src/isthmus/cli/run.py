"""``isthmus run`` and ``isthmus pipeline``: start a bridge, or its pipeline alone, and look after it."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from threading import Event
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from isthmus.cli.bridge import ConfigFile, connect, kafka_folder, read_settings
from isthmus.config import Settings
from isthmus.errors import HardFailure

if TYPE_CHECKING:
    from isthmus.embedded.kafka import EmbeddedKafka
    from isthmus.kafka import Kafka
    from isthmus.pipeline.run import Pipeline
    from isthmus.telemetry.metrics import RouterMetrics

POLL_S = 0.25
"""How often the pipeline is looked at: what delays a stop, or the news of a failure."""


def run(file: ConfigFile = None) -> None:
    """Run a bridge in the foreground: all of its parts, until Ctrl-C or SIGTERM.

    On a terminal it shows a live panel, elsewhere plain lines. With no file it runs on an embedded Kafka.
    """
    _run(read_settings(file), start_kafka=True)


def pipeline(file: ConfigFile = None) -> None:
    """Run only the data pipeline of a bridge, on a Kafka that runs already."""
    _run(read_settings(file), start_kafka=False)


def _run(settings: Settings, *, start_kafka: bool) -> None:
    from isthmus.kafka import Kafka
    from isthmus.pipeline.run import Pipeline
    from isthmus.telemetry.http import Monitor

    console = Console(highlight=False, soft_wrap=True)
    stop = Event()
    _stop_on_signals(stop)
    with ExitStack() as parts:
        broker: EmbeddedKafka | None = None
        if settings.kafka.embedded and start_kafka:
            broker = _start_broker(settings, console, parts)
            kafka = Kafka(broker.bootstrap_servers)
        else:
            kafka = connect(settings)
        router = Pipeline(settings, kafka)
        with console.status("starting Spark"):
            parts.enter_context(router)
        _stop_on_signals(stop)  # again: Spark's driver takes SIGINT for itself
        monitor = Monitor(
            settings.monitor.host, settings.monitor.port, router.metrics, lambda: _problems(router, kafka)
        )
        parts.enter_context(monitor)
        facts = {
            "bridge": settings.bridge_id,
            "kafka": f"{kafka.servers!r}".strip("'") + (" (embedded)" if broker else ""),
            "routes": str(len(settings.routes)),
            "mode": settings.pipeline.mode,
            "monitor": monitor.url,
        }
        _look_after(router, broker, facts, console, stop)
        console.print("stopping")
    console.print("stopped")


def _start_broker(settings: Settings, console: Console, parts: ExitStack) -> EmbeddedKafka:
    from isthmus.embedded.kafka import EmbeddedKafka

    broker = EmbeddedKafka(kafka_folder(settings))
    with console.status("starting the embedded Kafka"):
        parts.enter_context(broker)
    return broker


def _stop_on_signals(stop: Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())


def _problems(router: Pipeline, kafka: Kafka) -> dict[str, str]:
    """What is wrong with the bridge, by part."""
    problems = {}
    if router.problem is not None:
        problems["router"] = router.problem
    if not kafka.answers():
        problems["kafka"] = "does not answer"
    return problems


def _look_after(
    router: Pipeline, broker: EmbeddedKafka | None, facts: dict[str, str], console: Console, stop: Event
) -> None:
    """Watch the parts until a stop is asked for. Raises `HardFailure` when one of them cannot go on."""
    started = time.monotonic()
    if not console.is_terminal:
        console.print("ready: " + ", ".join(f"{name} {value}" for name, value in facts.items()))
    with (
        Live(console=console, auto_refresh=False, transient=True)
        if console.is_terminal
        else ExitStack() as live
    ):
        reported = 0
        while not stop.wait(POLL_S):
            router.poll()
            if broker is not None and not broker.alive:
                raise HardFailure(
                    "the embedded Kafka has stopped", remedy="see its kafka.log, then start the bridge again"
                )
            if isinstance(live, Live):
                live.update(_panel(router.metrics, facts, time.monotonic() - started), refresh=True)
            elif (seen := sum(router.metrics.outcomes.values())) != reported:
                console.print(_line(router.metrics))
                reported = seen


def _line(metrics: RouterMetrics) -> str:
    return "records so far: " + ", ".join(
        f"{outcome} {count}" for outcome, count in metrics.outcomes.items() if count
    )


def _panel(metrics: RouterMetrics, facts: dict[str, str], up_s: float) -> Group:
    head = Text.assemble(
        ("isthmus ", "bold green"), f"up {int(up_s) // 60}:{int(up_s) % 60:02}  Ctrl-C stops"
    )
    about = Text("  ".join(f"{name} {value}" for name, value in facts.items()), style="dim")
    routes = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("route", "published", "failed", "latency"):
        routes.add_column(title, justify="left" if title == "route" else "right", style="cyan")
    for name, counts in metrics.routes.items():
        average = counts.latency_avg_ms
        latency = "" if average is None else f"{average:.1f} ms"
        routes.add_row(name, str(counts.success), str(counts.failure), latency)
    outcomes = Text(_line(metrics) if any(metrics.outcomes.values()) else "no records yet")
    return Group(head, about, routes, outcomes)

"""``isthmus run`` and ``isthmus pipeline``: start a bridge, or its pipeline alone, and look after it."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from threading import Event
from typing import TYPE_CHECKING

from rich.console import Console

from isthmus.cli.bridge import ConfigFile, connect, kafka_folder, read_settings
from isthmus.cli.status import Show, status
from isthmus.config import Settings
from isthmus.errors import HardFailure

if TYPE_CHECKING:
    from isthmus.embedded.kafka import EmbeddedKafka
    from isthmus.kafka import Kafka
    from isthmus.pipeline.run import Pipeline

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
        with status(console, settings, kafka, router.metrics, facts) as show:
            _look_after(router, broker, show, stop)
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


def _look_after(router: Pipeline, broker: EmbeddedKafka | None, show: Show, stop: Event) -> None:
    """Watch the parts until a stop is asked for. Raises `HardFailure` when one of them cannot go on."""
    while not stop.wait(POLL_S):
        router.poll()
        if broker is not None and not broker.alive:
            raise HardFailure(
                "the embedded Kafka has stopped", remedy="see its kafka.log, then start the bridge again"
            )
        show()

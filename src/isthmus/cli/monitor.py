"""``isthmus monitor``: the page of a bridge whose edges and pipeline run in other processes."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from isthmus import config
from isthmus.cli.bridge import ConfigFile, connect, read_configuration
from isthmus.cli.file_watch import FileWatch
from isthmus.cli.stopping import Stop
from isthmus.errors import ConfigError, IsthmusError
from isthmus.events.bridge import Reloaded, ReloadRefused

if TYPE_CHECKING:
    from isthmus.config import Settings
    from isthmus.telemetry.metrics import RouterMetrics

POLL_S = 0.5


def monitor(
    file: ConfigFile = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            help="The monitor of a process that runs edges or the pipeline, e.g. "
            "`http://edge:9464`; it has the same token. Repeatable.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Reload when the file changes.")] = False,
) -> None:
    """Run only the page of a bridge, beside its edges and pipeline, on a Kafka that runs already.

    It counts what the router publishes by itself, from its start on. What only the other processes know, such
    as their connections, it asks their monitors for. SIGHUP has it read its file again: the routes.

    For example `isthmus monitor bridge.properties --beside http://127.0.0.1:9465`.
    """
    from isthmus.config.judgement.routing_plan import source_topics
    from isthmus.kafka.blocking import answers, end_offsets
    from isthmus.monitor.app import Watched
    from isthmus.monitor.beside import Beside
    from isthmus.monitor.inspector import Topics
    from isthmus.monitor.server import Monitor
    from isthmus.telemetry.live import LiveTelemetry, is_destination
    from isthmus.telemetry.metrics import RouterMetrics
    from isthmus.telemetry.overview import Overview, versions
    from isthmus.telemetry.parts import PartMetrics

    stop = Stop()
    goes_by = _GoesBy(file, watch=watch)
    stop.take_signals()
    settings = goes_by.settings
    kafka = connect(settings)
    metrics = RouterMetrics(settings.bridge_id, _topics(settings))
    metrics.routed(end_offsets(kafka, source_topics(settings)))  # how far it was before is not known
    telemetry = LiveTelemetry(
        kafka,
        settings.events_topic,
        metrics,
        sources=frozenset(source_topics(settings)),
        is_destination=lambda topic: is_destination(goes_by.settings, topic),
    )
    others = Beside(beside or [], settings.monitor.token)

    def problems() -> dict[str, str]:
        stalled = metrics.stalled
        return others.problems() | ({"router": stalled} if stalled else {})

    def health() -> dict[str, str]:
        return problems() | ({} if answers(kafka) else {"kafka": "does not answer"})

    overview = Overview(
        metrics,
        PartMetrics(settings.bridge_id, others.reports),
        settings.journal.topic,
        lambda: goes_by.settings.routes,
        {
            "bridge": settings.bridge_id,
            "kafka": f"{kafka.servers!r}".strip("'"),
            "mode": settings.pipeline.mode,
        },
        problems=problems,
        versions=versions(spark=False),
        queries=settings.queries,
        held=others.held,
    )
    console = Console(highlight=False, soft_wrap=True)
    with suppress(KeyboardInterrupt), ExitStack() as parts:
        watched = Watched(
            overview,
            health,
            Topics(lambda: goes_by.settings, kafka),
            clients=others.clients,
            queues=others.queues,
        )
        page = parts.enter_context(
            Monitor(settings.monitor.host, settings.monitor.port, watched, token=settings.monitor.token)
        )
        parts.enter_context(others)
        telemetry.start()
        parts.callback(telemetry.stop)
        console.print(f"ready: bridge {settings.bridge_id}, monitor {page.url}")
        stop.started()
        while not stop.asked.wait(POLL_S):
            goes_by.poll(metrics)
        stop.stopping()


class _GoesBy:
    """The configuration as it was last read, and read again when somebody asks for it, or it has changed."""

    def __init__(self, file: Path | None, *, watch: bool) -> None:
        self._file = file
        self._reading = read_configuration(file)
        self._watch = FileWatch(lambda: [file] if file else []) if watch else None
        self._asked = Event()
        signal.signal(signal.SIGHUP, lambda *_: self._asked.set())

    @property
    def settings(self) -> Settings:
        """What the page shows."""
        return self._reading.settings

    def poll(self, metrics: RouterMetrics) -> None:
        """Read it again if it is time, and count by the routes that it has now."""
        if self._watch is not None and self._watch.changed():
            self._asked.set()
        if self._asked.is_set():
            self._asked.clear()
            self._read_again(metrics)

    def _read_again(self, metrics: RouterMetrics) -> None:
        began = time.monotonic()
        try:
            reading = config.read(self._file, os.environ)
            if reading.errors:
                raise ConfigError("\n".join(problem.described for problem in reading.errors))
            if reasons := config.needs_restart(self._reading, reading):
                raise ConfigError(f"needs a restart: {', '.join(reasons)}")
        except IsthmusError as failure:
            ReloadRefused(failure).emit()
            return
        self._reading = reading
        metrics.change_routes(_topics(reading.settings))
        Reloaded(len(reading.settings.routes), time.monotonic() - began).emit()


def _topics(settings: Settings) -> dict[str, str]:
    return {each.name: each.topic for each in settings.all_routes}

"""``isthmus run``, ``pipeline`` and ``edge``: start a bridge, or a part of it, and look after it."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from threading import Event
from typing import TYPE_CHECKING

from rich.console import Console

from isthmus import config
from isthmus.cli.bridge import ConfigFile, connect, kafka_folder, read_settings
from isthmus.cli.status import Show, status
from isthmus.config import Settings
from isthmus.errors import ConfigError, HardFailure
from isthmus.private import UMASK, private_folder

if TYPE_CHECKING:
    from isthmus.edges.service import EdgeService
    from isthmus.embedded.kafka import EmbeddedKafka
    from isthmus.embedded.nats import EmbeddedNats
    from isthmus.kafka.options import Kafka
    from isthmus.pipeline.run import Pipeline

POLL_S = 0.5
"""How often the parts are looked at, and the panel is drawn: what delays the news of a failure."""


def run(file: ConfigFile = None) -> None:
    """Run a bridge in the foreground: all of its parts, until Ctrl-C or SIGTERM.

    On a terminal it shows a live panel, elsewhere plain lines. With no file it runs on an embedded Kafka.
    """
    _Bridge(read_settings(file)).run(kafka=True, pipeline=True, edges=True)


def pipeline(file: ConfigFile = None) -> None:
    """Run only the data pipeline of a bridge, on a Kafka that runs already."""
    _Bridge(read_settings(file)).run(kafka=False, pipeline=True, edges=False)


def edge(file: ConfigFile = None) -> None:
    """Run only the edges of a bridge, which speak AMQP, NATS and MQ, on a Kafka that runs already."""
    from isthmus.edges.needs import needed

    settings = read_settings(file)
    if not needed(settings):
        raise ConfigError(
            "no edges: the configuration has no intakes, connectors or destinations beyond Kafka"
        )
    _Bridge(settings).run(kafka=False, pipeline=False, edges=True)


class _Bridge:
    """The parts of a bridge that this process runs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._console = Console(highlight=False, soft_wrap=True)
        self._broker: EmbeddedKafka | None = None
        self._nats: EmbeddedNats | None = None
        self._pipeline: Pipeline | None = None
        self._edges: EdgeService | None = None

    def run(self, *, kafka: bool, pipeline: bool, edges: bool) -> None:
        """Run these parts until a signal says stop. Raises `HardFailure` when one of them cannot go on."""
        stop = Event()
        _stop_on_signals(stop)
        os.umask(UMASK)  # of all processes that it starts, too
        private_folder(self._settings.local_state_dir)
        with ExitStack() as parts:
            if pipeline:
                self._hold_state(parts)
            cluster = self._start_kafka(parts) if kafka and self._settings.kafka.embedded else None
            cluster = cluster or connect(self._settings)
            if edges:
                self._prepare_edges(cluster, parts)
            if pipeline:
                self._start_pipeline(cluster, parts)
            _stop_on_signals(stop)  # again: Spark's driver takes SIGINT for itself
            if edges:
                self._start_edges(cluster, parts)
            self._serve(cluster, parts, stop)
            self._console.print("stopping")
        self._console.print("stopped")

    def _hold_state(self, parts: ExitStack) -> None:
        from isthmus.pipeline.state_lock import StateLock

        parts.enter_context(StateLock(self._settings.local_state_dir))

    def _start_kafka(self, parts: ExitStack) -> Kafka:
        from isthmus.embedded.kafka import EmbeddedKafka

        self._broker = EmbeddedKafka(kafka_folder(self._settings), secured=True)
        with self._console.status("starting the embedded Kafka"):
            parts.enter_context(self._broker)
        return self._broker.cluster

    def _start_pipeline(self, cluster: Kafka, parts: ExitStack) -> None:
        from isthmus.pipeline.run import Pipeline

        self._pipeline = Pipeline(self._settings, cluster)
        with self._console.status("starting Spark"):
            parts.enter_context(self._pipeline)

    def _prepare_edges(self, cluster: Kafka, parts: ExitStack) -> None:
        """What edges need before they start: an embedded NATS, and topics."""
        from isthmus.edges.needs import uses_nats
        from isthmus.embedded.nats import EmbeddedNats, find_running
        from isthmus.kafka.own_topics import make_own_topics

        settings = self._settings
        if settings.nats.embedded and uses_nats(settings):
            folder = settings.local_state_dir / "nats"
            url = find_running(folder)
            if url is None:
                self._nats = EmbeddedNats(folder)
                with self._console.status("starting the embedded NATS"):
                    parts.enter_context(self._nats)
                url = self._nats.url
            nats = settings.nats.model_copy(update={"servers": (url,)})
            self._settings = settings.model_copy(update={"nats": nats})
        make_own_topics(settings, cluster)

    def _start_edges(self, cluster: Kafka, parts: ExitStack) -> None:
        from isthmus.edges.needs import needed

        if needed(self._settings):
            from isthmus.edges.service import EdgeService

            self._edges = EdgeService(self._settings, cluster)
            with self._console.status("starting the edges"):
                parts.enter_context(self._edges)

    def _serve(self, cluster: Kafka, parts: ExitStack, stop: Event) -> None:
        from isthmus.telemetry.http import Monitor
        from isthmus.telemetry.metrics import RouterMetrics
        from isthmus.telemetry.parts import PartMetrics

        settings = self._settings
        metrics = self._pipeline.metrics if self._pipeline else RouterMetrics(settings.bridge_id, {})
        reports = self._edges.reports if self._edges else list
        monitor = Monitor(
            settings.monitor.host,
            settings.monitor.port,
            metrics,
            lambda: self._problems(cluster),
            PartMetrics(settings.bridge_id, reports),
            token=settings.monitor.token,
        )
        parts.enter_context(monitor)
        facts = {**self._facts(cluster), "monitor": monitor.url}
        with status(self._console, settings, metrics, facts, reports) as show:
            self._look_after(show, stop)

    def _facts(self, cluster: Kafka) -> dict[str, str]:
        from isthmus.edges.mq.client import queue_manager
        from isthmus.edges.needs import queue_managers

        settings = self._settings
        facts = {
            "bridge": settings.bridge_id,
            "kafka": f"{cluster.servers!r}".strip("'") + (" (embedded)" if self._broker else ""),
        }
        if self._pipeline:
            facts |= {"routes": str(len(settings.routes)), "mode": _mode(settings)}
            facts["without a route"] = config.outline(settings)["without a route"]
        if not settings.listens_to_amqp:  # else the address that they found says it better
            facts["takes"] = config.outline(settings)["takes"]
        if self._edges:
            if ports := self._edges.amqp_ports:
                facts["amqp"] = ", ".join(f"{settings.amqp.host}:{port}" for port in ports)
            if settings.nats.servers:
                facts["nats"] = f"{self._nats.url} (embedded)" if self._nats else settings.nats.shown_servers
            if managers := [queue_manager(each).description for each in queue_managers(settings)]:
                facts["mq"] = "; ".join(managers)
        return facts

    def _problems(self, cluster: Kafka) -> dict[str, str]:
        """What is wrong with the bridge, by part."""
        problems = self._pipeline.problems if self._pipeline is not None else {}
        if self._edges is not None:
            problems |= self._edges.problems
        from isthmus.kafka.blocking import answers

        if not answers(cluster):
            problems["kafka"] = "does not answer"
        return problems

    def _look_after(self, show: Show, stop: Event) -> None:
        """Watch the parts until a stop is asked for. Raises `HardFailure` when one of them cannot go on."""
        while not stop.wait(POLL_S):
            if self._pipeline is not None:
                self._pipeline.poll()
            if self._edges is not None:
                self._edges.poll()
            if self._broker is not None and not self._broker.alive:
                raise HardFailure(
                    "the embedded Kafka has stopped", remedy="see its kafka.log, then start the bridge again"
                )
            if self._nats is not None and not self._nats.alive:
                raise HardFailure(
                    "the embedded NATS has stopped", remedy="see its nats.log, then start the bridge again"
                )
            show()


def _mode(settings: Settings) -> str:
    """How Spark runs the router, and why not as the settings ask."""
    if settings.pipeline.mode == "real-time" and settings.own_converters:
        return f"micro-batch (for {' and '.join(settings.own_converters)}, which is Python)"
    return settings.pipeline.mode


def _stop_on_signals(stop: Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

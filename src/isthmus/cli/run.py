"""``isthmus run``, ``pipeline`` and ``edge``: start a bridge, or a part of it, and look after it."""

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
from isthmus.cli.bridge import ConfigFile, connect, kafka_folder, read_configuration
from isthmus.cli.file_watch import FileWatch
from isthmus.cli.probes import probes, require
from isthmus.cli.reload import answer, asked
from isthmus.cli.status import Show, status
from isthmus.cli.stopping import Stop
from isthmus.config import Settings
from isthmus.errors import ConfigError, HardFailure, IsthmusError
from isthmus.events.bridge import (
    Reloaded,
    ReloadRefused,
    ReloadUnfinished,
    Started,
    Starting,
    Stopped,
    Stopping,
    SystemAwaited,
)
from isthmus.private import UMASK, private_folder

if TYPE_CHECKING:
    from isthmus.edges.service import EdgeService
    from isthmus.embedded.kafka import EmbeddedKafka
    from isthmus.embedded.nats import EmbeddedNats
    from isthmus.kafka.options import Kafka
    from isthmus.pipeline.run import Pipeline


CHANGING_S = 0.02
"""How often the router is looked at while it changes its routes: messages wait for that."""
POLL_S = 0.5
"""How often the parts are looked at, and the panel is drawn: what delays the news of a failure."""


Watch = Annotated[
    bool, typer.Option("--watch", help="Reload when the file, the users file or a certificate changes.")
]


def run(file: ConfigFile = None, watch: Watch = False) -> None:
    """Run a bridge in the foreground: all of its parts, until Ctrl-C or SIGTERM.

    On a terminal it shows a live panel, elsewhere plain lines. With no file it runs on an embedded Kafka.
    SIGHUP and isthmus reload have it read its file again: routes, users and certificates.
    """
    _Bridge(file, watch=watch).run(kafka=True, pipeline=True, edges=True)


def pipeline(file: ConfigFile = None, watch: Watch = False) -> None:
    """Run only the data pipeline of a bridge, on a Kafka that runs already."""
    _Bridge(file, watch=watch).run(kafka=False, pipeline=True, edges=False)


def edge(file: ConfigFile = None, watch: Watch = False) -> None:
    """Run only the edges of a bridge, which speak AMQP, NATS and MQ, on a Kafka that runs already."""
    from isthmus.edges.needs import needed

    bridge = _Bridge(file, watch=watch)
    if not needed(bridge.settings):
        raise ConfigError(
            "no edges: the configuration has no intakes, connectors or destinations beyond Kafka"
        )
    bridge.run(kafka=False, pipeline=False, edges=True)


class _Bridge:
    """The parts of a bridge that this process runs."""

    def __init__(self, file: Path | None, *, watch: bool = False) -> None:
        self._file = file
        self._reading = read_configuration(file)
        self._settings = self._reading.settings
        self._watch = FileWatch(self._watched) if watch else None
        self._reload = Event()
        self._console = Console(highlight=False, soft_wrap=True)
        self._broker: EmbeddedKafka | None = None
        self._nats: EmbeddedNats | None = None
        self._pipeline: Pipeline | None = None
        self._edges: EdgeService | None = None

    @property
    def settings(self) -> Settings:
        """What it goes by."""
        return self._settings

    def run(self, *, kafka: bool, pipeline: bool, edges: bool) -> None:
        """Run these parts until a signal says stop. Raises `HardFailure` when one of them cannot go on."""
        stop = Stop()
        signal.signal(signal.SIGHUP, lambda *_: self._reload.set())
        stop.take_signals()
        os.umask(UMASK)  # of all processes that it starts, too
        private_folder(self._settings.local_state_dir)
        with ExitStack() as parts:
            with suppress(KeyboardInterrupt):  # which Spark's driver raises too, where it took the signal
                self._start(stop, parts, kafka=kafka, pipeline=pipeline, edges=edges)
            stop.stopping()
            Stopping(self._settings.bridge_id).emit()
            self._console.print("stopping")
        Stopped(self._settings.bridge_id).emit()
        self._console.print("stopped")

    def _start(self, stop: Stop, parts: ExitStack, *, kafka: bool, pipeline: bool, edges: bool) -> None:
        """Start these parts, and look after them. `KeyboardInterrupt` for a signal during the start."""
        Starting(self._settings.bridge_id, len(self._settings.routes)).emit()
        if pipeline:
            self._hold_state(parts)
        self._try_everything(pipeline=pipeline, edges=edges)
        cluster = self._start_kafka(parts) if kafka and self._settings.kafka.embedded else None
        cluster = cluster or connect(self._settings)
        if edges:
            self._prepare_edges(cluster, parts)
        if pipeline:
            self._start_pipeline(cluster, parts)
        stop.take_signals()  # again: Spark's driver takes SIGINT for itself
        if edges:
            self._start_edges(cluster, parts)
        self._serve(cluster, parts, stop)

    def _hold_state(self, parts: ExitStack) -> None:
        from isthmus.pipeline.state_lock import StateLock

        parts.enter_context(StateLock(self._settings.local_state_dir))

    def _try_everything(self, *, pipeline: bool, edges: bool) -> None:
        """Find what would fail later, before anything is started."""
        wanted = probes(self._settings, pipeline=pipeline, edges=edges)
        with self._console.status("trying ports, files and logins"):
            unanswered = require(wanted)
        for each in unanswered:
            SystemAwaited(each.said).emit()

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
        from isthmus.embedded.nats import EmbeddedNats, find_running, key_file
        from isthmus.kafka.own_topics import make_own_topics

        settings = self._settings
        if settings.nats.embedded and uses_nats(settings):
            folder = settings.local_state_dir / "nats"
            url = find_running(folder)
            if url is None:
                self._nats = EmbeddedNats(folder, secured=True)
                with self._console.status("starting the embedded NATS"):
                    parts.enter_context(self._nats)
                url = self._nats.url
            self._settings = _with_nats(settings, (url,), str(key_file(folder)))
        make_own_topics(settings, cluster)

    def _start_edges(self, cluster: Kafka, parts: ExitStack) -> None:
        from isthmus.edges.needs import needed

        if needed(self._settings):
            from isthmus.edges.service import EdgeService

            self._edges = EdgeService(self._settings, cluster)
            with self._console.status("starting the edges"):
                parts.enter_context(self._edges)

    def _serve(self, cluster: Kafka, parts: ExitStack, stop: Stop) -> None:
        from isthmus.monitor.app import Watched
        from isthmus.monitor.inspector import Topics
        from isthmus.monitor.server import Monitor
        from isthmus.telemetry.metrics import RouterMetrics
        from isthmus.telemetry.overview import Overview, versions
        from isthmus.telemetry.parts import Clients, PartMetrics

        settings = self._settings
        metrics = self._pipeline.metrics if self._pipeline else RouterMetrics(settings.bridge_id, {})
        parts_metrics = PartMetrics(settings.bridge_id, self._edges.reports if self._edges else list)
        facts = self._facts(cluster)
        overview = Overview(
            metrics,
            parts_metrics,
            settings.journal.topic,
            lambda: self._settings.routes,
            facts,
            problems=self._own_problems,
            versions=versions(spark=self._pipeline is not None),
            queries=settings.queries if self._pipeline else (),
            held=lambda: self._pipeline.held if self._pipeline else None,
        )
        monitor = Monitor(
            settings.monitor.host,
            settings.monitor.port,
            Watched(
                overview,
                lambda: self._problems(cluster),
                Topics(lambda: self._settings, cluster),
                clients=self._edges.clients if self._edges else lambda _: Clients(),
                queues=self._edges.queues if self._edges else list,
            ),
            token=settings.monitor.token,
        )
        parts.enter_context(monitor)
        facts["monitor"] = monitor.url

        with status(self._console, overview.document) as show:
            stop.started()
            Started(settings.bridge_id).emit()
            self._look_after(show, stop.asked)

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

    def _own_problems(self) -> dict[str, str]:
        """What is wrong with the bridge, by part, as far as its parts know."""
        problems = self._pipeline.problems if self._pipeline is not None else {}
        if self._edges is not None:
            problems |= self._edges.problems
        return problems

    def _problems(self, cluster: Kafka) -> dict[str, str]:
        """The same, and what Kafka says when it is asked."""
        problems = self._own_problems()
        from isthmus.kafka.blocking import answers

        if not answers(cluster):
            problems["kafka"] = "does not answer"
        return problems

    def _look_after(self, show: Show, stop: Event) -> None:
        """Watch the parts until a stop is asked for. Raises `HardFailure` when one of them cannot go on."""
        while not stop.wait(self._pause_s()):
            if self._watch is not None and self._watch.changed():
                self._reload.set()
            if self._reload.is_set():
                self._reload.clear()
                self._read_again(stop)
            self._poll_parts()
            show()

    def _pause_s(self) -> float:
        """Until the parts are to be looked at again."""
        if self._pipeline is None:
            return POLL_S
        if self._pipeline.catching_up:
            return CHANGING_S
        due_in_s = self._pipeline.due_in_s
        return POLL_S if due_in_s is None else min(POLL_S, max(CHANGING_S, due_in_s))

    def _poll_parts(self) -> None:
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

    # Reloading

    def _watched(self) -> list[Path]:
        """The files that it goes by."""
        settings = self._settings
        amqps = settings.amqps
        named = (settings.amqp.users_file, amqps.certificate, amqps.key, amqps.client_ca)
        return [each for each in (self._file, *(Path(name) for name in named if name)) if each is not None]

    def _read_again(self, stop: Event) -> None:
        """Go by the configuration as it is now, if that can be; else go on as before, and say why."""
        folder = self._settings.local_state_dir
        token = asked(folder)
        began = time.monotonic()
        try:
            reading = config.read(self._file, os.environ)
            if reading.errors:
                raise ConfigError("\n".join(problem.described for problem in reading.errors))
            if reasons := config.needs_restart(self._reading, reading):
                raise ConfigError(f"needs a restart: {', '.join(reasons)}")
            settings = self._change_router(reading.settings, stop)
        except IsthmusError as failure:
            ReloadRefused(failure).emit()
            answer(folder, token, ok=False, said=f"the bridge goes on as it was: {failure}")
            if self._pipeline is not None and self._pipeline.changing and not stop.is_set():
                raise  # the router, or what it needs, cannot go on
            return
        self._settings, self._reading = settings, reading
        try:
            if self._edges is not None:
                self._edges.change(settings)
        except IsthmusError as failure:
            unfinished = ReloadUnfinished(failure)
            unfinished.emit()
            answer(folder, token, ok=False, said=str(unfinished))
            return
        reloaded = Reloaded(len(settings.routes), time.monotonic() - began)
        reloaded.emit()
        answer(folder, token, ok=True, said=str(reloaded))

    def _change_router(self, settings: Settings, stop: Event) -> Settings:
        """Have the router go by other settings, and say by which the edges are to go, too.

        While the router catches up by the old routes, edges take only what old and new ones both take: what
        it would not route is never accepted.
        """
        if self._settings.nats.servers != self._reading.settings.nats.servers:  # those of the embedded one
            settings = _with_nats(settings, self._settings.nats.servers, self._settings.nats.nkey)
        if self._pipeline is not None:
            plan = self._pipeline.try_out(settings)
            if self._edges is not None:
                self._edges.change(settings, narrowly=True)
            self._pipeline.change(settings, plan)
            while self._pipeline.changing:
                if stop.wait(CHANGING_S):
                    raise HardFailure("the bridge is stopping", remedy="the next start goes by the file")
                self._poll_parts()
        return settings


def _with_nats(settings: Settings, servers: tuple[str, ...], key: str | None) -> Settings:
    """The settings with the embedded NATS, which asks for its own key and nothing else."""
    nats = settings.nats.replace(servers=servers, nkey=key, user=None, password=None, token=None, creds=None)
    return settings.replace(nats=nats)


def _mode(settings: Settings) -> str:
    """How Spark runs the router, and why not as the settings ask."""
    if settings.pipeline.mode == "real-time" and settings.own_converters:
        return f"micro-batch (for {' and '.join(settings.own_converters)}, which is Python)"
    return settings.pipeline.mode

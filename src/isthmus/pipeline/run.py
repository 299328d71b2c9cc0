"""A running pipeline: the Spark session, its queries, and what they report."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from isthmus.config.judgement.routing_plan import source_topics
from isthmus.config.model.settings import LEDGER, ROUTER, Settings
from isthmus.errors import HardFailure, Outage
from isthmus.events.pipeline import TopicsChanged
from isthmus.kafka.lock import BridgeLock
from isthmus.kafka.options import Kafka
from isthmus.pipeline import ledger_tasks, measures
from isthmus.pipeline.checkpoint import parse_offsets, read_checkpoint, read_local_checkpoint
from isthmus.pipeline.clock import Clock
from isthmus.pipeline.cluster import (
    await_slots,
    check_slots,
    end_jobs_with_executors,
    is_local,
    try_python,
)
from isthmus.pipeline.failure import explain
from isthmus.pipeline.ledger import Told, start_ledger
from isthmus.pipeline.once import Search, hold
from isthmus.pipeline.prepare import look, prepare, prepare_ledger
from isthmus.pipeline.publish import RouterStarts
from isthmus.pipeline.router import get_ready
from isthmus.pipeline.session import start_session
from isthmus.pipeline.state_lock import this_process
from isthmus.pipeline.supervised import Supervised
from isthmus.pipeline.topic_watch import LOOK_S, TopicWatch, differ
from isthmus.routing.plan import RoutingPlan
from isthmus.telemetry.held import HeldTransactions
from isthmus.telemetry.jmx import RouterBeans
from isthmus.telemetry.live import LiveTelemetry, is_destination
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.traces import Traces, traces_of

_CHANGED = "max.message.bytes or the partitions of a topic have changed"
_DRIVER_GONE = (Py4JError, ConnectionError, EOFError)
"""What PySpark raises when the JVM behind it has gone."""


PROGRESS_S = 1.0
"""How often Spark is asked for the batches that it has done."""


class Pipeline:
    """Runs until it is stopped or fails. Call `poll` now and then: it raises what went wrong."""

    def __init__(self, settings: Settings, kafka: Kafka, *, look_s: float = LOOK_S) -> None:
        """``look_s`` is how often topics are looked at that may have changed."""
        self._settings = settings
        self._kafka = kafka
        self._log_dir = settings.local_state_dir / "logs"
        self.metrics = RouterMetrics(
            settings.bridge_id, {route.name: route.topic for route in settings.all_routes}
        )
        self._telemetry: LiveTelemetry | None = None
        self._traces: Traces | None = None
        self._progress_due = 0.0
        self._search = Search(kafka)
        self._searching: Thread | None = None
        """Looks for what the run before has published while Spark starts."""
        self._starts: RouterStarts | None = None
        self._plan: RoutingPlan | None = None
        self._next: tuple[Settings, RoutingPlan] | None = None
        """What the router goes on with once it has caught up by the plan that it has."""
        self._topics = TopicWatch(lambda: look(self._settings, kafka)[0], look_s=look_s)
        self._spark: SparkSession | None = None
        self._last_batch = -1
        self._router = Supervised(
            ROUTER, self._start_router, self._explain_router, on_restart=self.metrics.restarted
        )
        self._told = Told()
        ledger = self._ledger = Supervised(
            LEDGER,
            self._start_ledger,
            lambda error: self._explain(LEDGER, error),
            on_restart=self.metrics.restarted,
        )
        self._queries = [each for each in (self._router, ledger) if each.name in settings.queries]
        self._clock: Clock | None = None
        self._lock = BridgeLock(kafka, settings.bridge_id, holder=this_process())

    def start(self) -> None:
        """Check the topics, start Spark and the queries. Raises `HardFailure` when that cannot be done.

        `AlreadyRunning` if another process runs the pipeline of this bridge.
        """
        self._lock.request()  # after a crash it is free some seconds later, which Spark takes, too
        tasks = 1
        if ROUTER in self._settings.queries:
            self._plan, partitions = prepare(self._settings, self._kafka)
            self._search_ahead(self._plan)
            tasks += partitions
        if LEDGER in self._settings.queries:
            tasks += prepare_ledger(self._settings, self._kafka).places.session_partitions
        self._spark = start_session(
            f"isthmus {self._settings.bridge_id}",
            self._settings.pipeline,
            tasks=tasks,  # so many that no query waits for another
            log_dir=self._log_dir,
        )
        if self._searching is not None and self._plan is not None:
            get_ready(self._plan)  # while the lock is waited for
        self._lock.acquire()
        hold(self._spark, self._settings.local_state_dir / "driver.lock")
        if not is_local(self._spark.sparkContext.master):
            await_slots(self._spark, self._slots_needed())
            if LEDGER in self._settings.queries:
                try_python(self._spark, ledger_tasks.__name__)
            end_jobs_with_executors(self._spark)
        if ROUTER in self._settings.queries:
            self._traces = traces_of(self._settings.otel, self._settings.bridge_id)
            self._start_telemetry(self._spark)
        for query in self._queries:
            query.start()

    def _search_ahead(self, plan: RoutingPlan) -> None:
        """Begin to look for what is published, if that can be known without Spark."""
        last = None
        with suppress(OSError):  # the run before may still be writing it, and remove what is old
            last = read_local_checkpoint(self._settings.local_state_dir / "checkpoints" / ROUTER)
        if last is None:
            return

        def work() -> None:
            with suppress(HardFailure):  # the start itself meets the same
                self._search.look(plan, last)

        self._searching = Thread(target=work, name="search", daemon=True)
        self._searching.start()

    def _start_telemetry(self, spark: SparkSession) -> None:
        beans = RouterBeans(spark.sparkContext._jvm)

        def show() -> None:
            with suppress(*_DRIVER_GONE):  # then `poll` says so
                beans.show(self.metrics)

        settings = self._settings
        self._telemetry = LiveTelemetry(
            self._kafka,
            settings.events_topic,
            self.metrics,
            sources=frozenset(source_topics(settings)),
            is_destination=lambda topic: is_destination(self._settings, topic),
            on_news=show,
            traces=self._traces,
        )
        self._telemetry.start()

    def change(self, settings: Settings, plan: RoutingPlan | None) -> None:
        """Route by other settings, whose plan `try_out` made, once everything before is published.

        Each message is published once, by the old routes or by the new ones. Call `poll` until it is no
        longer `changing`.
        """
        if plan is None or plan == self._plan:
            self._settings, self._next = settings, None
        else:
            self._next = settings, plan
            if self._starts is not None and self._plan is not None:
                with suppress(HardFailure):  # the start itself meets the same, and waits for what is away
                    self._starts.look_ahead(self._plan)
            self._router.restart()

    def try_out(self, settings: Settings) -> RoutingPlan | None:
        """The router's plan by other settings, if it runs here. Raises `HardFailure` if that cannot run."""
        if self._starts is None:
            return None
        plan, _ = prepare(settings, self._kafka)
        if plan != self._plan:  # else it runs already
            self._starts.try_out(plan)
        return plan

    @property
    def held(self) -> HeldTransactions | None:
        """What the ledger holds, as its last batches told; None where it does not run."""
        if LEDGER not in self._settings.queries:
            return None
        holding = self._told.holding
        return HeldTransactions(holding.transactions, holding.prepared, holding.since_ms)

    @property
    def catching_up(self) -> bool:
        """Whether the router will be in real time as soon as `poll` finds that it has caught up."""
        return self._starts is not None and self._starts.catching_up

    @property
    def due_in_s(self) -> float | None:
        """After how long `poll` has something to do, if it knows that it will have."""
        return None if self._clock is None else self._clock.due_in_s

    @property
    def changing(self) -> bool:
        """Whether the router does not route by the last `change` yet."""
        return self._next is not None

    def _adopt(self, settings: Settings, plan: RoutingPlan) -> None:
        self._count_batches()  # by the routes that they were counted by
        self._settings, self._plan, self._next = settings, plan, None
        self._last_batch = -1
        self.metrics.change_routes({route.name: route.topic for route in settings.all_routes})

    def _slots_needed(self) -> int:
        """Without so many some partition would not be read until another one's task ends."""
        if self._settings.pipeline.mode != "real-time" or ROUTER not in self._settings.queries:
            return 1
        return prepare(self._settings, self._kafka)[1] + (LEDGER in self._settings.queries)

    def _start_router(self) -> StreamingQuery:
        self._topics.forget()  # it may have looked at those of the routes that a reload replaces
        if not is_local(self._session.sparkContext.master):
            check_slots(self._session, self._slots_needed())
        is_first = self._starts is None
        if self._starts is None:
            if self._searching is not None:
                self._searching.join()
            self._starts = RouterStarts(
                self._session, self._kafka, self._settings.pipeline, self._checkpoint(ROUTER), self._search
            )
        if self._next is not None and self._plan is not None:
            if (catching_up := self._starts.catch_up(self._plan)) is not None:
                return catching_up
            self._adopt(*self._next)
            return self._starts.go_on(self._plan)
        if self._plan is None or not (is_first or self._starts.catching_up):  # else it was made just now
            self._plan, _ = prepare(self._settings, self._kafka)
        self._last_batch = -1
        if (done := read_checkpoint(self._session, self._checkpoint(ROUTER))) is not None:
            self.metrics.routed(done.offsets)
        return self._starts.start(self._plan)

    def _start_ledger(self) -> StreamingQuery:
        plan = prepare_ledger(self._settings, self._kafka)
        self._clock = Clock(self._kafka, plan.clock_topic)
        return start_ledger(self._session, self._kafka, plan, self._checkpoint(LEDGER))

    @property
    def _session(self) -> SparkSession:
        if self._spark is None:
            raise HardFailure("Spark is not started", remedy="start the pipeline first")
        return self._spark

    def _checkpoint(self, query: str) -> str:
        return f"{self._settings.state_dir}/checkpoints/{query}"

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong, in a few words, by query; empty while all of them run."""
        try:
            found = {each.name: each.problem for each in self._queries}
        except _DRIVER_GONE:
            return {"pipeline": "Spark's driver is gone"}
        problems = {name: problem for name, problem in found.items() if problem is not None}
        if ROUTER in found and (stalled := self.metrics.stalled):
            problems.setdefault(ROUTER, stalled)
        return problems

    def poll(self) -> None:
        """Count what was done, and look after the queries. Raises `HardFailure` once one cannot go on."""
        self._lock.poll()
        try:
            if time.monotonic() >= self._progress_due:
                self._progress_due = time.monotonic() + PROGRESS_S
                self._count_batches()
                self._wind_clock()
            if self._router.query is not None:
                self._watch_topics()
            for query in self._queries:
                query.poll()
            if self._clock is not None:
                self._clock.poll()
        except _DRIVER_GONE as gone:
            raise HardFailure(
                "Spark's driver is gone: its process was killed or ran out of memory",
                remedy=f"see {self._log} and pipeline.spark.driver.memory; "
                "a restart goes on from the checkpoint",
            ) from gone

    @property
    def _log(self) -> str:
        return str(self._log_dir / "spark.log")

    def _explain(self, query: str, error: str) -> HardFailure:
        return explain(query, error, self._settings, self._kafka, self._log)

    def _explain_router(self, error: str) -> HardFailure:
        # A record that its topic does not take was one that the topic took when the plan was made.
        if "RecordTooLargeException" in error and self._plan is not None:
            now, _ = look(self._settings, self._kafka)
            if differ(now, self._plan):
                self._plan = now
                return Outage(_CHANGED, remedy="none is needed: it starts again with what holds now")
        return self._explain(ROUTER, error)

    def _count_batches(self) -> None:
        query = self._router.query
        last = None if query is None else query.lastProgress
        if query is None or last is None or last.batchId <= self._last_batch:
            return
        for progress in query.recentProgress:
            self._count(progress)

    def _wind_clock(self) -> None:
        """Have the ledger look at the time when it has something to do."""
        query = self._ledger.query
        if query is not None and self._clock is not None:
            due_ms = self._told.read(query.recentProgress)
            if due_ms is not None:
                self._clock.wake_at(due_ms)

    def _watch_topics(self) -> None:
        """Have the router start again if its plan says of topics what is no longer so."""
        now = self._topics.poll()
        if now is not None and self._plan is not None and differ(now, self._plan):
            TopicsChanged(_CHANGED).emit()
            self._plan = now  # also for a query that is still to catch up by it
            self._router.restart()

    def _count(self, progress: StreamingQueryProgress) -> None:
        observed = progress.observedMetrics.get(measures.NAME)
        if progress.batchId > self._last_batch and observed is not None:
            self.metrics.add(measures.read(observed.asDict(), len(self._settings.all_routes)))
            self._last_batch = progress.batchId
            for source in progress.sources:
                self.metrics.routed(parse_offsets(source.endOffset))

    def stop(self) -> None:
        """Stop all queries, and Spark. The next start goes on from their checkpoints."""
        spark, self._spark, self._starts = self._spark, None, None
        telemetry, self._telemetry = self._telemetry, None
        with suppress(*_DRIVER_GONE):  # then there is nothing left to stop
            for query in self._queries:
                query.stop()
            if telemetry is not None:
                telemetry.stop()
            if self._traces is not None:
                self._traces.close()
            if spark is not None:
                spark.stop()
        self._lock.release()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

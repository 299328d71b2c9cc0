"""A running pipeline: the Spark session, its queries, and what they report."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from isthmus.config.model.settings import LEDGER, ROUTER, Settings
from isthmus.errors import HardFailure
from isthmus.kafka.options import Kafka
from isthmus.pipeline import measures
from isthmus.pipeline.clock import Clock
from isthmus.pipeline.failure import explain
from isthmus.pipeline.ledger import start_ledger
from isthmus.pipeline.once import hold
from isthmus.pipeline.prepare import prepare, prepare_ledger
from isthmus.pipeline.publish import RouterStarts
from isthmus.pipeline.session import start_session
from isthmus.pipeline.supervised import Supervised
from isthmus.telemetry.metrics import RouterMetrics

_DRIVER_GONE = (Py4JError, ConnectionError, EOFError)
"""What PySpark raises when the JVM behind it has gone."""


class Pipeline:
    """Runs until it is stopped or fails. Call `poll` now and then: it raises what went wrong."""

    def __init__(self, settings: Settings, kafka: Kafka) -> None:
        self._settings = settings
        self._kafka = kafka
        self._log_dir = settings.local_state_dir / "logs"
        self.metrics = RouterMetrics(settings.bridge_id, [route.name for route in settings.all_routes])
        self._starts: RouterStarts | None = None
        self._spark: SparkSession | None = None
        self._last_batch = -1
        self._router = Supervised(ROUTER, self._start_router, lambda error: self._explain(ROUTER, error))
        ledger = Supervised(LEDGER, self._start_ledger, lambda error: self._explain(LEDGER, error))
        self._queries = [each for each in (self._router, ledger) if each.name in settings.queries]
        self._clock: Clock | None = None

    def start(self) -> None:
        """Check the topics, start Spark and the queries. Raises `HardFailure` when that cannot be done."""
        self._spark = start_session(
            f"isthmus {self._settings.bridge_id}",
            self._settings.pipeline,
            tasks=self._tasks(),
            log_dir=self._log_dir,
        )
        hold(self._spark, self._settings.local_state_dir / "driver.lock")
        for query in self._queries:
            query.start()

    def _tasks(self) -> int:
        """How many may run at once, so that no query waits for another."""
        tasks = 1
        if ROUTER in self._settings.queries:
            tasks += prepare(self._settings, self._kafka)[1]
        if LEDGER in self._settings.queries:
            tasks += prepare_ledger(self._settings, self._kafka).places.session_partitions
        return tasks

    def _start_router(self) -> StreamingQuery:
        if self._starts is None:
            self._starts = RouterStarts(
                self._session, self._kafka, self._settings.pipeline, self._checkpoint(ROUTER)
            )
        plan, _ = prepare(self._settings, self._kafka)
        self._last_batch = -1
        return self._starts.start(plan)

    def _start_ledger(self) -> StreamingQuery:
        plan = prepare_ledger(self._settings, self._kafka)
        clock = self._clock = Clock(self._kafka, plan.clock_topic, plan.timeout_ms)
        return start_ledger(self._session, self._kafka, plan, self._checkpoint(LEDGER), on_due=clock.wake_at)

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
        return {name: problem for name, problem in found.items() if problem is not None}

    def poll(self) -> None:
        """Count what was done, and look after the queries. Raises `HardFailure` once one cannot go on."""
        try:
            if self._router.query is not None:
                for progress in self._router.query.recentProgress:
                    self._count(progress)
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

    def _count(self, progress: StreamingQueryProgress) -> None:
        observed = progress.observedMetrics.get(measures.NAME)
        if progress.batchId > self._last_batch and observed is not None:
            self.metrics.add(measures.read(observed.asDict(), len(self._settings.all_routes)))
            self._last_batch = progress.batchId

    def stop(self) -> None:
        """Stop all queries, and Spark. The next start goes on from their checkpoints."""
        spark, self._spark, self._starts = self._spark, None, None
        with suppress(*_DRIVER_GONE):  # then there is nothing left to stop
            for query in self._queries:
                query.stop()
            if spark is not None:
                spark.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

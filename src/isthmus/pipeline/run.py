"""A running pipeline: the Spark session, the router's query, and what they report."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from isthmus.config.settings import Settings
from isthmus.errors import HardFailure
from isthmus.kafka import Kafka
from isthmus.pipeline import measures
from isthmus.pipeline.failure import explain, topic_in_question
from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import start_router
from isthmus.pipeline.session import start_session
from isthmus.telemetry.metrics import RouterMetrics

_DRIVER_GONE = (Py4JError, ConnectionError, EOFError)
"""What PySpark raises when the JVM behind it has gone."""


class Pipeline:
    """Routes until it is stopped or fails. Call `poll` now and then: it raises what went wrong."""

    def __init__(self, settings: Settings, kafka: Kafka) -> None:
        self._settings = settings
        self._kafka = kafka
        self._log_dir = settings.local_state_dir / "logs"
        self.metrics = RouterMetrics(settings.bridge_id, [route.name for route in settings.all_routes])
        self._asked_for: set[str] = set()
        self._spark: SparkSession | None = None
        self._query: StreamingQuery | None = None
        self._last_batch = -1

    def start(self) -> None:
        """Check the topics, start Spark and the router. Raises `HardFailure` when that cannot be done."""
        plan, partitions = prepare(self._settings, self._kafka, self._asked_for)
        self._spark = start_session(
            f"isthmus {self._settings.bridge_id}",
            self._settings.pipeline,
            tasks=partitions + 1,
            log_dir=self._log_dir,
        )
        checkpoint = f"{self._settings.state_dir}/checkpoints/router"
        self._query = start_router(self._spark, self._kafka, plan, self._settings.pipeline, checkpoint)
        self._last_batch = -1

    @property
    def problem(self) -> str | None:
        """What is wrong, in a few words; None while the router runs."""
        if self._query is None:
            return "not started"
        try:
            return None if self._query.isActive else "the router has stopped"
        except _DRIVER_GONE:
            return "Spark's driver is gone"

    def poll(self) -> None:
        """Count the batches that have ended. Raises `HardFailure` once the router has failed."""
        if self._query is None:
            return
        log = self._log_dir / "spark.log"
        try:
            for progress in self._query.recentProgress:
                self._count(progress)
            error = None if self._query.isActive else self._query.exception()
        except _DRIVER_GONE as gone:
            raise HardFailure(
                "Spark's driver is gone: its process was killed or ran out of memory",
                remedy=f"see {log} and pipeline.spark.driver.memory; a restart goes on from the checkpoint",
            ) from gone
        if error is not None and (topic := topic_in_question(str(error))) not in (None, *self._asked_for):
            # Now there is an answer for the plan: whether the topic exists.
            self._asked_for.add(str(topic))
            self.start()
        elif error is not None:
            raise explain(str(error), self._settings, self._kafka, str(log))

    def _count(self, progress: StreamingQueryProgress) -> None:
        observed = progress.observedMetrics.get(measures.NAME)
        if progress.batchId > self._last_batch and observed is not None:
            self.metrics.add(measures.read(observed.asDict(), len(self._settings.all_routes)))
            self._last_batch = progress.batchId

    def stop(self) -> None:
        """Stop routing, and Spark. What was under way is routed again at the next start."""
        query, spark = self._query, self._spark
        self._query = self._spark = None
        with suppress(*_DRIVER_GONE):  # then there is nothing left to stop
            if query is not None:
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

"""Executors in processes of their own: what they need, and what must not happen on them.

On a master other than ``local[…]`` the driver

- sends them this package (`ship_package`), and tries whether their Python can run it (`try_python`);
- refuses to start with fewer task slots than the queries need (`await_slots`): in real-time mode a task holds
  its slot for as long as the batch goes on, so a partition without one would wait for minutes;
- ends what runs when an executor is lost (`end_jobs_with_executors`), and has a task fail that Spark tries a
  second time (`first_attempts`): the first one may have published already. The query then starts again,
  without what is published.
"""

from __future__ import annotations

import importlib
import os
import py_compile
import re
import tempfile
import time
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from isthmus.errors import HardFailure, Outage

SECOND_ATTEMPT = "isthmus-second-attempt"
"""The message of the error with which a task fails that is not the first of its kind."""

JOBS_ENDED = "cancelled as part of cancellation of all jobs"
"""What Spark says of a job that ended with an executor."""

REGISTRATION_S = 60.0
"""How long executors may take to start and register."""


def is_local(master: str | None) -> bool:
    """Whether driver and executor are one process on this master."""
    return re.fullmatch(r"local(\[.*\])?", master or "") is not None


def ship_package(spark: SparkSession, folder: Path) -> None:
    """Have every executor import this package as it is here, but for what is compiled: that is plain Python.

    Executors get it from the folder for as long as the application runs. Other packages must be in the
    executors' own environment.
    """
    archive, package = folder / "isthmus.zip", Path(str(resources.files("isthmus")))
    with zipfile.ZipFile(archive, "w") as file, tempfile.NamedTemporaryFile(suffix=".pyc") as compiled:
        for path in sorted(package.rglob("*.py")):
            # Compiled to bytecode: nobody keeps what Python compiles out of an archive.
            py_compile.compile(str(path), compiled.name, doraise=True)
            file.write(compiled.name, Path("isthmus") / path.relative_to(package).with_suffix(".pyc"))
    context = spark.sparkContext
    context.addPyFile(str(archive))
    # A stateful query begins with a Python process of the driver's, which Spark does not tell of such files.
    others = context.environment.get("PYTHONPATH")
    context.environment["PYTHONPATH"] = os.pathsep.join([str(archive), *([others] if others else [])])


def try_python(spark: SparkSession, module: str) -> None:
    """Import a module on the executors. Raises `HardFailure` with the reason if that fails."""

    def load(_: object) -> None:
        importlib.import_module(module)

    context: Any = spark.sparkContext
    executors = max(1, context._jsc.sc().getExecutorMemoryStatus().size() - 1)  # the driver is among them
    try:
        context.parallelize(range(executors), executors).foreach(load)
    except Py4JJavaError as error:
        text = str(error.java_exception)
        reasons = re.findall(r"^\s*((?:\w+\.)*\w*(?:Error|Exception): .+)$", text, re.MULTILINE)
        missing = re.search(r"No module named '[\w.]+'", text)
        reason = missing[0] if missing else reasons[-1].strip() if reasons else text.splitlines()[0]
        raise HardFailure(
            f"the executors' Python cannot run {module}: {reason}",
            remedy="give the executors a Python of this version with this package's dependencies, by "
            "PYSPARK_PYTHON or pipeline.spark.archives",
        ) from None


def slots(spark: SparkSession) -> int:
    """How many tasks the executors that are there can run at once."""
    context: Any = spark.sparkContext._jsc.sc()
    # What Spark asks itself before a barrier stage; not in its public interface.
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def await_slots(spark: SparkSession, needed: int, *, patience_s: float = REGISTRATION_S) -> None:
    """Return once there are as many task slots as the queries need. Raises `HardFailure` if there are not."""
    deadline = time.monotonic() + patience_s
    while (found := slots(spark)) < needed:
        if time.monotonic() > deadline:
            raise HardFailure(
                _too_few(found, needed),
                remedy=f"give the application at least {needed} cores (pipeline.spark.executor.instances and "
                "pipeline.spark.executor.cores, more or larger workers), or set pipeline.mode to micro-batch",
            )
        time.sleep(0.1)


def check_slots(spark: SparkSession, needed: int) -> None:
    """Raises `Outage` while there are fewer task slots: a worker that was lost may come back."""
    if (found := slots(spark)) < needed:
        raise Outage(
            _too_few(found, needed), remedy="the router goes on when the cluster has its workers again"
        )


def _too_few(found: int, needed: int) -> str:
    return (
        f"the Spark cluster has {found} task slots for this bridge, and real-time mode needs {needed}: "
        "one for each partition that the router reads, and one for the ledger"
    )


def end_jobs_with_executors(spark: SparkSession) -> None:
    """Have all jobs end when an executor is lost.

    Spark would try its tasks again on the executors that are left, often when the time of a real-time batch
    is over: such a task reads nothing, so that it cannot refuse a record, and reports that nothing was there.
    The next batch would publish again what the lost task had published.
    """
    jvm: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext._jsc.sc()
    events = jvm.java.lang.Class.forName("org.apache.spark.scheduler.SparkListenerInterface")
    # In the driver itself: to ask Python first would take longer than Spark may take for the next batch.
    listener = jvm.java.beans.EventHandler.create(events, context, "cancelAllJobs", None, "onExecutorRemoved")
    context.addSparkListener(listener)


def first_attempts(rows: DataFrame) -> DataFrame:
    """The same rows; a task that is tried again fails at its first one.

    A failed task is not tried again (``spark.task.maxFailures``), but one whose executor was lost is, until
    `end_jobs_with_executors` has ended its job.
    """
    # Spark tells its log so: "task 3.1 in stage 2.0 (TID 7)" is the second attempt at task 3.
    task = F.reflect(F.lit("org.slf4j.MDC"), F.lit("get"), F.lit("task_name"))
    refuse = F.raise_error(F.lit(SECOND_ATTEMPT)).cast("boolean")
    return rows.where(F.when(task.contains(".0 in stage "), F.lit(True)).otherwise(refuse))

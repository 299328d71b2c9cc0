"""The Spark session that the queries run in, with what every user gets by default.

What a user sets under ``pipeline.spark.*`` wins over all of it, and what ``spark-submit`` was told over these
defaults.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import javaproperties
import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from isthmus.config.model.settings import PipelineSettings
from isthmus.embedded import jars
from isthmus.embedded.class_archive import ClassArchive
from isthmus.embedded.java import java_command
from isthmus.errors import HardFailure
from isthmus.pipeline.cluster import is_local, ship_package
from isthmus.private import UMASK

# ParallelGC moves 13 % more records than G1: batches are garbage all at once. And the router's plan becomes
# methods of more than 8 KB, which the JVM would leave to its interpreter.
# A start loads more classes than the JVM expects of anybody, and would collect all garbage for that.
_JVM = ("-XX:+UseParallelGC", "-XX:-DontCompileHugeMethods", "-XX:MetaspaceSize=256m")

_HERE = Path(str(resources.files(__package__)))
# Rules of Spark's optimiser that take long to find nothing in the router's plan. Between two batches messages
# wait while Spark plans.
_VAIN_RULES = (
    "catalyst.optimizer.FoldablePropagation",
    "catalyst.optimizer.NullDownPropagation",
    "catalyst.optimizer.OptimizeCsvJsonExprs",
    "catalyst.optimizer.PushProjectionThroughUnion",
    "catalyst.optimizer.RemoveRedundantAliases",
    "catalyst.optimizer.UnwrapCastInBinaryComparison",
    "execution.datasources.PruneFileSourcePartitions",
    "execution.datasources.PushVariantIntoScan",
    "execution.datasources.SchemaPruning",
)

# A start plans, and does so a few times. The second compiler took five seconds and more for the code that
# plans, which is never paid back: it is for what works on records.
_DRIVER_JVM = (
    *_JVM,
    "-XX:+UnlockDiagnosticVMOptions",  # which the next one is
    f"-XX:CompilerDirectivesFile={_HERE / 'compiler_directives.json'}",
)


def start_session(name: str, settings: PipelineSettings, *, tasks: int, log_dir: Path) -> SparkSession:
    """A session whose master has room for that many tasks at once; Spark's own log goes to the folder.

    Where ``spark-submit`` runs this process, what that was told holds in place of these defaults and of the
    settings' master.
    """
    log_dir.mkdir(parents=True, exist_ok=True)
    submitted = _submitted(log_dir / "spark.out")
    master = submitted.get("spark.master", settings.master)
    of_log = (
        f"-Dlog4j2.configurationFile={(_HERE / 'log4j2.properties').as_uri()}",
        f"-Disthmus.log.dir={log_dir}",
        "-Dderby.stream.error.file=/dev/null",
    )
    defaults = {
        "spark.app.name": name,
        # Checkpoints hold messages of open transactions. Hadoop does not ask the process what it would have.
        "spark.hadoop.fs.permissions.umask-mode": f"{UMASK:03o}",
        "spark.master": _with_slots(master, tasks),
        # Spark takes them apart as a shell does: a folder may have a blank in its name.
        "spark.driver.extraJavaOptions": shlex.join((*_DRIVER_JVM, *of_log)),
        "spark.executor.extraJavaOptions": shlex.join(_JVM),
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Its state could lose what a failed batch wrote: the router, which alone runs in that mode, has none.
        "spark.sql.streaming.realTimeMode.dangerouslyAllowCheckpointV1.enabled": "true",
        # To tell Spark where in the code each column was made takes twice as many calls as to make it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Kafka has no partitions to prune, and where a join is planned the search for some takes for ever:
        # it writes every column out in terms of the first ones, and the router's build on each other.
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.sql.optimizer.excludedRules": ",".join(f"org.apache.spark.sql.{rule}" for rule in _VAIN_RULES),
        # Every plan is also written as text, for a page that nobody looks at.
        "spark.sql.ui.explainMode": "simple",
        # Base64 in JSON is one line.
        "spark.sql.chunkBase64String.enabled": "false",
        # Spark's own pattern, and what Kafka's options call their secrets.
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|ssl[.]key",
        "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|ssl[.]key",
    }
    if is_local(master):
        # Driver and executor are one process: nobody else has to reach it, or needs its jars.
        defaults |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraClassPath": jars.classpath("spark"),
            "spark.driver.defaultJavaOptions": shlex.join(class_archive(log_dir).reading()),
            # The other way to rename a file on this machine starts a process for it, a dozen in every batch.
            "spark.sql.streaming.checkpointFileManagerClass": (
                "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
            ),
        }
        if not settings.master.startswith("local-cluster"):
            # Who calls at the driver's ports must know a secret, which Spark makes for itself.
            defaults["spark.authenticate"] = "true"
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Spark would take the first python3 that it finds, which need not have this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        defaults["spark.jars"] = ",".join(map(str, jars.files("spark")))
        defaults["spark.driver.extraClassPath"] = jars.classpath("spark")
        # A task that is tried again would publish again: the query has to start anew, which does not.
        defaults["spark.task.maxFailures"] = "1"
    options = defaults | submitted | dict(settings.spark)
    _launch(options, log_dir / "spark.out")
    session = SparkSession.Builder().config(map=dict(options)).getOrCreate()
    _remember_functions(session)
    if not is_local(options["spark.master"]):
        ship_package(session, log_dir)
    return session


def class_archive(run_folder: Path) -> ClassArchive:
    """The classes that Spark loads, archived. It belongs to this Python's Spark, and goes with it.

    ``python -m isthmus.pipeline.record_classes`` records it.
    """
    classpath = [*jars.files("spark"), *sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))]
    return ClassArchive(java_command(), classpath, run_folder, shelf=Path(sys.prefix) / "isthmus")


def _submitted(output: Path) -> dict[str, str]:
    """What ``spark-submit`` was told; nothing if it does not run this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    _launch({}, output)
    return dict(SparkConf().getAll())


def _launch(options: Mapping[str, str], output: Path) -> None:
    """Start the JVM, if there is none yet. What it and its Python processes print goes to the file.

    Raises `HardFailure` if it does not start.
    """
    if SparkContext._gateway is not None:
        return
    with _submitting(options, output.parent), output.open("wb") as file:
        try:
            gateway = launch_gateway(popen_kwargs={"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError:
            said = output.read_text(errors="replace").strip().splitlines() or ["it does not say why"]
            raise HardFailure(
                f"Spark does not start: {said[-1]}",
                remedy=f"check that java is version 17 or later, and pipeline.spark.*; see {output}",
            ) from None
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _submitting(options: Mapping[str, str], folder: Path) -> Iterator[None]:
    """A JVM that starts in the block has these options.

    They may be secrets, and anybody on the machine can read the arguments of a process. So they stand in a
    file that nobody else can read, and that is gone when the JVM has read it.
    """
    variable = "PYSPARK_SUBMIT_ARGS"
    given = os.environ.get(variable)
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix="spark-", suffix=".properties") as file:
        file.write(javaproperties.dumps(options, timestamp=False))
        file.flush()
        own = shlex.join(["--properties-file", file.name, "--load-spark-defaults"])
        os.environ[variable] = f"{own} {given or 'pyspark-shell'}"
        try:
            yield
        finally:
            if given is None:
                del os.environ[variable]
            else:
                os.environ[variable] = given


class _Members:
    """The static members of a Java class; each is looked up in the JVM once."""

    def __init__(self, java_class: Any) -> None:
        self._class = java_class

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._class, name)
        setattr(self, name, member)
        return member


def _remember_functions(session: SparkSession) -> None:
    """Have PySpark ask the JVM but once for what makes columns: it asks twice for each column that is made.

    That is more than a third of all calls to the JVM, for each of which a start of the router waits.
    """
    jvm: Any = session.sparkContext._jvm
    for name in ("functions", "org.apache.spark.sql.functions", "PythonUtils"):
        if not isinstance(getattr(jvm, name), _Members):
            setattr(jvm, name, _Members(getattr(jvm, name)))


def _with_slots(master: str, tasks: int) -> str:
    """The master with room for the tasks: in real-time mode every partition holds one for as long as it runs.

    Only a master on this machine can be given more; on a cluster the operator sees to it.
    """
    local = re.fullmatch(r"local(?:\[\s*(\*|\d+)\s*(,\s*\d+\s*)?\])?", master)
    if local is None:
        return master
    wanted, failures = local[1] or "1", local[2] or ""
    cores = (os.cpu_count() or 1) if wanted == "*" else int(wanted)
    return f"local[{max(cores, tasks)}{failures}]"

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from isthmus.pipeline.session import class_archive


def test_spark_runs_on_the_archive_of_its_classes(spark: SparkSession, tmp_path: Path) -> None:
    archive = class_archive(tmp_path)
    if not archive.is_recorded:
        pytest.skip("no archive of Spark's classes: this Java records none")
    runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()  # type: ignore[union-attr]
    assert set(archive.reading()) <= set(runtime.getInputArguments())
    loaded = spark._jvm.java.lang.Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider")  # type: ignore[union-attr]
    assert loaded.getClassLoader().equals(spark._jvm.java.lang.ClassLoader.getSystemClassLoader())  # type: ignore[union-attr]


def test_what_plans_is_left_to_the_quick_compiler(spark: SparkSession) -> None:
    """A JVM that cannot read the file does not start."""
    runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()  # type: ignore[union-attr]
    options = [each.partition("=") for each in runtime.getInputArguments()]
    [file] = [value for name, _, value in options if name == "-XX:CompilerDirectivesFile"]
    assert "org/apache/spark/sql/catalyst/analysis/*.*" in Path(file).read_text()

"""Records the classes that Spark loads for a bridge, so that every later start is some seconds shorter.

``python -m isthmus.pipeline.record_classes``: takes a message through the router on an embedded Kafka, by a
start that has nothing to catch up with, and another by one that has. That takes less than a minute, once for
an installation; where there is an archive already, no time.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkContext
from rich.console import Console

from isthmus.config.model.settings import KafkaSettings, PipelineSettings, Settings
from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.errors import HardFailure, IsthmusError
from isthmus.journal.layout import Entry, Op
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import create_topics, read_topic
from isthmus.kafka.options import Kafka
from isthmus.message import Body, BodyKind, Message
from isthmus.pipeline.run import Pipeline
from isthmus.pipeline.session import class_archive
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route

ARRIVES_S = 180.0
_TOPIC = "out"


def record(folder: Path) -> None:
    """Record, in a folder that is empty. Raises `HardFailure` if the bridge does not do its work."""
    archive = class_archive(folder)
    options = archive.reading_or_recording()
    if archive.is_recorded or not options:
        return
    with EmbeddedKafka(folder / "kafka", secured=True) as broker:  # as `isthmus run` has it
        _run(broker.cluster, folder, options)
        archive.keep(_end_java())


def _run(kafka: Kafka, folder: Path, java_options: Sequence[str]) -> None:
    settings = Settings(
        bridge_id="record-classes",
        kafka=KafkaSettings(bootstrap_servers=kafka.servers),
        pipeline=PipelineSettings(spark={"spark.driver.defaultJavaOptions": shlex.join(java_options)}),
        routes=(Route("r", parse("msg.address==a && msg.header.n>1 || msg.address=~b"), _TOPIC),),
        state_dir=str(folder),
    )
    create_topics(kafka, [_TOPIC], 1)
    for start in (1, 2):  # the second one has to find out what the first has published, and to catch up
        with Pipeline(settings, kafka) as pipeline:
            with JournalWriter(kafka, settings.journal) as writer:
                body = Body(BodyKind.TEXT)
                message = Message(id="m", address="b", protocol="amqp", value=b"", body=body, session="s")
                writer.write(Entry(Op.ADD, message))
            give_up_at = time.monotonic() + ARRIVES_S
            while len(list(read_topic(kafka, _TOPIC))) < start or pipeline.catching_up:
                pipeline.poll()
                if time.monotonic() > give_up_at:
                    raise HardFailure("the bridge does not route", remedy=f"see the logs in {folder}")
                time.sleep(0.5)


def _end_java() -> int:
    """End the JVM of a session that is stopped, which makes the archive. Its exit code."""
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    java.stdin.close()
    return int(java.wait())


def main() -> int:
    """Record, and say what goes on. A machine that cannot do it runs as well without."""
    console = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(prefix="isthmus-classes-") as name,
        console.status("recording the classes that Spark loads (once)"),
    ):
        try:
            record(Path(name))
        except IsthmusError as failure:
            console.print(f"Spark starts without an archive of its classes: {failure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Starts that leave out what is published: what they find, and what restarts in one process publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession
from tests.support.kafka.topics import produce
from tests.support.pipeline.bridge import TestBridge, text_message
from tests.support.polling import eventually
from tests.support.processes import owner

from isthmus.config.model.settings import PipelineSettings, Settings
from isthmus.errors import HardFailure
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.journal.writer import JournalWriter
from isthmus.kafka.blocking import read_topic
from isthmus.kafka.options import Kafka
from isthmus.pipeline.checkpoint import parse_offsets, read_checkpoint
from isthmus.pipeline.once import Published, find_published, hold, leave_out
from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import RouterStarts
from isthmus.pipeline.supervised import Supervised
from isthmus.routing.plan import RoutingPlan

OFFSETS = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}
{"journal":{"1":7,"0":12},"other":{"0":0}}"""


def test_offsets_are_read_as_spark_writes_them() -> None:
    assert parse_offsets(OFFSETS) == {("journal", 0): 12, ("journal", 1): 7, ("other", 0): 0}


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}\n-", "v1\n{}\n[1]", 'v1\n{}\n{"t":{"x":1}}'])
def test_offsets_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(HardFailure, match="offsets cannot be read"):
        parse_offsets(text)


def _checkpoint(folder: Path, *, offsets: int, commits: int) -> Path:
    folder.mkdir()
    (folder / "metadata").write_text('{"id":"x"}')
    for name, count in (("offsets", offsets), ("commits", commits)):
        (folder / name).mkdir()
        for batch in range(count):
            text = f'v1\n{{}}\n{{"t":{{"0":{batch * 10}}}}}' if name == "offsets" else "v1\n{}"
            (folder / name / str(batch)).write_text(text)
        (folder / name / ".99.crc").write_text("")
        (folder / name / ".98.tmp").write_text("")
    return folder


def test_a_checkpoint_tells_the_last_batch_that_was_committed(spark: SparkSession, tmp_path: Path) -> None:
    folder = _checkpoint(tmp_path / "with a space", offsets=12, commits=11)
    for address in (str(folder), f"file:{folder}"):
        found = read_checkpoint(spark, address)
        assert found is not None
        assert found.offsets == {("t", 0): 100}
        assert found.time_ms == int((folder / "offsets" / "10").stat().st_mtime * 1000)


def test_a_checkpoint_without_a_commit_tells_when_the_query_began(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = _checkpoint(tmp_path / "checkpoint", offsets=1, commits=0)
    found = read_checkpoint(spark, str(folder))
    assert found is not None
    assert found.offsets == {}
    assert found.time_ms == int((folder / "metadata").stat().st_mtime * 1000)


def test_where_no_query_ever_ran_there_is_no_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    assert read_checkpoint(spark, str(tmp_path / "nothing")) is None


def _raised(error: str) -> HardFailure:
    return HardFailure(error, remedy="")


HOLDER = """
import fcntl, signal, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
signal.pause()
"""


def test_a_start_waits_for_the_driver_before_it_to_end(spark: SparkSession, tmp_path: Path) -> None:
    lock = tmp_path / "driver.lock"
    with owner(HOLDER, lock) as (_, said):
        assert said == "held"
        with pytest.raises(HardFailure, match="another Spark driver of this bridge is running"):
            hold(spark, lock, patience_s=0.2)
    hold(spark, lock)
    hold(spark, lock)  # a second start in this process


class Router:
    """A bridge with one route, and its router in this process."""

    def __init__(self, spark: SparkSession, bridge: TestBridge, **options: str) -> None:
        bridge.make_topics("out")
        self.bridge, self.spark = bridge, spark
        self.settings: Settings = bridge.settings(bridge.route("r", "msg.address==a", "out"))
        self.plan: RoutingPlan = prepare(self.settings, bridge.kafka)[0]
        self.checkpoint = str(bridge.folder / "checkpoint")
        kafka = Kafka(bridge.kafka.servers, options)
        pipeline = PipelineSettings(master="local[2]", batch_duration_s=600)
        self.starts = RouterStarts(spark, kafka, pipeline, self.checkpoint)

    def find(self) -> Published | None:
        return find_published(self.spark, self.bridge.kafka, self.plan, self.checkpoint)

    def out(self) -> Counter[str]:
        return Counter((record.value or b"").decode() for record in self.bridge.records("out"))

    def watch(self, router: Supervised, enough: int) -> None:
        """Look after the router until so much is published."""

        def published() -> bool:
            router.poll()
            return len(self.out()) >= enough

        eventually(published)

    @contextmanager
    def running(self) -> Iterator[Supervised]:
        router = Supervised("router", lambda: self.starts.start(self.plan), _raised)
        router.start()
        try:
            yield router
        finally:
            router.stop()


def test_with_nothing_behind_the_checkpoint_nobody_searches(spark: SparkSession, bridge: TestBridge) -> None:
    router = Router(spark, bridge)
    assert router.find() is None
    bridge.write([text_message("a", "1")], router.settings)
    bridge.run(spark, router.settings)
    assert router.find() is None


def test_only_what_this_bridge_has_published_after_the_checkpoint_is_found(
    spark: SparkSession, bridge: TestBridge
) -> None:
    router = Router(spark, bridge)
    bridge.write([text_message("a", "1")], router.settings)
    bridge.run(spark, router.settings)
    behind = bridge.write([text_message("a", "2"), text_message("b", "3")], router.settings)

    def mark(origin: str, identity: str) -> Record:
        marks = [(layout.STABLE_ID, b"forged"), (layout.ORIGIN, origin.encode())]
        return Record(None, b"", [*marks, (layout.STABLE_ID, identity.encode())])

    written = [
        mark(bridge.id, str(behind[0])),
        mark("other", str(behind[1])),
        mark(bridge.id, "ID:of-another-system"),
        Record(None, b"x", []),
    ]
    produce(bridge.kafka.servers, bridge.name("out"), *written)
    found = router.find()
    assert found is not None
    assert found == Published([bridge.name("out")], [str(behind[0])], [""])


def test_a_record_is_left_out_of_the_topic_that_has_it_alone(spark: SparkSession) -> None:
    schema = "topic string, value string, headers array<struct<key:string,value:binary>>"
    rows = [
        (
            topic,
            f"{topic}{number}",
            [(layout.STABLE_ID, b"old"), (layout.STABLE_ID, f"j:0:{number}".encode())],
        )
        for number in range(4)
        for topic in "ab"
    ]
    records = spark.createDataFrame(rows, schema).coalesce(1)
    known = Published(["a", "b", "a", "b"], ["j:0:1", "j:0:2", "j:0:3", "j:0:3"], ["", "", "", "a route"])
    left = leave_out(records, known)
    assert left.columns == ["topic", "value", "headers"]
    assert [row.value for row in left.collect()] == ["a0", "b0", "b1", "a2", "b3"]
    plan = left._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastHashJoin" in plan
    assert "hashpartitioning" not in plan


@pytest.mark.parametrize("linger_ms", ["1", "3000"], ids=["sent", "in-the-producer"])
def test_a_restart_in_the_same_process_publishes_once(
    spark: SparkSession, bridge: TestBridge, linger_ms: str
) -> None:
    router = Router(spark, bridge, **{"linger.ms": linger_ms})
    sent, over = 0, Event()

    def send() -> None:
        nonlocal sent
        with JournalWriter(bridge.kafka, router.settings.journal) as writer:
            while not over.wait(0.02):
                for _ in range(4):
                    writer.write(Entry(Op.ADD, text_message("a", str(sent), session=f"s{sent % 4}")))
                    sent += 1

    sender = Thread(target=send, daemon=True)
    sender.start()
    with router.running() as supervised:
        for _ in range(2):
            enough = len(router.out()) + 200
            router.watch(supervised, enough)
            assert supervised.query is not None
            supervised.query.stop()
        over.set()
        sender.join(30)
        router.watch(supervised, sent)
    assert router.out() == Counter(map(str, range(sent)))
    last: dict[tuple[int | None, int], int] = {}
    for record in read_topic(bridge.kafka, bridge.name("out")):
        number = int(record.value() or b"")
        assert last.get((record.partition(), number % 4), -1) < number
        last[record.partition(), number % 4] = number

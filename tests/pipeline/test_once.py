"""Starts that leave out what is published: what they find, and what restarts in one process publish."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession
from tests.support.kafka.topics import produce
from tests.support.pipeline.bridge import TestBridge, text_message
from tests.support.polling import eventually
from tests.support.processes import owner

from isthmus.config.model.settings import PipelineSettings, Settings
from isthmus.errors import HardFailure, Outage
from isthmus.journal import layout
from isthmus.journal.layout import Entry, Op, Record
from isthmus.journal.writer import JournalWriter
from isthmus.kafka import blocking
from isthmus.kafka.blocking import read_topic
from isthmus.kafka.options import Kafka
from isthmus.pipeline import once, publish, run
from isthmus.pipeline.checkpoint import parse_offsets, read_checkpoint, read_local_checkpoint
from isthmus.pipeline.once import Search, hold
from isthmus.pipeline.prepare import prepare
from isthmus.pipeline.publish import RouterStarts
from isthmus.pipeline.published import Found, Published
from isthmus.pipeline.router import route
from isthmus.pipeline.run import Pipeline
from isthmus.pipeline.supervised import Supervised
from isthmus.routing.plan import RoutingPlan
from isthmus.routing.predicate import parse
from isthmus.routing.route import Route, destinations_route

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
    for found in (
        read_checkpoint(spark, str(folder)),
        read_checkpoint(spark, f"file:{folder}"),
        read_local_checkpoint(folder),
    ):
        assert found is not None
        assert found.offsets == {("t", 0): 100}
        assert found.time_ms == int((folder / "offsets" / "10").stat().st_mtime * 1000)
        assert found.batch_begun
    (folder / "offsets" / "11").unlink()
    found = read_local_checkpoint(folder)
    assert found is not None
    assert not found.batch_begun


def test_a_checkpoint_without_a_commit_tells_when_the_query_began(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = _checkpoint(tmp_path / "checkpoint", offsets=1, commits=0)
    found = read_checkpoint(spark, str(folder))
    assert found is not None
    assert found.offsets == {}
    assert found.batch_begun
    assert found.time_ms == int((folder / "metadata").stat().st_mtime * 1000)


def test_a_start_does_without_a_checkpoint_that_changes_as_it_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "router"
    folder.mkdir(parents=True)
    for name in ("metadata", "offsets", "commits"):  # the last two are folders, while they are there
        (folder / name).touch()
    with pytest.raises(OSError, match="offsets"):
        read_local_checkpoint(folder)
    pipeline = Pipeline(Settings(state_dir=str(tmp_path)), Kafka("127.0.0.1:1"))
    pipeline._search_ahead(PLAN)
    assert pipeline._searching is None


def test_where_no_query_ever_ran_there_is_no_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    assert read_checkpoint(spark, str(tmp_path / "nothing")) is None
    assert read_local_checkpoint(tmp_path / "nothing") is None


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
        return Search(self.bridge.kafka).find(self.plan, read_checkpoint(self.spark, self.checkpoint))

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
    topic, partition, offset = str(behind[0]).rsplit(":", 2)
    assert found.found == {(topic, int(partition), int(offset)): {(bridge.name("out"), "")}}


def test_a_search_does_not_read_again_what_it_has_read(
    spark: SparkSession, bridge: TestBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = Router(spark, bridge)
    read: list[bytes | None] = []

    def read_between(*arguments: object) -> Iterator[Message]:
        for record in blocking.read_between(*arguments):  # type: ignore[arg-type]
            read.append(record.value())
            yield record

    monkeypatch.setattr(once, "read_between", read_between)
    bridge.write([text_message("b")], router.settings)
    bridge.run(spark, router.settings)
    [behind] = bridge.write([text_message("a")], router.settings)
    search, last = Search(bridge.kafka), read_checkpoint(spark, router.checkpoint)
    for value in (b"before", b"since"):
        marks = [(layout.ORIGIN, bridge.id.encode()), (layout.STABLE_ID, str(behind).encode())]
        produce(bridge.kafka.servers, bridge.name("out"), Record(None, value, marks))
        found = search.find(router.plan, last)
        assert found is not None
        assert len(found.found) == 1
    assert [value for value in read if value in (b"before", b"since")] == [b"before", b"since"]


def test_a_search_begins_anew_behind_an_older_checkpoint(spark: SparkSession, bridge: TestBridge) -> None:
    router = Router(spark, bridge)
    bridge.write([text_message("b")], router.settings)
    bridge.run(spark, router.settings)
    last = read_checkpoint(spark, router.checkpoint)
    assert last is not None
    [behind] = bridge.write([text_message("a")], router.settings)
    marks = [(layout.ORIGIN, bridge.id.encode()), (layout.STABLE_ID, str(behind).encode())]
    produce(bridge.kafka.servers, bridge.name("out"), Record(None, b"", marks))
    search = Search(bridge.kafka)
    assert search.find(router.plan, replace(last, time_ms=last.time_ms + 3_600_000)) is None
    assert search.find(router.plan, last) is not None


def test_a_router_that_has_caught_up_goes_on_without_another_search(
    spark: SparkSession, bridge: TestBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = Router(spark, bridge)
    bridge.write([text_message("b")], router.settings)
    bridge.run(spark, router.settings)
    [behind] = bridge.write([text_message("a", "published")], router.settings)
    bridge.write([text_message("a", "missing")], router.settings)
    marks = [(layout.ORIGIN, bridge.id.encode()), (layout.STABLE_ID, str(behind).encode())]
    produce(bridge.kafka.servers, bridge.name("out"), Record(None, b"published", marks))
    catching_up = router.starts.start(router.plan)
    assert router.starts.catching_up
    catching_up.awaitTermination()
    assert router.out() == Counter(["published", "missing"])
    monkeypatch.setattr(Search, "find", None)
    router.starts.start(router.plan).stop()
    assert not router.starts.catching_up


def test_a_catch_up_that_was_stopped_in_its_second_batch_is_not_over(
    spark: SparkSession, bridge: TestBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = Router(spark, bridge)
    bridge.write([text_message("b")], router.settings)
    bridge.run(spark, router.settings)
    [behind] = bridge.write([text_message("a", "published")], router.settings)
    marks = [(layout.ORIGIN, bridge.id.encode()), (layout.STABLE_ID, str(behind).encode())]
    produce(bridge.kafka.servers, bridge.name("out"), Record(None, b"published", marks))
    router.starts.start(router.plan).awaitTermination()
    offsets = Path(router.checkpoint) / "offsets"
    last = max(int(each.name) for each in offsets.iterdir() if each.name.isdecimal())
    (offsets / str(last + 1)).write_text((offsets / str(last)).read_text())  # as Spark does when one begins
    searched: list[object] = []
    monkeypatch.setattr(Search, "find", lambda _, *given: searched.append(given))
    router.starts.start(router.plan).stop()
    assert len(searched) == 1


def test_a_reload_does_without_a_rehearsal_that_fails(
    spark: SparkSession, bridge: TestBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rehearse(*_: object) -> None:
        raise Outage("Kafka does not answer", remedy="")

    monkeypatch.setattr(publish, "rehearse", rehearse)
    router = Router(spark, bridge)
    router.starts.try_out(router.plan)
    query = router.starts.go_on(router.plan)
    assert query.isActive
    query.stop()


class Starts:
    """Of a router that has Kafka just lost."""

    def look_ahead(self, plan: RoutingPlan) -> None:
        raise Outage("Kafka does not answer", remedy="")


def _running_by(plan: RoutingPlan, monkeypatch: pytest.MonkeyPatch) -> tuple[Pipeline, list[str]]:
    """A pipeline that runs by a plan, but for Spark; and what its router is told."""
    pipeline, told = Pipeline(Settings(), Kafka("127.0.0.1:1")), list[str]()
    pipeline._plan, pipeline._starts = plan, Starts()  # type: ignore[assignment]
    monkeypatch.setattr(pipeline._router, "restart", lambda: told.append("restart"))
    return pipeline, told


class Stopped:
    """A query that was stopped."""

    def exception(self) -> None:
        return None


def test_on_a_cluster_a_start_waits_for_the_producers_of_what_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publish, "await_tasks", lambda *_: None)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://127.0.0.1:7077"))
    starts = RouterStarts(spark, Kafka("127.0.0.1:1"), PipelineSettings(), "checkpoint")
    starts._settle()  # nothing ran before
    starts._last = Stopped()  # type: ignore[assignment]
    with pytest.raises(Outage, match="the producers of its executors may still have records"):
        starts._settle()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 120)
    starts._settle()


def test_a_reload_waits_for_a_kafka_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, told = _running_by(PLAN, monkeypatch)
    pipeline.change(Settings(), replace(PLAN, dead_letter_topic="others"))
    assert pipeline.changing
    assert told == ["restart"]


def test_a_router_that_still_catches_up_starts_again_by_topics_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = replace(PLAN, partitions={"dead": 7})
    pipeline, told = _running_by(PLAN, monkeypatch)
    monkeypatch.setattr(pipeline._topics, "poll", lambda: now)
    pipeline._watch_topics()
    pipeline._watch_topics()
    assert pipeline._plan == now
    assert told == ["restart"]
    monkeypatch.setattr(run, "look", lambda *_: (replace(now, max_message_bytes={"dead": 9}), 1))
    assert isinstance(pipeline._explain_router("RecordTooLargeException"), Outage)
    assert pipeline._plan == replace(now, max_message_bytes={"dead": 9})


def _rows(spark: SparkSession, *records: tuple[str, str, int]) -> DataFrame:
    """Records for the sink: the value, the topic, and the offset in partition 1 of the journal."""
    schema = (
        "value string, topic string, headers array<struct<key:string,value:binary>>, "
        "source_topic string, source_partition int, source_offset long"
    )
    forged = (layout.ERROR_ROUTE, b"a route of the message's own")
    rows = [
        (
            value,
            topic.rstrip("!"),
            [forged, (layout.ERROR_ROUTE, b"r" if "!" in topic else b"")],
            "j",
            1,
            offset,
        )
        for value, topic, offset in records
    ]
    return spark.createDataFrame(rows, schema).coalesce(1)


PLAN = RoutingPlan(bridge_id="b", journal_topic="j", dead_letter_topic="dead", events_topic="events")
PARTITIONS = [("j", 0), ("j", 1), ("k", 0)]


def test_a_record_is_left_out_of_the_places_that_have_it_alone(spark: SparkSession) -> None:
    found = {
        ("j", 1, 101): {("a", "")},
        ("j", 1, 102): {("b", "")},
        ("j", 1, 103): {("a", ""), ("dead", "r")},
        ("j", 0, 100): {("a", ""), ("b", "")},
        ("k", 0, 100): {("a", ""), ("b", "")},
    }
    places = [("a", 100), ("b", 100), ("a", 101), ("b", 101), ("a", 102), ("b", 102), ("a", 103)]
    places += [("dead", 103), ("dead!", 103), ("a", 104), ("a", 10**12)]
    records = _rows(spark, *((f"{topic}{offset}", topic, offset) for topic, offset in places))
    left = Published(PLAN, PARTITIONS, found).leave_out(records)
    assert left.columns == ["value", "topic", "headers"]
    values = [row.value for row in left.collect()]
    assert values == ["a100", "b100", "b101", "a102", "dead103", "a104", f"a{10**12}"]


def test_what_is_far_behind_the_checkpoint_costs_nothing(spark: SparkSession) -> None:
    far = 3 * 10**9
    published = Published(PLAN, PARTITIONS, {("j", 1, far): {("a", "")}, ("j", 1, far + 2): {("a", "")}})
    assert [len(each) for each in published._bytes.values()] == [0, 3, 0]
    records = _rows(
        spark, *((str(offset), "a", offset) for offset in (0, 100, far, far + 1, far + 2, far * 2))
    )
    values = [row.value for row in published.leave_out(records).collect()]
    assert values == ["0", "100", str(far + 1), str(far * 2)]


def test_there_may_be_more_sets_of_places_than_a_byte_has_numbers(spark: SparkSession) -> None:
    found = {("j", 1, 100 + number): {(f"t{number}", "")} for number in range(300)}
    of_each = [
        (f"{number}.{shift}", f"t{number + shift}", 100 + number) for number in range(300) for shift in (0, 1)
    ]
    left = Published(PLAN, PARTITIONS, found).leave_out(_rows(spark, *of_each))
    assert [row.value for row in left.collect()] == [f"{number}.1" for number in range(300)]


def test_a_row_is_not_even_routed_if_all_of_it_is_published(spark: SparkSession) -> None:
    places = {
        100: {("a", "")},  # the sample falls on it: it has an event
        101: {("a", "")},
        102: {("dead", "r")},
        103: {("events", "r")},
        104: {("a", ""), ("b", "")},
        106: {("b", "")},
    }
    rows = spark.sql("select 'j' as topic, 1 as partition, id as offset from range(100, 109)")

    def left(plan: RoutingPlan) -> list[int]:
        found = {("j", 1, offset): where for offset, where in places.items()}
        return [row.offset for row in Published(plan, PARTITIONS, found).drop_complete(rows).collect()]

    assert left(replace(PLAN, traced=True)) == list(range(100, 109))
    assert left(PLAN) == [100, 102, 103, 104, 105, 107, 108]
    both = (Route("r", parse("msg.address==x"), "a"), destinations_route())
    assert left(replace(PLAN, routes=both, keep_destinations=True)) == [
        100,
        101,
        102,
        103,
        105,
        106,
        107,
        108,
    ]
    assert left(replace(PLAN, routes=both[1:], keep_destinations=True)) == [100, 102, 103, 104, 105, 107, 108]


def test_the_code_that_is_generated_is_the_same_whatever_is_published(spark: SparkSession) -> None:
    rows = spark.sql(
        "select binary(text) as key, binary(text) as value, text as topic, int(id) as partition,"
        " id as offset, timestamp_millis(id) as timestamp, 0 as timestampType,"
        " array(named_struct('key', text, 'value', binary(text))) as headers"
        " from (select id, string(id) as text from range(9))"
    )
    plan = replace(PLAN, routes=(Route("r", parse("msg.address==x"), "a", key="k"),))

    def code(found: Found) -> list[str]:
        published = Published(plan, PARTITIONS, found)
        stages: Any = route(rows, plan, published)._jdf.queryExecution().debug().codegenToSeq()
        assert stages.size() > 0
        return [re.sub(r"/\*.*?\*/", "", stages.apply(at)._2()) for at in range(stages.size())]

    few = {("j", 0, 10): {("a", "")}}
    many = {("j", 1, 200 + at): {("a", ""), (f"t{at % 7}", "r")} for at in range(50)}
    of_none = code({})
    assert code(few) == of_none
    assert code(many) == of_none


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

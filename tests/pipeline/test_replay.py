"""A dead letter that is replayed goes through the router as its message did."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession
from tests.support.pipeline.bridge import TestBridge, text_message

from isthmus.config import Settings
from isthmus.journal.dead_letter import history_of, replays_of
from isthmus.journal.replay import Replayer, read_dead_letters
from isthmus.journal.replay_plan import Planner, State
from isthmus.routing.route import OnError


def replay(bridge: TestBridge, settings: Settings) -> dict[State, int]:
    planner = Planner(settings, bridge.kafka, limit=3)
    replayer = Replayer(settings, bridge.kafka, largest_record=planner.largest_record)
    waiting = [
        planner.step(dead, time.time_ns() // 1_000_000)
        for dead in read_dead_letters(bridge.kafka, bridge.name("dead"))
        if replayer.notes.state(dead) is None
    ]
    return replayer.write(waiting, lambda _: None)


def test_a_replayed_message_is_routed_once_and_counts_its_failures(
    bridge: TestBridge, spark: SparkSession
) -> None:
    bridge.make_topics("out", "dead")
    policy = {"on_error": OnError.DEAD_LETTER, "dead_letter_topic": bridge.name("dead")}
    keyed = bridge.settings(bridge.route("r", "msg.address==orders", "out", key="Customer"), **policy)
    mended = bridge.settings(bridge.route("r", "msg.address==orders", "out"), **policy)
    bridge.write([text_message("orders", "hello", amount=3)], keyed)
    bridge.run(spark, keyed)

    assert replay(bridge, keyed)[State.REPLAYED] == 1
    bridge.run(spark, keyed)  # it fails again
    assert sorted(map(replays_of, bridge.records("dead"))) == [0, 1]
    assert bridge.records("out") == []

    assert replay(bridge, mended)[State.REPLAYED] == 1
    assert replay(bridge, mended)[State.REPLAYED] == 0
    bridge.run(spark, mended)
    (published,) = bridge.records("out")
    headers = dict(published.headers)
    assert published.value == b"hello"
    assert (headers["jms.amount"], headers["jms.types"]) == (b"3", b"amount=int;")
    assert (replays_of(published), len(history_of(published))) == (2, 2)

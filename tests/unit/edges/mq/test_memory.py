"""What only the in-memory queue manager can be made to do."""

from __future__ import annotations

import pytest

from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.port import QueueTarget, TopicTarget
from isthmus.edges.mq.reasons import Outcome, outcome_of
from isthmus.errors import MqError
from isthmus.testing.memory_queue import topic_matches
from isthmus.testing.queue_manager import MemoryQueueManager, shared_queue_manager


def test_a_message_expires_when_its_time_is_up_and_not_before() -> None:
    now = 1000.0
    manager = MemoryQueueManager(clock=lambda: now)
    manager.define_queue("Q")
    connection = manager.connect()
    connection.put(QueueTarget("Q"), MqMessage(descriptor=Mqmd(Expiry=100)))
    connection.commit()
    source = connection.open_queue("Q")
    now = 1009.0
    got = source.get()
    assert got is not None
    assert got.descriptor.Expiry == 10
    connection.backout()
    now = 1010.0
    assert source.get() is None
    assert manager.depth("Q") == 0


def test_an_inhibited_queue_is_a_matter_of_time() -> None:
    manager = MemoryQueueManager()
    manager.define_queue("Q", put_inhibited=True, get_inhibited=True)
    connection = manager.connect()
    with pytest.raises(MqError) as put:
        connection.put(QueueTarget("Q"), MqMessage())
    with pytest.raises(MqError) as get:
        connection.open_queue("Q").get()
    assert [(raised.value.reason, outcome_of(raised.value)) for raised in (put, get)] == [
        (2051, Outcome.LATER),
        (2016, Outcome.LATER),
    ]
    manager.define_queue("Q", put_inhibited=False, get_inhibited=False)
    connection.put(QueueTarget("Q"), MqMessage())
    connection.commit()
    assert manager.depth("Q") == 1


def test_messages_in_units_of_work_count_towards_the_depth() -> None:
    manager = MemoryQueueManager()
    manager.define_queue("Q")
    connection = manager.connect()
    connection.put(QueueTarget("Q"), MqMessage())
    assert manager.depth("Q") == 1
    connection.commit()
    assert connection.open_queue("Q").get() is not None
    assert manager.depth("Q") == 1
    connection.commit()
    assert manager.depth("Q") == 0


def test_a_restart_ends_subscriptions_that_are_not_durable_and_temporary_queues() -> None:
    manager = MemoryQueueManager()
    manager.define_queue("MODEL", model=True)
    connection = manager.connect()
    temporary = connection.open_queue("MODEL").name
    connection.subscribe("t")
    connection.subscribe("t", durable_name="d")
    manager.restart()
    again = manager.connect()
    with pytest.raises(MqError, match="2085"):
        again.open_queue(temporary)
    again.put(TopicTarget("t"), MqMessage(body=b"x"))
    again.commit()
    got = again.subscribe("t", durable_name="d").get()
    assert got is not None
    assert got.body == b"x"


def test_a_topic_with_wildcards_is_not_one_to_publish_to() -> None:
    connection = MemoryQueueManager().connect()
    for topic in ("a/#", "+", ""):
        with pytest.raises(MqError, match="2425"):
            connection.put(TopicTarget(topic), MqMessage())


def test_a_shared_queue_manager_makes_queues_when_they_are_used() -> None:
    one, other = shared_queue_manager("SHARED").connect(), shared_queue_manager("SHARED").connect()
    one.put(QueueTarget("NEW"), MqMessage(body=b"x"))
    one.commit()
    got = other.open_queue("NEW").get()
    other.commit()
    assert got is not None
    assert got.body == b"x"


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        ("a/b", ["a/b"], ["a", "a/b/c", "a/bb", "A/b"]),
        ("a/+", ["a/b", "a/"], ["a", "a/b/c"]),
        ("+/b", ["a/b", "/b"], ["b", "a/a/b"]),
        ("a/#", ["a", "a/b", "a/b/c"], ["ab", "b/a"]),
        ("#", ["a", "a/b"], []),
        ("#/b", ["b", "a/b", "a/a/b"], ["a/b/c", "ab"]),
        ("a/#/c", ["a/c", "a/b/c", "a/b/b/c"], ["a", "a/b"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_wildcards_match_whole_levels(pattern: str, taken: list[str], left: list[str]) -> None:
    assert [topic for topic in taken + left if topic_matches(pattern, topic)] == taken

"""What the port promises, on every queue manager that there is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.mq.backends import Backend, StandIn

from isthmus.edges.mq import reasons
from isthmus.edges.mq.descriptor import (
    MQFMT_STRING,
    MQMF_LAST_MSG_IN_GROUP,
    MQMF_MSG_IN_GROUP,
    Mqmd,
    MqMessage,
    Property,
    PropertyType,
)
from isthmus.edges.mq.port import Connection, QueueTarget, Source, TopicTarget
from isthmus.edges.mq.reasons import Outcome, outcome_of
from isthmus.errors import MqError

Connect = Callable[[], Connection]

EVERY_PROPERTY = {
    "text": Property(PropertyType.STRING, "grün"),
    "empty": Property(PropertyType.STRING, ""),
    "long": Property(PropertyType.STRING, "ü" * 20_000),
    "int8": Property(PropertyType.INT8, -128),
    "int16": Property(PropertyType.INT16, -(2**15)),
    "int32": Property(PropertyType.INT32, 2**31 - 1),
    "zero": Property(PropertyType.INT32, 0),
    "one": Property(PropertyType.INT32, 1),
    "int64": Property(PropertyType.INT64, -(2**63)),
    "one64": Property(PropertyType.INT64, 1),
    "single": Property(PropertyType.FLOAT32, 1.5),
    "double": Property(PropertyType.FLOAT64, 0.1),
    "yes": Property(PropertyType.BOOL, True),
    "no": Property(PropertyType.BOOL, False),
    "bytes": Property(PropertyType.BYTES, b"\x00\xff\x00"),
    "null": Property(PropertyType.NULL, None),
}


def put(connection: Connection, queue: str, *bodies: bytes, **fields: object) -> None:
    for body in bodies:
        connection.put(QueueTarget(queue), MqMessage(descriptor=Mqmd(**fields), body=body))  # type: ignore[arg-type]
    connection.commit()


def drain(connection: Connection, source: Source) -> list[bytes]:
    bodies = []
    while (message := source.get()) is not None:
        bodies.append(message.body)
    connection.commit()
    return bodies


def reason_of(call: Callable[[], object]) -> int:
    with pytest.raises(MqError) as raised:
        call()
    return raised.value.reason


def test_a_message_comes_back_with_its_body_descriptor_and_properties(
    backend: Backend, connect: Connect
) -> None:
    queue, connection = backend.queue(1), connect()
    descriptor = Mqmd(
        Report=1,
        Feedback=7,
        Format=MQFMT_STRING,
        CodedCharSetId=1208,
        Priority=4,
        Persistence=1,
        MsgId=b"\0\0message",
        CorrelId=b"\0correlation",
        ReplyToQ="REPLIES",
        ReplyToQMgr="ELSEWHERE",
    )
    message = MqMessage(descriptor=descriptor, body=b"hello", properties=EVERY_PROPERTY)
    given = connection.put(QueueTarget(queue), message)
    connection.commit()
    got = connection.open_queue(queue).get(5)
    connection.commit()
    assert got is not None
    assert got.body == b"hello"
    assert dict(got.properties) == EVERY_PROPERTY
    assert got.descriptor == given
    asked = {name: getattr(descriptor, name) for name in ("Report", "Feedback", "Format", "Priority")}
    asked |= {name: getattr(descriptor, name) for name in ("MsgId", "CorrelId", "ReplyToQ", "Persistence")}
    assert {name: getattr(given, name) for name in asked} == asked


def test_the_queue_manager_says_who_put_a_message_and_when(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    given = connection.put(
        QueueTarget(queue),
        MqMessage(descriptor=Mqmd(PutDate="19700101", PutApplName="somebody", BackoutCount=9)),
    )
    connection.backout()
    assert given.PutDate[:2] == "20"
    assert given.PutTime.isdecimal()
    assert given.PutApplName != "somebody"
    assert given.BackoutCount == 0


def test_a_reply_queue_without_a_queue_manager_is_this_one_s(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    given = connection.put(QueueTarget(queue), MqMessage(descriptor=Mqmd(ReplyToQ=queue)))
    connection.backout()
    assert (given.ReplyToQ, given.ReplyToQMgr) == (queue, connection.queue_manager)


def test_every_message_without_an_id_is_given_its_own(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    ids = {connection.put(QueueTarget(queue), MqMessage()).MsgId for _ in range(3)}
    connection.backout()
    assert len(ids) == 3
    assert b"" not in ids


def test_a_message_of_a_megabyte_arrives_whole(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    body = bytes(range(256)) * 4096
    put(connection, queue, body, b"", b"small")
    assert drain(connection, connection.open_queue(queue)) == [body, b"", b"small"]


def test_a_put_is_invisible_until_it_is_committed(backend: Backend, connect: Connect) -> None:
    queue, writer, reader = backend.queue(1), connect(), connect()
    source = reader.open_queue(queue)
    writer.put(QueueTarget(queue), MqMessage(body=b"x"))
    assert source.get() is None
    writer.commit()
    assert drain(reader, source) == [b"x"]


def test_a_put_that_is_backed_out_never_arrives(backend: Backend, connect: Connect) -> None:
    queue, writer, reader = backend.queue(1), connect(), connect()
    writer.put(QueueTarget(queue), MqMessage(body=b"x"))
    writer.backout()
    writer.commit()
    assert drain(reader, reader.open_queue(queue)) == []


def test_what_one_has_got_no_other_gets(backend: Backend, connect: Connect) -> None:
    queue, first, second = backend.queue(1), connect(), connect()
    put(first, queue, b"1", b"2")
    assert first.open_queue(queue).get(5) is not None
    assert drain(second, second.open_queue(queue)) == [b"2"]


def test_backout_returns_messages_to_their_place_and_counts(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    put(connection, queue, b"1", b"2", b"3")
    source = connection.open_queue(queue)
    assert [message.body for message in (source.get(5), source.get(5)) if message] == [b"1", b"2"]
    connection.backout()
    again = source.get(5)
    assert again is not None
    assert (again.body, again.descriptor.BackoutCount) == (b"1", 1)
    connection.backout()
    third = source.get(5)
    assert third is not None
    assert third.descriptor.BackoutCount == 2
    connection.backout()
    assert drain(connection, source) == [b"1", b"2", b"3"]


def test_disconnecting_backs_out(backend: Backend, connect: Connect) -> None:
    queue, first, second = backend.queue(1), connect(), connect()
    put(first, queue, b"kept")
    assert first.open_queue(queue).get(5) is not None
    first.put(QueueTarget(queue), MqMessage(body=b"never"))
    first.disconnect()
    first.disconnect()
    assert drain(second, second.open_queue(queue)) == [b"kept"]


def test_a_higher_priority_goes_first_and_equals_keep_their_order(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    for body, priority in ((b"low 1", 0), (b"high 1", 9), (b"low 2", 0), (b"high 2", 9), (b"middle", 4)):
        put(connection, queue, body, Priority=priority)
    source = connection.open_queue(queue)
    assert drain(connection, source) == [b"high 1", b"high 2", b"middle", b"low 1", b"low 2"]


def test_a_message_that_has_expired_is_never_handed_out(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    put(connection, queue, b"short", Expiry=1)
    put(connection, queue, b"long", Expiry=6000)
    time.sleep(0.15)  # nothing to poll for: an expired message shows by its absence
    got = connection.open_queue(queue).get(5)
    connection.commit()
    assert got is not None
    assert got.body == b"long"
    assert 0 < got.descriptor.Expiry < 6000


def test_a_get_waits_for_a_message(backend: Backend, connect: Connect) -> None:
    queue, writer, reader = backend.queue(1), connect(), connect()
    source = reader.open_queue(queue)
    bodies: list[bytes] = []

    def get() -> None:
        message = source.get(10)
        bodies.append(message.body if message else b"nothing")
        reader.commit()

    thread = threading.Thread(target=get)
    thread.start()
    put(writer, queue, b"at last")
    thread.join(10)
    assert bodies == [b"at last"]


def test_a_get_from_an_empty_queue_is_none_when_its_time_is_up(backend: Backend, connect: Connect) -> None:
    source = connect().open_queue(backend.queue(1))
    assert source.get(0.2) is None


def test_a_group_is_handed_out_whole_and_in_order(backend: Backend, connect: Connect) -> None:
    queue, writer, reader = backend.queue(1), connect(), connect()
    source = reader.open_queue(queue, whole_groups=True)
    group = {"GroupId": b"\0group"}
    put(writer, queue, b"3", MsgSeqNumber=3, MsgFlags=MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP, **group)
    put(writer, queue, b"1", MsgSeqNumber=1, MsgFlags=MQMF_MSG_IN_GROUP, **group)
    put(writer, queue, b"alone")
    assert drain(reader, source) == [b"alone"]
    put(writer, queue, b"2", MsgSeqNumber=2, MsgFlags=MQMF_MSG_IN_GROUP, **group)
    for _ in range(2):
        assert source.get() is not None
    reader.backout()
    assert drain(reader, source) == [b"1", b"2", b"3"]


def test_only_persistent_messages_survive_a_restart(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    put(connection, queue, b"persistent", Persistence=1)
    put(connection, queue, b"fleeting", Persistence=0)
    backend.restart()
    assert reason_of(connection.commit) == reasons.CONNECTION_BROKEN
    again = connect()
    assert drain(again, again.open_queue(queue)) == [b"persistent"]


def test_a_queue_s_default_persistence_counts(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1, default_persistence=1), connect()
    given = connection.put(QueueTarget(queue), MqMessage(body=b"x"))
    connection.commit()
    assert given.Persistence == 1
    backend.restart()
    again = connect()
    assert drain(again, again.open_queue(queue)) == [b"x"]


def test_a_queue_tells_its_backout_attributes(backend: Backend, connect: Connect) -> None:
    source = connect().open_queue(backend.queue(1, backout_threshold=3, backout_queue="BACKOUT"))
    assert (source.name, source.backout_threshold, source.backout_queue) == ("TEST.1", 3, "BACKOUT")


def test_of_a_model_queue_a_queue_is_made(backend: Backend, connect: Connect) -> None:
    model, connection = backend.model_queue(), connect()
    source = connection.open_queue(model)
    assert source.name != model
    lasting = MqMessage(descriptor=Mqmd(Persistence=1))
    assert reason_of(lambda: connection.put(QueueTarget(source.name), lasting)) == 2048
    put(connection, source.name, b"reply")
    assert drain(connection, source) == [b"reply"]


def test_a_subscriber_gets_what_is_published_while_it_is_there(backend: Backend, connect: Connect) -> None:
    writer, reader = connect(), connect()
    topic = TopicTarget("isthmus/test/a")
    writer.put(topic, MqMessage(body=b"before"))
    writer.commit()
    source = reader.subscribe("isthmus/test/a")
    writer.put(topic, MqMessage(descriptor=Mqmd(CorrelId=b"c"), body=b"during"))
    assert source.get() is None
    writer.commit()
    got = source.get(5)
    reader.commit()
    assert got is not None
    assert (got.body, got.descriptor.CorrelId) == (b"during", b"c")
    source.close()
    writer.put(topic, MqMessage(body=b"after"))
    writer.commit()
    assert drain(reader, reader.subscribe("isthmus/test/a")) == []


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [("isthmus/+/b", [b"isthmus/a/b"]), ("isthmus/#", [b"isthmus/a/b", b"isthmus/a/c/d", b"isthmus"])],
)
def test_wildcards_stand_for_whole_levels(
    backend: Backend, connect: Connect, pattern: str, taken: list[bytes]
) -> None:
    connection = connect()
    source = connection.subscribe(pattern)
    for topic in ("isthmus/a/b", "isthmus/a/c/d", "isthmus", "other/a/b", "isthmusx/a"):
        connection.put(TopicTarget(topic), MqMessage(body=topic.encode()))
    connection.commit()
    assert drain(connection, source) == taken


def test_a_durable_subscription_goes_on_without_its_reader(backend: Backend, connect: Connect) -> None:
    writer, reader = connect(), connect()
    reader.subscribe("isthmus/test/durable", durable_name="isthmus-test").close()
    writer.put(TopicTarget("isthmus/test/durable"), MqMessage(descriptor=Mqmd(Persistence=1), body=b"kept"))
    writer.commit()
    source = reader.subscribe("isthmus/test/durable", durable_name="isthmus-test")
    assert drain(reader, source) == [b"kept"]
    assert reason_of(lambda: writer.subscribe("isthmus/test/durable", durable_name="isthmus-test")) == 2429


def test_a_queue_that_is_not_there_has_a_reason(backend: Backend, connect: Connect) -> None:
    connection = connect()
    assert reason_of(lambda: connection.open_queue("NO.SUCH.QUEUE")) == reasons.UNKNOWN_OBJECT_NAME
    put_there = lambda: connection.put(QueueTarget("NO.SUCH.QUEUE"), MqMessage())  # noqa: E731
    assert reason_of(put_there) == reasons.UNKNOWN_OBJECT_NAME


def test_a_queue_manager_that_is_not_known_has_a_reason(backend: Backend, connect: Connect) -> None:
    connection = connect()
    target = QueueTarget("ANY", "NOBODY.KNOWS.IT")
    assert reason_of(lambda: connection.put(target, MqMessage())) in (2085, 2086, 2087)


def test_a_full_queue_has_a_reason_and_the_connection_stays_good(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1, max_depth=1), connect()
    put(connection, queue, b"1")
    with pytest.raises(MqError) as raised:
        connection.put(QueueTarget(queue), MqMessage(body=b"2"))
    assert (raised.value.reason, outcome_of(raised.value)) == (reasons.Q_FULL, Outcome.LATER)
    assert drain(connection, connection.open_queue(queue)) == [b"1"]


def test_a_message_that_is_too_big_has_a_reason(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1, max_message_bytes=10), connect()
    with pytest.raises(MqError) as raised:
        connection.put(QueueTarget(queue), MqMessage(body=b"x" * 11))
    assert (raised.value.reason, outcome_of(raised.value)) == (reasons.MSG_TOO_BIG_FOR_Q, Outcome.MESSAGE)


def test_a_queue_that_one_may_not_use_has_a_reason(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1, denied={"get", "put"}), connect()
    assert reason_of(lambda: connection.open_queue(queue)) == reasons.NOT_AUTHORIZED
    assert reason_of(lambda: connection.put(QueueTarget(queue), MqMessage())) == reasons.NOT_AUTHORIZED


def test_a_property_s_name_that_mq_refuses_has_a_reason(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    message = MqMessage(properties={"no-such-name": Property(PropertyType.STRING, "x")})
    assert reason_of(lambda: connection.put(QueueTarget(queue), message)) == reasons.PROPERTY_NAME_ERROR


def test_a_broken_connection_backs_out_and_says_so(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    put(connection, queue, b"x")
    source = connection.open_queue(queue)
    assert source.get(5) is not None
    backend.break_connections()
    for call in (connection.commit, connection.backout, source.get, lambda: connection.open_queue(queue)):
        with pytest.raises(MqError) as raised:
            call()
        assert outcome_of(raised.value) is Outcome.GONE
    connection.disconnect()
    again = connect()
    got = again.open_queue(queue).get(5)
    again.commit()
    assert got is not None
    assert got.descriptor.BackoutCount == 1


def test_a_connection_that_breaks_ends_a_waiting_get(backend: Backend, connect: Connect) -> None:
    source = connect().open_queue(backend.queue(1))
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(source.get, 600)
        backend.break_connections()
        assert isinstance(waiting.exception(60), MqError)


@pytest.mark.parametrize(("after", "left"), [(False, []), (True, [b"x"])])
def test_a_commit_that_breaks_may_have_been_done_or_not(
    backend: Backend, connect: Connect, after: bool, left: list[bytes]
) -> None:
    queue, connection = backend.queue(1), connect()
    connection.put(QueueTarget(queue), MqMessage(body=b"x"))
    backend.fail_next_commit(reasons.CONNECTION_BROKEN, after=after)
    with pytest.raises(MqError) as raised:
        connection.commit()
    assert outcome_of(raised.value) is Outcome.GONE
    again = connect()
    assert drain(again, again.open_queue(queue)) == left


def test_a_commit_that_mq_backs_out_leaves_the_connection_good(backend: Backend, connect: Connect) -> None:
    queue, connection = backend.queue(1), connect()
    connection.put(QueueTarget(queue), MqMessage(body=b"x"))
    backend.fail_next_commit(reasons.BACKED_OUT, after=False)
    assert reason_of(connection.commit) == reasons.BACKED_OUT
    put(connection, queue, b"y")
    assert drain(connection, connection.open_queue(queue)) == [b"y"]


def test_a_queue_manager_that_is_stopped_cannot_be_connected_to(backend: Backend, connect: Connect) -> None:
    backend.stop()
    with pytest.raises(MqError) as raised:
        connect()
    assert outcome_of(raised.value) is Outcome.GONE
    backend.start()
    assert connect().queue_manager


def test_a_source_that_was_closed_hands_out_nothing(backend: Backend, connect: Connect) -> None:
    source = connect().open_queue(backend.queue(1))
    source.close()
    assert reason_of(source.get) == reasons.HOBJ_ERROR


def test_several_threads_share_a_queue_without_loss_or_doubles(backend: Backend, connect: Connect) -> None:
    queue, writer = backend.queue(1), connect()
    put(writer, queue, *(b"%d" % number for number in range(200)))
    got: list[bytes] = []

    def read(connection: Connection) -> None:
        got.extend(drain(connection, connection.open_queue(queue)))

    threads = [threading.Thread(target=read, args=(connect(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(map(int, got)) == list(range(200))


def test_more_targets_than_stay_open_can_be_put_to(backend: Backend, connect: Connect) -> None:
    connection = connect()
    model = backend.model_queue()
    sources = [connection.open_queue(model) for _ in range(130)]
    for source in sources:
        put(connection, source.name, source.name.encode())
    assert all(drain(connection, source) == [source.name.encode()] for source in sources)


def test_no_message_handle_outlives_its_connection(stand_in: StandIn) -> None:
    queue, connection = stand_in.queue(1), stand_in.queue_manager.connect()
    before = stand_in.open_handles()
    message = MqMessage(properties={"p": Property(PropertyType.STRING, "x")})
    connection.put(QueueTarget(queue), message)
    refused = MqMessage(properties={"no-such-name": Property(PropertyType.STRING, "x")})
    with pytest.raises(MqError):
        connection.put(QueueTarget(queue), refused)
    connection.open_queue(queue).get()
    connection.disconnect()
    assert stand_in.open_handles() == before

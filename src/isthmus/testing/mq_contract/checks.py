"""The checks: each is a function with a sentence for a name, and fails by raising `ContractBroken`."""

# ruff: noqa: D103 (their names say it)
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

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
from isthmus.edges.mq.port import Connection, QueueTarget, TopicTarget
from isthmus.testing.mq_contract.site import WAIT_S, Site, drain, expect, got, put, reason_of

DURABLE: Final = "isthmus-contract"
EVERY_PROPERTY: Final = {
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


Check = Callable[[Site], None]
CHECKS: Final[list[Check]] = []


def check(function: Check) -> Check:
    """Make a function one of the checks."""
    CHECKS.append(function)
    return function


def name_of(check: Check) -> str:
    """The sentence that a check is about."""
    return check.__name__.replace("_s_", "'s ").replace("_", " ")


@check
def a_message_comes_back_with_its_body_descriptor_and_properties(site: Site) -> None:
    connection = site.connect()
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
    given = connection.put(QueueTarget(site.queue), message)
    connection.commit()
    back = got(connection.open_queue(site.queue))
    connection.commit()
    expect(back.body, b"hello", "body")
    expect(dict(back.properties), EVERY_PROPERTY, "properties")
    expect(back.descriptor, given, "descriptor")
    for name in ("Report", "Feedback", "Format", "Priority", "MsgId", "CorrelId", "ReplyToQ", "Persistence"):
        expect(getattr(given, name), getattr(descriptor, name), name)


@check
def the_queue_manager_says_who_put_a_message_and_when(site: Site) -> None:
    connection = site.connect()
    descriptor = Mqmd(PutDate="19700101", PutApplName="somebody", BackoutCount=9)
    given = connection.put(QueueTarget(site.queue), MqMessage(descriptor=descriptor))
    connection.backout()
    expect(given.PutDate[:2], "20", "PutDate")
    expect(given.PutTime.isdecimal(), True, "PutTime")
    expect(given.PutApplName != "somebody", True, "PutApplName")
    expect(given.BackoutCount, 0, "BackoutCount")


@check
def a_reply_queue_without_a_queue_manager_is_this_one_s(site: Site) -> None:
    connection = site.connect()
    given = connection.put(QueueTarget(site.queue), MqMessage(descriptor=Mqmd(ReplyToQ=site.queue)))
    connection.backout()
    expect((given.ReplyToQ, given.ReplyToQMgr), (site.queue, connection.queue_manager))


@check
def every_message_without_an_id_is_given_its_own(site: Site) -> None:
    connection = site.connect()
    ids = {connection.put(QueueTarget(site.queue), MqMessage()).MsgId for _ in range(3)}
    connection.backout()
    expect(len(ids - {b""}), 3, "different ids of three messages")


@check
def a_message_of_a_megabyte_arrives_whole(site: Site) -> None:
    connection = site.connect()
    body = bytes(range(256)) * 4096
    put(connection, site.queue, body, b"", b"small")
    expect(drain(connection, connection.open_queue(site.queue)), [body, b"", b"small"])


@check
def a_put_is_invisible_until_it_is_committed(site: Site) -> None:
    writer, reader = site.connect(), site.connect()
    source = reader.open_queue(site.queue)
    writer.put(QueueTarget(site.queue), MqMessage(body=b"x"))
    expect(source.get(), None, "before the commit")
    writer.commit()
    expect(drain(reader, source), [b"x"], "after it")


@check
def a_put_that_is_backed_out_never_arrives(site: Site) -> None:
    writer, reader = site.connect(), site.connect()
    writer.put(QueueTarget(site.queue), MqMessage(body=b"x"))
    writer.backout()
    writer.commit()
    expect(drain(reader, reader.open_queue(site.queue)), [])


@check
def what_one_has_got_no_other_gets(site: Site) -> None:
    first, second = site.connect(), site.connect()
    put(first, site.queue, b"1", b"2")
    expect(got(first.open_queue(site.queue)).body, b"1")
    expect(drain(second, second.open_queue(site.queue)), [b"2"])


@check
def backout_returns_messages_to_their_place_and_counts(site: Site) -> None:
    connection = site.connect()
    put(connection, site.queue, b"1", b"2", b"3")
    source = connection.open_queue(site.queue)
    expect([got(source).body, got(source).body], [b"1", b"2"])
    for count in (1, 2):
        connection.backout()
        again = got(source)
        expect((again.body, again.descriptor.BackoutCount), (b"1", count))
    connection.backout()
    expect(drain(connection, source), [b"1", b"2", b"3"])


@check
def disconnecting_backs_out(site: Site) -> None:
    first, second = site.connect(), site.connect()
    put(first, site.queue, b"kept")
    got(first.open_queue(site.queue))
    first.put(QueueTarget(site.queue), MqMessage(body=b"never"))
    first.disconnect()
    first.disconnect()
    source = second.open_queue(site.queue)
    expect(got(source).body, b"kept")
    expect(drain(second, source), [])


@check
def a_higher_priority_goes_first_and_equals_keep_their_order(site: Site) -> None:
    connection = site.connect()
    for body, priority in ((b"low 1", 0), (b"high 1", 9), (b"low 2", 0), (b"high 2", 9), (b"middle", 4)):
        put(connection, site.queue, body, Priority=priority)
    source = connection.open_queue(site.queue)
    expect(drain(connection, source), [b"high 1", b"high 2", b"middle", b"low 1", b"low 2"])


@check
def a_message_that_has_expired_is_never_handed_out(site: Site) -> None:
    connection = site.connect()
    put(connection, site.queue, b"short", Expiry=1)
    put(connection, site.queue, b"long", Expiry=6000)
    time.sleep(0.15)  # nothing to poll for: an expired message shows by its absence
    back = got(connection.open_queue(site.queue))
    connection.commit()
    expect(back.body, b"long")
    expect(0 < back.descriptor.Expiry < 6000, True, "an expiry that counts down")


@check
def a_get_waits_for_a_message(site: Site) -> None:
    writer, reader = site.connect(), site.connect()
    source = reader.open_queue(site.queue)
    bodies: list[bytes] = []

    def get() -> None:
        message = source.get(WAIT_S)
        bodies.append(message.body if message else b"nothing")
        reader.commit()

    thread = threading.Thread(target=get)
    thread.start()
    put(writer, site.queue, b"at last")
    thread.join(2 * WAIT_S)
    expect(bodies, [b"at last"])


@check
def a_get_from_an_empty_queue_is_none_when_its_time_is_up(site: Site) -> None:
    expect(site.connect().open_queue(site.queue).get(0.2), None)


@check
def a_group_is_handed_out_whole_and_in_order(site: Site) -> None:
    writer, reader = site.connect(), site.connect()
    source = reader.open_queue(site.queue, whole_groups=True)
    group = {"GroupId": b"\0group"}
    last = MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP
    put(writer, site.queue, b"3", MsgSeqNumber=3, MsgFlags=last, **group)
    put(writer, site.queue, b"1", MsgSeqNumber=1, MsgFlags=MQMF_MSG_IN_GROUP, **group)
    put(writer, site.queue, b"alone")
    expect(drain(reader, source), [b"alone"], "of a group that lacks one")
    put(writer, site.queue, b"2", MsgSeqNumber=2, MsgFlags=MQMF_MSG_IN_GROUP, **group)
    expect([got(source).body, got(source).body], [b"1", b"2"])
    reader.backout()
    expect(drain(reader, source), [b"1", b"2", b"3"], "after a backout")


@check
def of_a_model_queue_a_queue_is_made(site: Site) -> None:
    connection = site.connect()
    source = connection.open_queue(site.model_queue)
    expect(source.name != site.model_queue, True, "a name of its own")
    lasting = MqMessage(descriptor=Mqmd(Persistence=1))
    refused = reason_of(lambda: connection.put(QueueTarget(source.name), lasting))
    expect(refused, reasons.PERSISTENT_NOT_ALLOWED, "a persistent message")
    put(connection, source.name, b"reply")
    expect(drain(connection, source), [b"reply"])


@check
def more_queues_than_stay_open_can_be_put_to(site: Site) -> None:
    connection = site.connect()
    sources = [connection.open_queue(site.model_queue) for _ in range(130)]
    for source in sources:
        put(connection, source.name, source.name.encode())
    found = [drain(connection, source) for source in sources]
    expect(found, [[source.name.encode()] for source in sources])


@check
def a_subscriber_gets_what_is_published_while_it_is_there(site: Site) -> None:
    writer, reader = site.connect(), site.connect()
    topic = TopicTarget(f"{site.topic}/a")
    writer.put(topic, MqMessage(body=b"before"))
    writer.commit()
    source = reader.subscribe(topic.topic)
    writer.put(topic, MqMessage(descriptor=Mqmd(CorrelId=b"c"), body=b"during"))
    expect(source.get(), None, "before the commit")
    writer.commit()
    back = got(source)
    reader.commit()
    expect((back.body, back.descriptor.CorrelId), (b"during", b"c"))
    source.close()
    writer.put(topic, MqMessage(body=b"after"))
    writer.commit()
    expect(drain(reader, reader.subscribe(topic.topic)), [], "of a new subscription")


@check
def wildcards_stand_for_whole_levels(site: Site) -> None:
    root, connection = site.topic, site.connect()
    one, many = connection.subscribe(f"{root}/+/b"), connection.subscribe(f"{root}/#")
    for topic in (f"{root}/a/b", f"{root}/a/c/d", root, f"{root}x/a"):
        connection.put(TopicTarget(topic), MqMessage(body=topic.removeprefix(root).encode()))
    connection.commit()
    expect(drain(connection, one), [b"/a/b"], "+")
    expect(drain(connection, many), [b"/a/b", b"/a/c/d", b""], "#")


@check
def a_durable_subscription_goes_on_without_its_reader(site: Site) -> None:
    writer, reader = site.connect(), site.connect()
    topic = f"{site.topic}/durable"
    source = reader.subscribe(topic, durable_name=DURABLE)
    drain(reader, source)  # what a run that was ended left
    source.close()
    writer.put(TopicTarget(topic), MqMessage(descriptor=Mqmd(Persistence=1), body=b"kept"))
    writer.commit()
    source = reader.subscribe(topic, durable_name=DURABLE)
    expect(drain(reader, source), [b"kept"])
    taken = reason_of(lambda: writer.subscribe(topic, durable_name=DURABLE))
    expect(taken, reasons.SUBSCRIPTION_IN_USE, "a second reader")


@check
def a_queue_that_is_not_there_has_a_reason(site: Site) -> None:
    connection, name = site.connect(), f"{site.queue.partition('.')[0]}.NO.SUCH.QUEUE"
    expect(reason_of(lambda: connection.open_queue(name)), reasons.UNKNOWN_OBJECT_NAME, "a get")
    refused = reason_of(lambda: connection.put(QueueTarget(name), MqMessage()))
    expect(refused, reasons.UNKNOWN_OBJECT_NAME, "a put")


@check
def a_queue_manager_that_is_not_known_has_a_reason(site: Site) -> None:
    connection = site.connect()
    reason = reason_of(lambda: connection.put(QueueTarget("ANY", "NOBODY.KNOWS.IT"), MqMessage()))
    expect(reason in (2085, 2086, 2087), True, f"reason {reason} is 2085, 2086 or 2087")


@check
def a_property_s_name_that_mq_refuses_has_a_reason(site: Site) -> None:
    connection = site.connect()
    message = MqMessage(properties={"no-such-name": Property(PropertyType.STRING, "x")})
    refused = reason_of(lambda: connection.put(QueueTarget(site.queue), message))
    expect(refused, reasons.PROPERTY_NAME_ERROR)


@check
def a_source_that_was_closed_hands_out_nothing(site: Site) -> None:
    source = site.connect().open_queue(site.queue)
    source.close()
    expect(reason_of(source.get), reasons.HOBJ_ERROR)


@check
def several_threads_share_a_queue_without_loss_or_doubles(site: Site) -> None:
    put(site.connect(), site.queue, *(b"%d" % number for number in range(200)))
    found: list[bytes] = []

    def read(connection: Connection) -> None:
        found.extend(drain(connection, connection.open_queue(site.queue)))

    threads = [threading.Thread(target=read, args=(site.connect(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * WAIT_S)
    expect(sorted(map(int, found)), list(range(200)))

"""Messages reach queues and topic strings: committed before they count, the same however often they go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.support.mq.backends import Backend

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage, PropertyType
from isthmus.config.model.plan import Form
from isthmus.edges.contract import OutboundMessage
from isthmus.edges.mq import reasons
from isthmus.edges.mq.delivery import MqDelivery, body_form, bridge_form, msg_id
from isthmus.edges.mq.descriptor import Mqmd, MqMessage, Property
from isthmus.edges.mq.port import Connection, QueueTarget, Source
from isthmus.edges.mq.replies import Requester
from isthmus.errors import (
    DecodeError,
    EncodeError,
    HardFailure,
    OversizeFailure,
    RefusedFailure,
    SoftFailure,
    Unreachable,
)
from isthmus.journal import layout
from isthmus.journal.layout import Record
from isthmus.message import Header, HeaderType

Connect = Callable[[], Connection]


def outbound(destination: str, value: bytes | None, id: str = "j:0:1", **headers: Header) -> OutboundMessage:
    return OutboundMessage(id, destination, Record(None, value, layout.encode_headers(headers)))


def deliver(
    backend: Backend, *messages: OutboundMessage, times: int = 1, **options: Any
) -> Sequence[SoftFailure | None]:
    async def run() -> Sequence[SoftFailure | None]:
        delivery = MqDelivery(backend.queue_manager, max_backoff_s=0.2, **options)
        try:
            for _ in range(times):
                answers = await delivery.deliver(messages)
            return answers
        finally:
            await delivery.close()

    return asyncio.run(run())


def drain(connection: Connection, source: Source) -> list[MqMessage]:
    found = []
    while (message := source.get()) is not None:
        found.append(message)
    connection.commit()
    return found


def got(connect: Connect, queue: str) -> list[MqMessage]:
    connection = connect()
    return drain(connection, connection.open_queue(queue))


class Map:
    """Answers for one subject and one channel."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []

    def reply_queue(self, reply_to: str, *, msg_id: bytes, form: Form) -> QueueTarget | None:
        self.asked.append((reply_to, msg_id))
        targets = {"answers": QueueTarget("ANSWERS", "QM1"), "channel": QueueTarget("CHANNEL")}
        return targets.get(reply_to)

    def requester(self, queue: str, correl_id: bytes) -> Requester | None:
        return None


def test_messages_are_put_in_order_with_their_headers(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    messages = [
        outbound(
            queue,
            b"%d" % number,
            id=f"j:0:{number}",
            CorrelationId=Header("c-1"),
            Priority=Header("4", HeaderType.INT),
            amount=Header("42", HeaderType.SHORT),
        )
        for number in range(1200)
    ]
    assert deliver(backend, *messages) == [None] * 1200
    found = got(connect, queue)
    assert [message.body for message in found] == [each.record.value for each in messages]
    first = found[0]
    assert first.descriptor.CorrelId == b"c-1"
    assert (first.descriptor.Format, first.descriptor.CodedCharSetId) == ("MQSTR", 1208)
    assert (first.descriptor.Priority, first.descriptor.Persistence) == (4, 1)
    assert first.properties["amount"] == Property(PropertyType.INT16, 42)


def test_a_message_that_comes_twice_has_the_same_ids_twice(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    deliver(backend, outbound(queue, b"x", id="j:0:7"), times=2)
    first, second = got(connect, queue)
    assert first.descriptor.MsgId == second.descriptor.MsgId == msg_id("j:0:7").rstrip(b"\0")
    assert first.properties["isthmus_id"] == Property(PropertyType.STRING, "j:0:7")


def test_a_message_of_mq_s_keeps_its_own_id(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    deliver(backend, outbound(queue, b"x", MessageId=Header("ID:" + "0a" * 24)))
    assert got(connect, queue)[0].descriptor.MsgId == b"\n" * 24


def test_a_tombstone_is_an_empty_message(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    deliver(backend, outbound(queue, None))
    assert [message.body for message in got(connect, queue)] == [b""]


def test_messages_are_published_to_topic_strings(backend: Backend, connect: Connect) -> None:
    connection = connect()
    source = connection.subscribe("isthmus/delivery")
    assert deliver(backend, outbound("topic://isthmus/delivery", b"x")) == [None]
    assert [message.body for message in drain(connection, source)] == [b"x"]


def test_a_temporary_queue_is_given_what_it_can_take(backend: Backend, connect: Connect) -> None:
    connection = connect()
    source = connection.open_queue(backend.model_queue())
    assert deliver(backend, outbound(source.name, b"answer")) == [None]
    (message,) = drain(connection, source)
    assert (message.body, message.descriptor.Persistence) == (b"answer", 0)


def test_the_queue_manager_of_a_destination_counts(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    name = connect().queue_manager
    answers = deliver(backend, outbound(f"{queue}@{name}", b"x"), outbound(f"{queue}@NOBODY", b"y"))
    assert answers[0] is None
    assert isinstance(answers[1], RefusedFailure)
    assert [message.body for message in got(connect, queue)] == [b"x"]


def test_what_mq_refuses_does_not_hold_up_the_others(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1, max_message_bytes=10)
    messages = [
        outbound(queue, b"1"),
        outbound("NO.SUCH.QUEUE", b"2"),
        outbound(queue, b"3" * 11),
        outbound(queue, b"4", Priority=Header("high")),
        outbound(queue, b"5"),
    ]
    answers = deliver(backend, *messages)
    assert [type(answer) for answer in answers] == [
        *(type(None), RefusedFailure, OversizeFailure, EncodeError, type(None))
    ]
    assert "2085" in str(answers[1])
    assert [message.body for message in got(connect, queue)] == [b"1", b"5"]


def test_a_full_queue_is_a_matter_of_time_and_nothing_is_put_by_halves(
    backend: Backend, connect: Connect
) -> None:
    queue = backend.queue(1, max_depth=2)
    messages = [outbound(queue, b"%d" % number) for number in range(3)]
    with pytest.raises(Unreachable, match="2053"):
        deliver(backend, *messages)
    assert got(connect, queue) == []
    assert deliver(backend, *messages[:2]) == [None, None]


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_that_breaks_has_the_messages_put_again(
    backend: Backend, connect: Connect, after: bool
) -> None:
    queue = backend.queue(1)

    async def run() -> None:
        delivery = MqDelivery(backend.queue_manager, max_backoff_s=0.2)
        messages = [outbound(queue, b"%d" % number, id=f"j:0:{number}") for number in range(3)]
        backend.fail_next_commit(reasons.CONNECTION_BROKEN, after=after)
        with pytest.raises(Unreachable):
            await delivery.deliver(messages)
        assert await delivery.deliver(messages) == [None] * 3
        counts = delivery.client.counts
        assert (counts.connects, counts.disconnects, counts.reconnects) == (2, 1, 1)
        await delivery.close()

    asyncio.run(run())
    messages = got(connect, queue)
    assert len(messages) == (6 if after else 3)
    assert len({message.descriptor.MsgId for message in messages}) == 3


def test_a_queue_manager_that_is_unavailable_is_told_of_once(
    backend: Backend, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    queue = backend.queue(1)
    caplog.set_level(logging.INFO, "isthmus.edges")

    async def run() -> None:
        delivery = MqDelivery(backend.queue_manager, max_backoff_s=0.2)
        assert await delivery.deliver([outbound(queue, b"1")]) == [None]
        backend.stop()
        for _ in range(4):
            with pytest.raises(Unreachable):
                await delivery.deliver([outbound(queue, b"2")])
        backend.start()
        assert await delivery.deliver([outbound(queue, b"3")]) == [None]
        await delivery.close()

    asyncio.run(run())
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_body_form_puts_the_body_and_nothing_else(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    headers = {"amount": Header.of(1), "CorrelationId": Header("c"), "Priority": Header.of(9)}
    deliver(backend, outbound(queue, b"x", **headers), forms={queue: body_form})
    (message,) = got(connect, queue)
    assert (message.body, dict(message.properties)) == (b"x", {})
    descriptor = message.descriptor
    assert (descriptor.CorrelId, descriptor.Priority, descriptor.Format) == (b"", 0, "")


def test_bridge_form_puts_what_a_nats_client_wrote(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    bridge = BridgeMessage(
        b"body",
        BridgeHeader(
            correl_id=b"\0c", format="MQSTR", put_date="19700101", persistence=1, expiry=1, priority=3
        ),
    )
    bridge.set_property("count", 3, PropertyType.INT8)
    deliver(backend, outbound(queue, bridge.encode()), forms={queue: bridge_form})
    (message,) = got(connect, queue)
    assert message.body == b"body"
    assert dict(message.properties) == {"count": Property(PropertyType.INT8, 3)}
    descriptor = message.descriptor
    assert (descriptor.CorrelId, descriptor.Format, descriptor.Priority) == (b"\0c", "MQSTR", 3)
    assert (descriptor.Persistence, descriptor.Expiry) == (0, -1)
    assert descriptor.PutDate != "19700101"


def test_a_message_that_is_no_bridge_message_is_a_soft_failure(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    answers = deliver(
        backend,
        outbound(queue, b"\xc1"),
        outbound(queue, BridgeMessage(b"x").encode()),
        forms={queue: bridge_form},
    )
    assert isinstance(answers[0], DecodeError)
    assert answers[1] is None


@pytest.mark.parametrize("form", ["headers", "bridge", "body"])
def test_a_reply_subject_becomes_the_queue_that_the_map_has_for_it(
    backend: Backend, connect: Connect, form: str
) -> None:
    queue, replies = backend.queue(1), Map()
    forms = {"bridge": {queue: bridge_form}, "body": {queue: body_form}}.get(form)
    deliver(
        backend,
        outbound(queue, BridgeMessage(b"x").encode(), ReplyTo=Header("answers")),
        forms=forms,
        replies=replies,
    )
    descriptor = got(connect, queue)[0].descriptor
    assert (descriptor.ReplyToQ, descriptor.ReplyToQMgr, descriptor.MsgType) == ("ANSWERS", "QM1", 1)
    assert replies.asked == [("answers", msg_id("j:0:1"))]


@pytest.mark.parametrize(
    ("subject", "queue"), [("answers", "ANSWERS"), ("unknown", "CHANNEL"), (None, "CHANNEL")]
)
def test_a_subject_comes_before_a_channel(
    backend: Backend, connect: Connect, subject: str | None, queue: str
) -> None:
    place = backend.queue(1)
    bridge = BridgeMessage(b"x", BridgeHeader(reply_to_channel="channel"))
    headers = {"ReplyTo": Header(subject)} if subject else {}
    deliver(backend, outbound(place, bridge.encode(), **headers), forms={place: bridge_form}, replies=Map())
    assert got(connect, place)[0].descriptor.ReplyToQ == queue


def test_a_refusal_to_connect_is_a_hard_failure_with_a_remedy(stand_in: Any) -> None:
    from isthmus.edges.mq.ibm import ClientOptions, IbmQueueManager

    options = ClientOptions(queue_manager="ANOTHER", library=stand_in.queue_manager._options.library)

    async def run() -> None:
        delivery = MqDelivery(IbmQueueManager(options))
        with pytest.raises(HardFailure, match="2058") as raised:
            await delivery.deliver([outbound("Q", b"x")])
        assert raised.value.remedy
        await delivery.close()

    asyncio.run(run())


def test_an_mq_message_goes_round_through_the_bridge_unchanged(backend: Backend, connect: Connect) -> None:
    from isthmus.edges.mq.translate import to_message

    queue = backend.queue(1)
    connection = connect()
    sent = MqMessage(
        descriptor=Mqmd(CorrelId=b"\0c", Report=2, Feedback=9, GroupId=b"\0g", Priority=3, Persistence=1),
        body=b"\xff",
        properties={"p": Property(PropertyType.FLOAT32, 1.5)},
    )
    connection.put(QueueTarget(queue), sent)
    connection.commit()
    (first,) = got(connect, queue)
    message = to_message(first, address=queue, session="s", received_ms=0)
    deliver(backend, outbound(queue, message.value, **message.headers))
    (second,) = got(connect, queue)
    changed = {"PutDate", "PutTime"}
    for name in Mqmd.__dataclass_fields__:
        if name not in changed:
            assert getattr(second.descriptor, name) == getattr(first.descriptor, name), name
    assert second.properties["p"] == first.properties["p"]

"""What users of the NATS-MQ bridge rely on, through a running bridge: requests, replies and reconnections.

Its own tests name these behaviours: replies by a pair of connectors in each combination of forms, and
messages that flow again after a restart of MQ, of NATS and of a stream's server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError
from tests.support.mq.responder import responder
from tests.support.polling import eventually
from tests.support.systems import Systems, queue, running_bridge

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage
from isthmus.edges.mq.descriptor import Mqmd

DEAD_LETTERS = "nats-mq-dead-letters"


def _connector(name: str, type: str, address: str, queue: str, *, body: bool = False) -> str:
    key = "channel" if "Stan" in type else "subject"
    return (
        f"connectors.{name}.type={type}\nconnectors.{name}.{key}={address}\nconnectors.{name}.queue={queue}\n"
        f"connectors.{name}.excludeheaders={'true' if body else 'false'}\n"
    )


CONFIGURATION = (
    f"nats.jetstream.create=true\nmq.reply-queue=KEPT\n"
    f"routing.dead-letter.topic={DEAD_LETTERS}\nrouting.on-error=dead-letter\n"
    + _connector("ask-body", "NATS2Queue", "ask.body", "ASK.BODY", body=True)
    + _connector("answer-body", "Queue2NATS", "answers.body", "ANSWERS.BODY", body=True)
    + _connector("ask-bridge", "NATS2Queue", "ask.bridge", "ASK.BRIDGE")
    + _connector("serve-body", "Queue2NATS", "serve.body", "SERVE.BODY", body=True)
    + _connector("serve-bridge", "Queue2NATS", "serve.bridge", "SERVE.BRIDGE")
    + _connector("served", "NATS2Queue", "served", "SERVED", body=True)
    + _connector("ask-channel", "Stan2Queue", "ask-channel", "ASK.CHANNEL")
    + _connector("answer-channel", "Queue2Stan", "answer-channel", "ANSWER.CHANNEL")
    + _connector("serve-channel", "Queue2Stan", "serve-channel", "SERVE.CHANNEL")
    + _connector("served-channel", "Stan2Queue", "served-channel", "SERVED.CHANNEL")
)


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory, kafka_servers: str) -> Iterator[Systems]:
    folder = tmp_path_factory.mktemp("nats-mq")
    with running_bridge(folder, kafka_servers, CONFIGURATION, (DEAD_LETTERS,)) as found:
        yield found


def _body(payload: bytes) -> bytes:
    return BridgeMessage.decode(payload).body


def _put_request(systems: Systems, asked: str, reply_queue: str) -> None:
    descriptor = Mqmd(ReplyToQ=reply_queue, ReplyToQMgr=systems.mq.name, MsgType=1)
    systems.put(queue(asked), b"hello world", descriptor=descriptor)


def _kept_in(systems: Systems, channel: str, count: int = 1) -> bytes:
    """The last of so many messages of a channel."""
    kept: list[bytes] = []

    async def look(client: Client) -> None:
        with suppress(NotFoundError):  # there is no stream, or not enough in it yet
            kept.append((await client.jetstream().get_msg(channel, count)).data or b"")

    eventually(lambda: systems.with_nats(look) or kept, timeout_s=60)
    return kept[0]


# --- requests and replies -------------------------------------------------------------------------------


def test_a_nats_request_of_a_body_is_answered_through_a_pair_of_queues(systems: Systems) -> None:
    async def scenario(client: Client) -> None:
        answers = await client.subscribe("answers.body")
        await client.publish("ask.body", b"hello world", reply="answers.body")
        await client.flush()
        request = systems.get("ASK.BODY", 60)
        assert request is not None
        assert (request.body, request.descriptor.ReplyToQ) == (b"hello world", "ANSWERS.BODY")
        systems.put(queue(request.descriptor.ReplyToQ), b"goodbye")
        assert (await answers.next_msg(60)).data == b"goodbye"

    systems.with_nats(scenario)


@pytest.mark.parametrize(("form", "read"), [("body", bytes), ("bridge", _body)])
def test_an_mq_request_is_answered_by_a_nats_application_in_either_form(
    systems: Systems, form: str, read: Callable[[bytes], bytes]
) -> None:
    async def scenario(client: Client) -> None:
        requests = await client.subscribe(f"serve.{form}")
        await client.flush()
        _put_request(systems, f"SERVE.{form.upper()}", "SERVED")
        request = await requests.next_msg(60)
        assert read(request.data) == b"hello world"
        assert request.reply == "served"
        assert set(request.headers or {}) == {"Nats-Msg-Id"}
        await request.respond(b"goodbye")

    systems.with_nats(scenario)
    answer = systems.get("SERVED", 60)
    assert answer is not None
    assert answer.body == b"goodbye"


@pytest.mark.parametrize(
    ("form", "payload", "read"),
    [("body", b"question", bytes), ("bridge", BridgeMessage(b"question").encode(), _body)],
)
def test_an_answer_to_an_inbox_has_the_form_of_its_request(
    systems: Systems, form: str, payload: bytes, read: Callable[[bytes], bytes]
) -> None:
    answers: list[Msg] = []

    async def scenario(client: Client) -> None:
        answers.append(await client.request(f"ask.{form}", payload, timeout=60))

    with responder(systems.mq.connect(), f"ASK.{form.upper()}"):
        systems.with_nats(scenario)
    [answer] = answers
    assert read(answer.data) == b"noitseuq"
    assert set(answer.headers or {}) == {"Nats-Msg-Id"}


def test_a_request_in_a_channel_is_answered_in_a_channel(systems: Systems) -> None:
    request = BridgeMessage(b"hello world", BridgeHeader(reply_to_channel="answer-channel"))
    systems.send_to_nats("ask-channel", request.encode())
    got = systems.get("ASK.CHANNEL", 60)
    assert got is not None
    assert (got.body, got.descriptor.ReplyToQ) == (b"hello world", "ANSWER.CHANNEL")
    systems.put(queue(got.descriptor.ReplyToQ), b"goodbye")
    assert _body(_kept_in(systems, "answer-channel")) == b"goodbye"


def test_an_mq_request_is_answered_through_a_pair_of_channels(systems: Systems) -> None:
    _put_request(systems, "SERVE.CHANNEL", "SERVED.CHANNEL")
    request = BridgeMessage.decode(_kept_in(systems, "serve-channel"))
    assert (request.body, request.header.reply_to_channel) == (b"hello world", "served-channel")
    systems.send_to_nats(request.header.reply_to_channel, BridgeMessage(b"goodbye").encode())
    answer = systems.get("SERVED.CHANNEL", 60)
    assert answer is not None
    assert answer.body == b"goodbye"


def test_a_plain_payload_where_the_format_is_expected_is_dead_lettered_with_the_way_out(
    systems: Systems,
) -> None:
    systems.send_to_nats("ask.bridge", b"plain text")
    eventually(lambda: systems.in_topic(DEAD_LETTERS), timeout_s=60)
    [letter] = systems.reasons(DEAD_LETTERS)
    assert letter.startswith("not in the message format of the NATS-MQ bridge")
    assert letter.endswith("A connector with excludeheaders=true takes any payload")


# --- reconnections --------------------------------------------------------------------------------------


def _flows_to_nats(systems: Systems, body: bytes) -> None:
    async def scenario(client: Client) -> None:
        arrived = await client.subscribe("serve.body")
        await client.flush()
        systems.put(queue("SERVE.BODY"), body)
        assert (await arrived.next_msg(60)).data == body

    systems.with_nats(scenario)


def test_messages_flow_again_after_mq_has_restarted(systems: Systems) -> None:
    _flows_to_nats(systems, b"before")
    systems.mq.restart()
    _flows_to_nats(systems, b"after")


def _restart_nats(systems: Systems) -> None:
    systems.nats.stop()
    eventually(lambda: "nats" in systems.edges.problems, timeout_s=30)
    systems.nats.start()
    eventually(lambda: "nats" not in systems.edges.problems, timeout_s=30)


def test_messages_of_a_subject_flow_again_after_nats_has_restarted(systems: Systems) -> None:
    _restart_nats(systems)
    systems.send_to_nats("served", b"after")
    got = systems.get("SERVED", 60)
    assert got is not None
    assert got.body == b"after"


def test_messages_of_a_channel_flow_again_after_nats_has_restarted(systems: Systems) -> None:
    _restart_nats(systems)
    systems.send_to_nats("served-channel", BridgeMessage(b"after").encode())
    got = systems.get("SERVED.CHANNEL", 60)
    assert got is not None
    assert got.body == b"after"


def test_what_mq_is_given_while_nats_is_away_reaches_the_channel_later(systems: Systems) -> None:
    systems.put(queue("ANSWER.CHANNEL"), b"one")
    assert _body(_kept_in(systems, "answer-channel", 2)) == b"one"
    systems.nats.stop()
    for body in (b"two", b"three"):
        systems.put(queue("ANSWER.CHANNEL"), body)
    systems.nats.start()
    assert [_body(_kept_in(systems, "answer-channel", n)) for n in (3, 4)] == [b"two", b"three"]

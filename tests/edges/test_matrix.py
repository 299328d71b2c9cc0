"""From every system to every other, through the journal and the router, with the types of headers intact.

Also what users of the NATS-MQ bridge have: requests and replies both ways, and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError
from tests.support.asynchronous import eventually as eventually_async
from tests.support.mq.responder import responder
from tests.support.polling import eventually
from tests.support.systems import Seen, Systems, amqp_message, queue, running_bridge, seen_in_amqp

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage, Property
from isthmus.edges.mq.descriptor import Mqmd
from isthmus.edges.mq.translate import PROPERTY_TYPES
from isthmus.message import Header, HeaderType

SYSTEMS = ("kafka", "nats", "mq")
HAS_PROTON = find_spec("proton") is not None
SYSTEMS_AND_AMQP = (*SYSTEMS, "amqp", *(["broker"] if HAS_PROTON else []))
"""AMQP clients receive what is in Kafka's topics: to them a route goes to a topic. The broker is proton's."""
HEADERS = {
    "text": Header("grüß dich"),
    "flag": Header.of(True),
    "tiny": Header.of(-8, HeaderType.BYTE),
    "small": Header.of(1600, HeaderType.SHORT),
    "number": Header.of(42, HeaderType.INT),
    "large": Header.of(2**40, HeaderType.LONG),
    "single": Header.of(1.5, HeaderType.FLOAT),
    "double": Header.of(0.1, HeaderType.DOUBLE),
    "octets": Header.of(b"\0\xff", HeaderType.BINARY),
    "traceparent": Header("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    "tracestate": Header("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"),
}

CONNECTORS = """
nats.jetstream.create=true
mq.reply-queue=ISTHMUS.REPLIES
connectors.raw-in.type=NATS2Queue
connectors.raw-in.subject=raw.in
connectors.raw-in.queue=RAW.IN
connectors.raw-in.excludeheaders=true
connectors.raw-out.type=Queue2NATS
connectors.raw-out.queue=RAW.OUT
connectors.raw-out.subject=raw.out
connectors.raw-out.excludeheaders=true
connectors.ask.type=NATS2Queue
connectors.ask.subject=ask
connectors.ask.queue=ASKED
connectors.requests.type=Queue2NATS
connectors.requests.queue=REQUESTS
connectors.requests.subject=requests
connectors.answers.type=NATS2Queue
connectors.answers.subject=answers
connectors.answers.queue=ANSWERS
connectors.stored.type=Queue2Stan
connectors.stored.queue=STORE
connectors.stored.channel=stored
connectors.taken.type=Stan2Queue
connectors.taken.channel=kept
connectors.taken.queue=KEPT
"""


def _source(system: str, destination: str) -> str:
    """The address of what goes from one system to another."""
    return {"nats": f"from-nats.{destination}", "mq": f"FROM.MQ.{destination.upper()}"}.get(
        system, f"matrix-from-{system}-to-{destination}"
    )


def _destination(source: str, system: str) -> str:
    return {"nats": f"to-nats.{source}", "mq": f"TO.MQ.{source.upper()}"}.get(
        system, f"matrix-to-{system}-from-{source}"
    )


def _configuration() -> str:
    keys = {"kafka": "topic", "nats": "subject", "mq": "queue", "amqp": "topic", "broker": "address"}
    lines = ["nats.intake.all.subject=from-nats.*"]
    lines += [f"mq.intake.{each}.queue={_source('mq', each)}" for each in SYSTEMS_AND_AMQP]
    lines.append("routing.source.topics=" + ",".join(_source("kafka", each) for each in SYSTEMS_AND_AMQP))
    lines.append("amqp.port=0")
    if HAS_PROTON:
        taken = ",".join(_source("broker", each) for each in SYSTEMS_AND_AMQP)
        lines.append(f"amqp.connect.main.intake.addresses={taken}")
    for source in SYSTEMS_AND_AMQP:
        for destination in SYSTEMS_AND_AMQP:
            route = f"routes.{source}-{destination}"
            lines.append(f'{route}.predicate=msg.address=="{_source(source, destination)}"')
            broker = "main:" if destination == "broker" else ""
            lines.append(f"{route}.dest.{keys[destination]}={broker}{_destination(source, destination)}")
    return "\n".join(lines) + CONNECTORS


@pytest.fixture(scope="module")
def broker() -> Iterator[Any]:
    """An AMQP broker that the bridge is a client of, if there is a proton to make it with."""
    if not HAS_PROTON:
        yield None
        return
    from tests.support.amqp.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory, kafka_servers: str, broker: Any) -> Iterator[Systems]:
    topics = (
        *(_source("kafka", each) for each in SYSTEMS_AND_AMQP),
        *(_destination(each, "kafka") for each in SYSTEMS_AND_AMQP),
        *(_destination(each, "amqp") for each in SYSTEMS_AND_AMQP),
    )
    configuration = _configuration()
    if broker is not None:
        configuration += f"amqp.connect.main.url={broker.url}\n"
    with running_bridge(tmp_path_factory.mktemp("matrix"), kafka_servers, configuration, topics) as found:
        yield found


def _send(systems: Systems, broker: Any, system: str, address: str, body: bytes) -> None:
    if system == "kafka":
        systems.send_to_kafka(address, body, HEADERS)
    elif system == "nats":
        types = "".join(f"{name}={header.type};" for name, header in HEADERS.items())
        texts = {name: header.text for name, header in HEADERS.items()}
        systems.send_to_nats(address, body, {**texts, "Isthmus-Types": types})
    elif system == "amqp":
        systems.send_over_amqp(address, body.decode(), HEADERS)
    elif system == "broker":
        broker.put(address, amqp_message(body.decode(), HEADERS))
    else:
        properties = {name: Property(PROPERTY_TYPES[each.type], each.value) for name, each in HEADERS.items()}
        systems.put(queue(address), body, properties)


@contextmanager
def _arrivals(
    systems: Systems, broker: Any, system: str, address: str
) -> Iterator[Callable[[], Seen | None]]:
    """Looks for the first message at the end of a way."""
    if system == "nats":
        with systems.subscribed(address) as seen:
            yield lambda: next(iter(seen()), None)
    elif system == "mq":
        yield lambda: systems.got(address)
    elif system == "amqp":
        yield lambda: systems.received_over_amqp(f"{address}/group.id/matrix")
    elif system == "broker":
        yield lambda: next(map(seen_in_amqp, list(broker.queues[address])), None)
    else:
        yield lambda: next(iter(systems.in_topic(address)), None)


@pytest.mark.parametrize("destination", SYSTEMS_AND_AMQP)
@pytest.mark.parametrize("source", SYSTEMS_AND_AMQP)
def test_a_message_arrives_with_its_headers_and_their_types(
    systems: Systems, broker: Any, source: str, destination: str
) -> None:
    body = f"from {source} to {destination}: grüße".encode()
    with _arrivals(systems, broker, destination, _destination(source, destination)) as look:
        _send(systems, broker, source, _source(source, destination), body)
        found: list[Seen] = []
        # The first one waits for Spark to compile the plan of all these routes.
        eventually(lambda: (seen := look()) is not None and found.append(seen) is None, timeout_s=120)
    assert found[0].body == body
    assert {name: found[0].headers.get(name) for name in HEADERS} == HEADERS


# --- requests and replies -------------------------------------------------------------------------------


def test_a_nats_request_is_answered_by_an_mq_application(systems: Systems) -> None:
    answers: list[bytes] = []

    async def scenario(client: Client) -> None:
        for number in range(3):
            request = BridgeMessage(f"question {number}".encode()).encode()
            answer = await client.request("ask", request, timeout=60)
            answers.append(BridgeMessage.decode(answer.data).body)

    with responder(systems.mq.connect(), "ASKED"):
        systems.with_nats(scenario)
    assert answers == [f"question {number}"[::-1].encode() for number in range(3)]


def test_an_mq_request_is_answered_by_a_nats_application(systems: Systems) -> None:
    async def scenario(client: Client) -> None:
        async def answer(message: Msg) -> None:
            request = BridgeMessage.decode(message.data)
            reply = BridgeMessage(request.body[::-1])
            reply.header.correl_id = request.header.msg_id
            await message.respond(reply.encode())

        await client.subscribe("requests", cb=answer)
        await client.flush()
        asked.append(
            systems.put(queue("REQUESTS"), b"question", descriptor=Mqmd(ReplyToQ="ANSWERS", MsgType=1))
        )
        await eventually_async(lambda: systems.mq.depth("ANSWERS"))

    asked: list[Mqmd] = []
    systems.mq.define_queue("ANSWERS")
    systems.with_nats(scenario)
    answer = systems.get("ANSWERS")
    assert answer is not None
    assert answer.body == b"noitseuq"
    assert answer.descriptor.CorrelId == asked[0].MsgId


def test_an_mq_request_for_a_stream_names_the_channel_that_answers_go_to(systems: Systems) -> None:
    found: list[BridgeMessage] = []
    systems.put(queue("STORE"), b"question", descriptor=Mqmd(ReplyToQ="KEPT", MsgType=1))

    async def look(client: Client) -> None:
        with suppress(NotFoundError):  # there is no stream, or nothing in it yet
            stored = await client.jetstream().get_last_msg("stored", "stored")
            found.append(BridgeMessage.decode(stored.data or b""))

    eventually(lambda: systems.with_nats(look) or found, timeout_s=60)
    assert found[0].body == b"question"
    assert found[0].header.reply_to_channel == "kept"


def test_a_request_of_a_stream_names_the_queue_that_answers_go_to(systems: Systems) -> None:
    request = BridgeMessage(b"question", BridgeHeader(reply_to_channel="stored"))
    systems.send_to_nats("kept", request.encode())
    message = systems.get("KEPT", 60)
    assert message is not None
    descriptor = message.descriptor
    assert (descriptor.ReplyToQ, descriptor.ReplyToQMgr) == ("STORE", systems.mq.name)
    assert (message.body, descriptor.MsgType) == (b"question", 1)


# --- watching it ----------------------------------------------------------------------------------------


def test_every_connector_counts_what_went_through_it(systems: Systems) -> None:
    systems.send_to_nats("raw.in", b"counted")
    assert systems.get("RAW.IN") is not None

    def counted() -> bool:
        report = next(each for each in systems.edges.reports() if each.name == "raw-in")
        return 0 < report.delivered.messages == report.taken.messages

    eventually(counted, timeout_s=30)
    reports = {each.name: each for each in systems.edges.reports()}
    assert (reports["raw-in"].kind, reports["raw-in"].system) == ("connector", "nats→mq")
    assert reports["raw-in"].connects == 1
    assert reports["raw-in"].request_times_s
    assert {each.kind for each in reports.values()} == {"connector", "intake", "route"}
    assert systems.edges.problems == {}


def test_messages_wait_for_a_queue_manager_that_is_stopped_and_health_tells_of_it(
    systems: Systems,
) -> None:
    systems.mq.stop()
    try:
        eventually(
            lambda: "the queue manager is unavailable" in systems.edges.problems.values(), timeout_s=30
        )
        systems.send_to_nats("raw.in", b"waits")
        eventually(lambda: any(each.endswith("outbox.mq") for each in systems.edges.problems), timeout_s=30)
    finally:
        systems.mq.start()
    message = systems.get("RAW.IN", 60)
    assert message is not None
    assert message.body == b"waits"
    eventually(lambda: systems.edges.problems == {}, timeout_s=30)
    reports = {each.name: each for each in systems.edges.reports()}
    assert (reports["raw-out"].disconnects, reports["raw-out"].reconnects) == (1, 1)


def test_messages_wait_for_a_broker_that_is_stopped_and_health_tells_of_it(
    systems: Systems, broker: Any
) -> None:
    if broker is None:
        pytest.skip("python-qpid-proton is not installed")
    broker.stop()
    try:
        eventually(lambda: "the broker is unavailable" in systems.edges.problems.values(), timeout_s=30)
        systems.send_to_nats(_source("nats", "broker"), b"waits")
    finally:
        broker.start()
    eventually(lambda: "waits" in broker.bodies(_destination("nats", "broker")), timeout_s=60)
    eventually(lambda: systems.edges.problems == {}, timeout_s=30)
    reports = {each.name: each for each in systems.edges.reports()}
    assert (reports["main"].kind, reports["main"].system) == ("intake", "amqp")
    assert (reports["main"].disconnects, reports["main"].reconnects) == (1, 1)
    assert reports["nats-broker"].system == "→amqp"
    assert reports["nats-broker"].delivered.messages >= 1

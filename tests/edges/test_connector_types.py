"""A connector of every type, in the message format and with bodies alone, through journal and router."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from nats.aio.client import Client
from nats.js.errors import NotFoundError
from tests.support.polling import eventually
from tests.support.systems import Systems, queue, running_bridge

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage, Property, PropertyType
from isthmus.config.model.connectors import ConnectorType
from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.port import TopicTarget

KEYS = {"queue": "queue", "topic": "topic", "nats": "subject", "stan": "channel"}
BODY = b"\xff\0 body"
PROPERTIES = {"n": Property(PropertyType.INT16, 7), "text": Property(PropertyType.STRING, "grüße")}
LONG_AGO = "19991231"
OUT_OF_MQ = [each for each in ConnectorType if each.ends[0] in ("queue", "topic")]
INTO_MQ = [each for each in ConnectorType if each.ends[1] in ("queue", "topic")]


def _place(type: ConnectorType, way: int, form: str) -> str:
    """What a connector takes from (0) or brings to (1)."""
    kind, name = type.ends[way], f"{type.value}.{form}.{('in', 'out')[way]}".lower()
    return {"queue": name.upper(), "topic": name.replace(".", "/"), "stan": name.replace(".", "-")}.get(
        kind, name
    )


def _configuration() -> str:
    lines = ["nats.jetstream.create=true"]
    for type in ConnectorType:
        for form in ("bridge", "body"):
            connector = f"connectors.{type.value}-{form}"
            lines.append(f"{connector}.type={type.value}")
            lines += [f"{connector}.{KEYS[type.ends[way]]}={_place(type, way, form)}" for way in (0, 1)]
            lines.append(f"{connector}.excludeheaders={'true' if form == 'body' else 'false'}")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory, kafka_servers: str) -> Iterator[Systems]:
    folder = tmp_path_factory.mktemp("connectors")
    with running_bridge(folder, kafka_servers, _configuration(), ()) as found:
        yield found


# --- out of MQ ------------------------------------------------------------------------------------------


def _put(systems: Systems, type: ConnectorType, form: str) -> None:
    place = _place(type, 0, form)
    target = TopicTarget(place) if type.ends[0] == "topic" else queue(place)
    descriptor = Mqmd(CorrelId=b"\0c", Format="MQSTR", ReplyToQ="ELSEWHERE", Priority=3)
    systems.put(target, BODY, PROPERTIES, descriptor)


def _published(systems: Systems, type: ConnectorType, form: str) -> tuple[bytes, dict[str, str], str]:
    """Payload, headers and reply subject of what a subject is given, or a stream has."""
    found: list[tuple[bytes, dict[str, str], str]] = []
    place = _place(type, 1, form)

    async def on_a_subject(client: Client) -> None:
        subscription = await client.subscribe(place)
        await client.flush()
        _put(systems, type, form)
        message = await subscription.next_msg(60)
        found.append((message.data, message.headers or {}, message.reply))

    async def look_into_the_stream(client: Client) -> None:
        try:
            kept = await client.jetstream().get_last_msg(place, place)
        except NotFoundError:  # there is no stream, or nothing in it yet
            return
        found.append((kept.data or b"", kept.headers or {}, ""))

    if type.ends[1] == "nats":
        systems.with_nats(on_a_subject)
    else:
        _put(systems, type, form)
        eventually(lambda: systems.with_nats(look_into_the_stream) or found, timeout_s=60)
    return found[0]


@pytest.mark.parametrize("type", OUT_OF_MQ)
def test_out_of_mq_comes_a_bridge_message_with_all_that_mq_knows(
    systems: Systems, type: ConnectorType
) -> None:
    payload, _, _ = _published(systems, type, "bridge")
    message = BridgeMessage.decode(payload)
    assert message.body == BODY
    assert dict(message.properties) == PROPERTIES
    header = message.header
    assert (header.correl_id, header.format, header.priority) == (b"\0c", "MQSTR", 3)
    assert (header.reply_to_q, header.reply_to_q_mgr) == ("ELSEWHERE", systems.mq.name)
    assert len(header.put_date) == 8
    assert header.msg_id


@pytest.mark.parametrize("type", OUT_OF_MQ)
def test_excludeheaders_brings_the_body_alone_out_of_mq(systems: Systems, type: ConnectorType) -> None:
    payload, headers, reply = _published(systems, type, "body")
    assert payload == BODY
    assert set(headers) <= {"Nats-Msg-Id"}
    assert reply == ""


# --- into MQ --------------------------------------------------------------------------------------------


@contextmanager
def _arriving(systems: Systems, type: ConnectorType, form: str) -> Iterator[Callable[[], MqMessage | None]]:
    """What a queue is given, or the subscribers of a topic string."""
    place, connection = _place(type, 1, form), systems.mq.connect()
    try:
        source = connection.subscribe(place) if type.ends[1] == "topic" else connection.open_queue(place)
        yield lambda: source.get(60)
        connection.commit()
    finally:
        connection.disconnect()


@pytest.mark.parametrize("type", INTO_MQ)
def test_into_mq_goes_what_a_client_may_say_of_a_message(systems: Systems, type: ConnectorType) -> None:
    sent = BridgeMessage(
        BODY, BridgeHeader(correl_id=b"\0c", format="MQSTR", priority=3, put_date=LONG_AGO, expiry=1)
    )
    for name, each in PROPERTIES.items():
        sent.set_property(name, each.value, each.type)
    with _arriving(systems, type, "bridge") as arrived:
        systems.send_to_nats(_place(type, 0, "bridge"), sent.encode())
        message = arrived()
    assert message is not None
    assert (message.body, dict(message.properties)) == (BODY, PROPERTIES)
    descriptor = message.descriptor
    assert (descriptor.CorrelId, descriptor.Format, descriptor.Priority) == (b"\0c", "MQSTR", 3)
    assert descriptor.Expiry == -1
    assert descriptor.PutDate > LONG_AGO


@pytest.mark.parametrize("type", INTO_MQ)
def test_excludeheaders_brings_the_body_alone_into_mq(systems: Systems, type: ConnectorType) -> None:
    payload = BridgeMessage(BODY, BridgeHeader(correl_id=b"\0c")).encode()  # of which nothing is read
    with _arriving(systems, type, "body") as arrived:
        systems.send_to_nats(_place(type, 0, "body"), payload, {"Region": "EU"})
        message = arrived()
    assert message is not None
    assert (message.body, dict(message.properties)) == (payload, {})
    descriptor = message.descriptor
    assert (descriptor.CorrelId, descriptor.Format, descriptor.ReplyToQ) == (b"", "", "")

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.asynchronous import eventually
from tests.support.names import unique
from tests.support.nats.peers import bridge, outbound, peer

from isthmus.config.model.nats import NatsSettings
from isthmus.edges.nats.client import NatsClient
from isthmus.edges.nats.delivery import NatsDelivery
from isthmus.edges.nats.translate import body_only
from isthmus.embedded.nats import MAX_PAYLOAD_BYTES, EmbeddedNats
from isthmus.errors import Unreachable
from isthmus.message import Header, HeaderType


def test_messages_reach_a_subject_in_order_with_their_headers(nats_url: str) -> None:
    async def scenario() -> None:
        subject = unique("out")
        async with bridge(nats_url) as client, peer(nats_url) as reader:
            arrived = await reader.subscribe(subject)
            await reader.flush()
            delivery = NatsDelivery(client)
            messages = [
                outbound(
                    subject, b"%d" % number, id=f"j:0:{number}", amount=Header.of(number, HeaderType.LONG)
                )
                for number in range(100)
            ]
            assert await delivery.deliver(messages) == [None] * 100
            received = [await arrived.next_msg(60) for _ in range(100)]
        assert [message.data for message in received] == [b"%d" % number for number in range(100)]
        assert received[7].headers == {
            "Nats-Msg-Id": "j:0:7",
            "amount": "7",
            "Isthmus-Types": "amount=long;",
        }

    asyncio.run(scenario())


def test_a_header_with_several_values_goes_out_as_several_headers(nats_url: str) -> None:
    async def scenario() -> None:
        subject = unique("out")
        async with bridge(nats_url) as client, bridge(nats_url) as reader:
            arrived = await reader.live.subscribe(subject)
            await reader.live.flush()
            await NatsDelivery(client).deliver([outbound(subject, Tag=Header("a\nb"))])
            message = await arrived.next_msg(60)
        assert message.headers is not None
        assert message.headers["Tag"] == "a\nb"

    asyncio.run(scenario())


def test_a_message_for_a_stream_that_comes_twice_is_kept_once(nats_url: str) -> None:
    async def scenario() -> None:
        name = unique("kept")
        async with bridge(nats_url) as client, peer(nats_url) as reader:
            await reader.jetstream().add_stream(name=name, subjects=[name])
            delivery = NatsDelivery(client)
            messages = [outbound(f"jetstream:{name}", b"%d" % n, id=f"j:0:{n}") for n in range(50)]
            assert await delivery.deliver(messages) == [None] * 50
            assert await delivery.deliver(messages) == [None] * 50
            assert (await reader.jetstream().stream_info(name)).state.messages == 50

    asyncio.run(scenario())


def test_the_settings_say_how_messages_go_out_unless_their_destination_does(nats_url: str) -> None:
    async def scenario() -> None:
        name = unique("both")
        async with bridge(nats_url) as client, peer(nats_url) as reader:
            await reader.jetstream().add_stream(name=name, subjects=[name])
            arrived = await reader.subscribe(name)
            await reader.flush()
            delivery = NatsDelivery(client, publish="jetstream")
            await delivery.deliver([outbound(name), outbound(f"core:{name}", id="j:0:2")])
            replies = sorted([(await arrived.next_msg(60)).reply for _ in range(2)])
        assert replies[0] == ""
        assert replies[1].startswith("_INBOX.")  # where JetStream acknowledges

    asyncio.run(scenario())


def test_a_bad_message_is_told_of_and_the_others_are_delivered(nats_url: str) -> None:
    async def scenario() -> None:
        subject = unique("out")
        async with bridge(nats_url) as client, peer(nats_url) as reader:
            arrived = await reader.subscribe(subject)
            await reader.flush()
            answers = await NatsDelivery(client).deliver(
                [
                    outbound("no subject"),
                    outbound(subject, b"good"),
                    outbound(subject, bytes(MAX_PAYLOAD_BYTES + 1)),
                    outbound("_INBOX"),
                ]
            )
            assert (await arrived.next_msg(60)).data == b"good"
        assert [answer and answer.code for answer in answers] == [
            "conversion",
            None,
            "oversize",
            "conversion",
        ]

    asyncio.run(scenario())


def test_a_message_larger_than_its_stream_takes_is_told_of(nats_url: str) -> None:
    async def scenario() -> None:
        name = unique("small")
        async with bridge(nats_url) as client, peer(nats_url) as reader:
            await reader.jetstream().add_stream(name=name, subjects=[name], max_msg_size=100)
            [answer] = await NatsDelivery(client).deliver([outbound(f"jetstream:{name}", bytes(200))])
        assert answer is not None
        assert answer.code == "oversize"

    asyncio.run(scenario())


def test_a_subject_without_a_stream_is_waited_for_and_then_given_up(nats_url: str) -> None:
    async def scenario() -> None:
        subject = unique("none")
        async with bridge(nats_url) as client:
            delivery = NatsDelivery(client)
            with pytest.raises(Unreachable, match="no stream of JetStream has the subject"):
                await delivery.deliver([outbound(f"jetstream:{subject}")] * 3)
            impatient = NatsDelivery(client, no_stream_s=0)
            [answer] = await impatient.deliver([outbound(f"jetstream:{subject}")])
        assert answer is not None
        assert answer.code == "conversion"

    asyncio.run(scenario())


def test_a_stream_is_made_for_a_message_where_that_was_asked_for(nats_url: str) -> None:
    async def scenario() -> None:
        subject = unique("made")
        async with bridge(nats_url) as client:
            delivery = NatsDelivery(client, create_streams=True)
            with pytest.raises(Unreachable, match="was made just now"):
                await delivery.deliver([outbound(f"jetstream:{subject}")])
            assert await delivery.deliver([outbound(f"jetstream:{subject}")]) == [None]

    asyncio.run(scenario())


def test_a_form_of_its_own_goes_by_the_destination(nats_url: str) -> None:
    async def scenario() -> None:
        subject = unique("plain")
        async with bridge(nats_url) as client, peer(nats_url) as reader:
            arrived = await reader.subscribe(subject)
            await reader.flush()
            delivery = NatsDelivery(client, forms={subject: body_only})
            await delivery.deliver([outbound(subject, b"x", a=Header("1"))])
            assert (await arrived.next_msg(60)).headers == {"Nats-Msg-Id": "j:0:1"}

    asyncio.run(scenario())


def test_reply_to_goes_through_the_map_of_replies(nats_url: str) -> None:
    async def scenario() -> None:
        subject = unique("asked")
        async with bridge(nats_url) as client, peer(nats_url) as reader:
            arrived = await reader.subscribe(subject)
            await reader.flush()
            delivery = NatsDelivery(client, replies={"RQ@QM": "answers"}.get)
            await delivery.deliver(
                [outbound(subject, ReplyTo=Header("RQ@QM")), outbound(subject, ReplyTo=Header("X@QM"))]
            )
            known, unknown = [await arrived.next_msg(60) for _ in range(2)]
        assert known.reply == "answers"
        assert unknown.reply == ""
        assert unknown.headers is not None
        assert unknown.headers["ReplyTo"] == "X@QM"

    asyncio.run(scenario())


def test_without_a_server_messages_are_not_taken(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = EmbeddedNats(tmp_path)
        server.start()
        async with bridge(server.url) as client:
            await asyncio.to_thread(server.stop)
            await eventually(lambda: not client.connected)
            with pytest.raises(Unreachable, match="is unavailable"):
                await NatsDelivery(client).deliver([outbound("s")])

    asyncio.run(scenario())


def test_before_the_connection_messages_are_not_taken() -> None:
    client = NatsClient(NatsSettings(servers=("nats://127.0.0.1:1",)))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 is unavailable: not connected"):
        asyncio.run(NatsDelivery(client).deliver([outbound("s")]))

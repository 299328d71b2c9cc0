from __future__ import annotations

import asyncio

from nats.aio.msg import Msg
from tests.support.asynchronous import eventually, running
from tests.support.journals import DeadLetterBox, MemoryJournal
from tests.support.names import unique
from tests.support.nats.peers import bridge, outbound, peer

from isthmus.config.model.nats import NatsIntakeSettings
from isthmus.edges.nats.delivery import INBOX, NatsDelivery
from isthmus.edges.nats.intake import SubjectIntake
from isthmus.message import Header


def test_a_nats_request_is_answered_through_the_journal_and_the_outbox(nats_url: str) -> None:
    async def scenario() -> None:
        subject, journal = unique("service"), MemoryJournal()
        async with bridge(nats_url) as client, peer(nats_url) as requester:
            intake = SubjectIntake(
                client, journal, NatsIntakeSettings(subject=subject), dead_letters=DeadLetterBox()
            )
            async with running(intake):
                await intake.ready.wait()
                await client.live.flush()
                asked = asyncio.create_task(requester.request(subject, b"question", timeout=60))
                await eventually(lambda: journal.messages)
                # A responder copies ReplyTo into Destination, and keeps the correlation.
                inbox = journal.messages[0].headers["ReplyTo"].text
                assert inbox.startswith("_INBOX.")
                answer = outbound(INBOX, b"answer", Destination=Header(inbox), CorrelationId=Header("c-1"))
                assert await NatsDelivery(client).deliver([answer]) == [None]
                reply = await asked
        assert reply.data == b"answer"
        assert reply.headers is not None
        assert reply.headers["CorrelationId"] == "c-1"

    asyncio.run(scenario())


def test_a_message_with_reply_to_is_answered_by_a_nats_responder(nats_url: str) -> None:
    async def scenario() -> None:
        service, answers, journal = unique("service"), unique("answers"), MemoryJournal()
        async with bridge(nats_url) as client, peer(nats_url) as responder:

            async def respond(message: Msg) -> None:
                await responder.publish(message.reply, message.data.upper())

            await responder.subscribe(service, cb=respond)
            await responder.flush()
            intake = SubjectIntake(
                client, journal, NatsIntakeSettings(subject=answers), dead_letters=DeadLetterBox()
            )
            async with running(intake):
                await intake.ready.wait()
                await client.live.flush()
                await NatsDelivery(client).deliver([outbound(service, b"question", ReplyTo=Header(answers))])
                await eventually(lambda: journal.messages)
        assert journal.bodies == [b"QUESTION"]

    asyncio.run(scenario())


def test_an_answer_goes_to_inboxes_only(nats_url: str) -> None:
    async def scenario() -> None:
        async with bridge(nats_url) as client:
            [answer] = await NatsDelivery(client).deliver([outbound(INBOX, Destination=Header("orders"))])
        assert answer is not None
        assert answer.code == "conversion"

    asyncio.run(scenario())

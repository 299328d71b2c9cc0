"""A request from elsewhere, answered by an MQ application: out by delivery, back by intake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.support.asynchronous import eventually
from tests.support.journals import DeadLetterBox, MemoryJournal
from tests.support.mq.backends import Backend
from tests.support.mq.responder import responder

from isthmus.codecs.bridge_message import BridgeMessage
from isthmus.config.model.mq import MqIntakeSettings
from isthmus.config.model.plan import Form
from isthmus.edges.contract import OutboundMessage
from isthmus.edges.mq.delivery import MqDelivery, bridge_form
from isthmus.edges.mq.intake import MqIntake
from isthmus.edges.mq.port import Connection, QueueTarget
from isthmus.edges.mq.replies import Requester
from isthmus.journal import layout
from isthmus.journal.layout import Record
from isthmus.message import Header

Connect = Callable[[], Connection]
REQUESTS = 100


class Inboxes:
    """Keeps one reply queue for all inboxes, and remembers whose request was whose."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._waiting: dict[bytes, Requester] = {}

    def reply_queue(self, reply_to: str, *, msg_id: bytes, form: Form) -> QueueTarget | None:
        self._waiting[msg_id.rstrip(b"\0")] = Requester(reply_to, form)
        return QueueTarget(self._queue)

    def requester(self, queue: str, correl_id: bytes) -> Requester | None:
        return self._waiting.get(correl_id)


def test_every_answer_reaches_the_inbox_that_asked(backend: Backend, connect: Connect) -> None:
    requests, answers = backend.queue(1), backend.queue(2)

    async def run() -> None:
        inboxes = Inboxes(answers)
        journal = MemoryJournal()
        delivery = MqDelivery(backend.queue_manager, forms={requests: bridge_form}, replies=inboxes)
        intake = MqIntake(
            backend.queue_manager, MqIntakeSettings(queue=answers), journal, DeadLetterBox(), replies=inboxes
        )
        task = asyncio.create_task(intake.run())
        for number in range(REQUESTS):
            headers = layout.encode_headers({"ReplyTo": Header(f"_INBOX.{number}")})
            value = BridgeMessage(b"request %d" % number).encode()
            message = OutboundMessage(f"j:0:{number}", requests, Record(None, value, headers))
            assert await delivery.deliver([message]) == [None]
            await eventually(lambda number=number: len(journal.entries) > number)  # type: ignore[misc]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await delivery.close()
        answered = {m.headers["Destination"].text: (m.value or b"")[::-1] for m in journal.messages}
        assert answered == {f"_INBOX.{n}": b"request %d" % n for n in range(REQUESTS)}
        assert {m.headers["AnswerForm"].text for m in journal.messages} == {"bridge"}

    with responder(connect(), requests):
        asyncio.run(run())

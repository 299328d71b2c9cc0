"""From a queue or topic string to the journal: nothing is lost, whatever breaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.asynchronous import eventually
from tests.support.journals import DeadLetterBox, MemoryJournal
from tests.support.mq.backends import Backend

from isthmus.config.model.mq import MqIntakeSettings
from isthmus.config.model.plan import Form
from isthmus.edges.mq import reasons
from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.intake import MqIntake
from isthmus.edges.mq.port import Connection, QueueTarget, TopicTarget
from isthmus.edges.mq.replies import Requester
from isthmus.errors import EncodeError, HardFailure, IsthmusError, RedeliveryFailure
from isthmus.journal.layout import Entry, Op

Connect = Callable[[], Connection]


class Run:
    """An intake that runs, and what it has taken."""

    def __init__(self, backend: Backend, **settings: Any) -> None:
        options = {name: settings.pop(name) for name in ("replies",) if name in settings}
        self.journal = MemoryJournal()
        self.dead = DeadLetterBox()
        self.intake = MqIntake(
            backend.queue_manager,
            MqIntakeSettings(**settings),
            self.journal,
            self.dead,
            max_backoff_s=0.2,
            finish_s=0.2,
            **options,
        )
        self.task: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def taking(backend: Backend, **settings: Any) -> AsyncIterator[Run]:
    made = Run(backend, **settings)
    made.task = asyncio.create_task(made.intake.run())
    try:
        yield made
    finally:
        await made.stop()


def put(connection: Connection, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        connection.put(QueueTarget(queue), MqMessage(descriptor=Mqmd(Persistence=1), body=body))
    connection.commit()


def left(connect: Connect, queue: str) -> list[tuple[bytes, int]]:
    """What the queue still has, and how often each was backed out."""
    connection = connect()
    source = connection.open_queue(queue)
    found = []
    while (message := source.get()) is not None:
        found.append((message.body, message.descriptor.BackoutCount))
    connection.disconnect()
    return found


def test_messages_are_in_the_journal_in_order_and_gone_from_the_queue(
    backend: Backend, connect: Connect
) -> None:
    queue = backend.queue(1)
    bodies = [b"%d" % number for number in range(250)]
    put(connect(), queue, *bodies)

    async def run() -> None:
        async with taking(backend, queue=queue, batch=100) as it:
            await eventually(lambda: it.intake.traffic.messages == 250)
            assert it.journal.bodies == bodies
            assert it.intake.traffic.bytes == sum(map(len, bodies))
            entry = it.journal.entries[0]
            assert (entry.op, entry.message.address, entry.message.protocol) == (Op.ADD, queue, "mq")
            assert entry.message.session == f"mq:{queue}"

    asyncio.run(run())
    assert left(connect, queue) == []


def test_a_message_is_the_queue_s_until_the_journal_has_it(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    put(connect(), queue, b"x")

    async def run() -> None:
        made = Run(backend, queue=queue)
        made.journal.held = True
        made.task = asyncio.create_task(made.intake.run())
        await eventually(lambda: made.intake.client.connected)
        await asyncio.sleep(0.1)  # long enough for a commit that must not be
        await made.stop()
        assert made.journal.entries == []

    asyncio.run(run())
    assert [body for body, _ in left(connect, queue)] == [b"x"]


def test_an_intake_that_ends_leaves_no_connection_and_ends_soon(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)

    async def run() -> None:
        async with taking(backend, queue=queue) as it:
            await eventually(lambda: it.intake.client.connected)
        assert not it.intake.client.connected

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("fault", ["connection", "restart", "commit not done", "commit done"])
def test_every_message_arrives_though_the_queue_manager_breaks(
    backend: Backend, connect: Connect, fault: str
) -> None:
    queue = backend.queue(1)
    breaks: dict[str, Callable[[], None]] = {
        "connection": backend.break_connections,
        "restart": backend.restart,
        "commit not done": lambda: backend.fail_next_commit(reasons.CONNECTION_BROKEN, after=False),
        "commit done": lambda: backend.fail_next_commit(reasons.CONNECTION_BROKEN, after=True),
    }

    async def run() -> None:
        async with taking(backend, queue=queue, batch=5) as it:
            for round in range(5):
                bodies = {b"%d-%d" % (round, number) for number in range(20)}
                put(connect(), queue, *bodies)
                breaks[fault]()
                await eventually(lambda bodies=bodies: bodies <= set(it.journal.bodies))  # type: ignore[misc]
            for end in (b"end", b"after the end"):  # the second is taken when the first is committed
                put(connect(), queue, end)
                await eventually(lambda end=end: end in it.journal.bodies)  # type: ignore[misc]

    asyncio.run(run())
    assert {body for body, _ in left(connect, queue)} <= {b"after the end"}


def test_messages_of_a_commit_that_mq_backs_out_are_redelivered(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    put(connect(), queue, b"1", b"2")
    backend.fail_next_commit(reasons.BACKED_OUT, after=False)

    async def run() -> None:
        async with taking(backend, queue=queue) as it:
            await eventually(lambda: it.intake.traffic.messages == 2)
            assert it.journal.bodies == [b"1", b"2", b"1", b"2"]
            assert it.journal.messages[0].id == it.journal.messages[2].id
            assert it.journal.messages[2].headers["Redelivered"].text == "true"

    asyncio.run(run())


def test_a_queue_manager_that_is_unavailable_is_waited_for_and_logged_once(
    backend: Backend, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    queue = backend.queue(1)
    put(connect(), queue, b"x")
    backend.stop()
    caplog.set_level(logging.INFO, "isthmus.edges")

    async def run() -> None:
        async with taking(backend, queue=queue) as it:
            await eventually(lambda: it.intake.client._backoff.failures >= 4)
            backend.start()
            await eventually(lambda: it.journal.bodies == [b"x"])
            assert it.intake.client.counts.connects == 1

    asyncio.run(run())
    assert [" is available again" in record.message for record in caplog.records] == [False, True]


def test_a_message_that_can_never_be_written_is_a_dead_letter_at_once(
    backend: Backend, connect: Connect
) -> None:
    queue = backend.queue(1)
    put(connect(), queue, b"1", b"bad", b"2")

    async def run() -> None:
        made = Run(backend, queue=queue)
        made.journal.refuse = _bad(EncodeError("no"))
        made.task = asyncio.create_task(made.intake.run())
        await eventually(lambda: made.intake.traffic.messages == 3)
        await made.stop()
        assert made.journal.bodies == [b"1", b"2"]
        assert [(message.value, str(failure)) for message, failure in made.dead.letters] == [(b"bad", "no")]

    asyncio.run(run())
    assert left(connect, queue) == []


def test_a_message_that_fails_too_often_is_set_aside_and_the_others_go_on(
    backend: Backend, connect: Connect
) -> None:
    queue = backend.queue(1)
    put(connect(), queue, b"1", b"bad", b"2")

    async def run() -> None:
        made = Run(backend, queue=queue, backout_threshold=3)
        made.journal.refuse = _bad(HardFailure("too large", remedy="none"))
        made.task = asyncio.create_task(made.intake.run())
        await eventually(lambda: made.dead.letters)
        await eventually(lambda: b"2" in made.journal.bodies)
        await eventually(lambda: made.intake.traffic.messages == 3)
        await made.stop()
        (message, failure), *others = made.dead.letters
        assert (message.value, others) == (b"bad", [])
        assert isinstance(failure, RedeliveryFailure)
        assert str(failure) == "tried 3 times: too large"
        assert set(made.journal.bodies) == {b"1", b"2"}

    asyncio.run(run())
    assert left(connect, queue) == []


def test_the_queue_s_own_threshold_and_backout_queue_count(backend: Backend, connect: Connect) -> None:
    aside = backend.queue(2)
    queue = backend.queue(1, backout_threshold=2, backout_queue="TEST.2")
    put(connect(), queue, b"bad", b"good")

    async def run() -> None:
        made = Run(backend, queue=queue, poison="backout-queue")
        made.journal.refuse = _bad(HardFailure("no", remedy="none"))
        made.task = asyncio.create_task(made.intake.run())
        await eventually(lambda: made.intake.traffic.messages == 2)
        await made.stop()
        assert made.dead.letters == []
        assert set(made.journal.bodies) == {b"good"}

    asyncio.run(run())
    assert left(connect, queue) == []
    assert [body for body, _ in left(connect, aside)] == [b"bad"]


@pytest.mark.parametrize("backout_queue", ["", "NO.SUCH.QUEUE"])
def test_without_a_backout_queue_that_takes_it_a_message_is_a_dead_letter(
    backend: Backend, connect: Connect, backout_queue: str
) -> None:
    queue = backend.queue(1, backout_queue=backout_queue)
    put(connect(), queue, b"bad")

    async def run() -> None:
        made = Run(backend, queue=queue, poison="backout-queue", backout_threshold=1)
        made.journal.refuse = _bad(HardFailure("no", remedy="none"))
        made.task = asyncio.create_task(made.intake.run())
        await eventually(lambda: made.intake.traffic.messages == 1)
        await made.stop()
        assert [message.value for message, _ in made.dead.letters] == [b"bad"]

    asyncio.run(run())
    assert left(connect, queue) == []


def test_an_intake_ends_when_not_even_dead_letters_are_taken(backend: Backend, connect: Connect) -> None:
    queue = backend.queue(1)
    put(connect(), queue, b"bad")

    async def run() -> None:
        made = Run(backend, queue=queue, backout_threshold=1)
        made.journal.refuse = _bad(HardFailure("no", remedy="none"))
        made.dead.broken = True
        with pytest.raises(HardFailure, match="Kafka is unavailable"):
            await made.intake.run()

    asyncio.run(run())
    assert left(connect, queue)[0][0] == b"bad"


def test_a_queue_that_is_not_there_ends_the_intake_with_a_remedy(backend: Backend) -> None:
    async def run() -> None:
        with pytest.raises(HardFailure, match="2085") as raised:
            await Run(backend, queue="NO.SUCH.QUEUE").intake.run()
        assert "queues" in raised.value.remedy

    asyncio.run(run())


def test_what_is_published_to_a_topic_is_taken(backend: Backend, connect: Connect) -> None:
    writer = connect()

    async def run() -> None:
        async with taking(backend, topic="isthmus/intake/#") as it:
            await eventually(lambda: it.intake._opened)
            writer.put(TopicTarget("isthmus/intake/a"), MqMessage(body=b"x"))
            writer.commit()
            await eventually(lambda: it.journal.bodies == [b"x"])
            assert it.journal.messages[0].address == "isthmus/intake/#"

    asyncio.run(run())


def test_a_durable_subscription_misses_nothing_between_two_intakes(
    backend: Backend, connect: Connect
) -> None:
    writer = connect()

    async def once(bodies: list[bytes]) -> None:
        async with taking(backend, topic="isthmus/durable", durable="isthmus-intake") as it:
            await eventually(lambda: it.intake._opened)
            await eventually(lambda: it.journal.bodies == bodies)

    asyncio.run(once([]))
    writer.put(TopicTarget("isthmus/durable"), MqMessage(descriptor=Mqmd(Persistence=1), body=b"x"))
    writer.commit()
    asyncio.run(once([b"x"]))


def test_an_answer_in_the_bridge_s_own_queue_goes_to_the_one_who_asked(
    backend: Backend, connect: Connect
) -> None:
    queue = backend.queue(1)
    connection = connect()
    connection.put(QueueTarget(queue), MqMessage(descriptor=Mqmd(CorrelId=b"asked")))
    connection.put(QueueTarget(queue), MqMessage(descriptor=Mqmd(CorrelId=b"unknown")))
    connection.commit()

    class Map:
        def reply_queue(self, reply_to: str, *, msg_id: bytes, form: Form) -> QueueTarget | None:
            return None

        def requester(self, queue: str, correl_id: bytes) -> Requester | None:
            return {b"asked": Requester("_INBOX.me", "body")}.get(correl_id)

    async def run() -> None:
        async with taking(backend, queue=queue, replies=Map()) as it:
            await eventually(lambda: len(it.journal.entries) == 2)
            destinations = [message.headers["Destination"].text for message in it.journal.messages]
            assert destinations == ["_INBOX.me", queue]

    asyncio.run(run())


def test_the_event_loop_runs_on_while_a_get_waits(backend: Backend) -> None:
    queue = backend.queue(1)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with taking(backend, queue=queue) as it:
            await eventually(lambda: it.intake.client.connected)
            slowest = 0.0
            for _ in range(50):
                began = loop.time()
                await asyncio.sleep(0.01)
                slowest = max(slowest, loop.time() - began)
            assert slowest < 0.3

    asyncio.run(run())


def _bad(failure: IsthmusError) -> Callable[[Entry], IsthmusError | None]:
    return lambda entry: failure if entry.message.value == b"bad" else None

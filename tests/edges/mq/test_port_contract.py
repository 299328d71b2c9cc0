"""What the port promises, on every queue manager that there is.

What an application may try is in `isthmus.testing.mq_contract`, which users run too; here is that, and what
takes an administrator or a misfortune.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from tests.support.mq.backends import Backend, StandIn

from isthmus.edges.mq import reasons
from isthmus.edges.mq.descriptor import Mqmd, MqMessage, Property, PropertyType
from isthmus.edges.mq.port import Connection, QueueTarget
from isthmus.edges.mq.reasons import Outcome, outcome_of
from isthmus.errors import HardFailure, MqError
from isthmus.testing.mq_contract import CHECKS, Check, Site, name_of, run
from isthmus.testing.mq_contract.site import drain, put, reason_of
from isthmus.testing.queue_manager import MemoryQueueManager

Connect = Callable[[], Connection]


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_a_queue_manager_passes_the_check(backend: Backend, check: Check) -> None:
    site = Site(backend.queue_manager, backend.queue(1), backend.model_queue(), backend.topic)
    try:
        check(site)
    finally:
        site.close()


def test_the_checks_leave_the_queue_empty_and_all_are_told_of() -> None:
    manager = MemoryQueueManager()
    site = Site(manager, manager.define_queue("Q").name, manager.define_queue("M", model=True).name)
    results = list(run(site))
    assert {each.state for each in results} == {"ok"}
    assert [each.name for each in results] == [name_of(each) for each in CHECKS]
    assert manager.depth("Q") == 0


def test_a_queue_with_messages_is_not_emptied() -> None:
    manager = MemoryQueueManager()
    site = Site(manager, manager.define_queue("Q").name)
    put(manager.connect(), "Q", b"somebody's")
    with pytest.raises(HardFailure, match="the queue Q has messages"):
        next(run(site))
    assert manager.depth("Q") == 1


def test_a_check_that_may_not_be_tried_is_not_a_broken_one() -> None:
    manager = MemoryQueueManager()
    model = manager.define_queue("M", model=True, denied={"get"}).name
    site = Site(manager, manager.define_queue("Q").name, model)
    states = {each.name: each.state for each in run(site)}
    assert states.pop("of a model queue a queue is made") == "not tried"
    assert states.pop("more queues than stay open can be put to") == "not tried"
    assert set(states.values()) == {"ok"}


class Forgetful(MemoryQueueManager):
    """Takes every priority for the same."""

    def _complete(self, *arguments: Any) -> Mqmd:
        return replace(super()._complete(*arguments), Priority=0)


def test_a_queue_manager_that_is_otherwise_is_told_of_with_what_was_found() -> None:
    manager = Forgetful()
    site = Site(manager, manager.define_queue("Q").name, manager.define_queue("M", model=True).name)
    broken = {each.name: each.said for each in run(site) if each.state == "broken"}
    assert broken["a message comes back with its body descriptor and properties"] == (
        "Priority: found 0, expected 4"
    )
    assert "a higher priority goes first and equals keep their order" in broken


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

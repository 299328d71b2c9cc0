"""One process at a time holds a bridge's lock, and a crash gives it back."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.polling import eventually
from tests.support.processes import owner

from isthmus.embedded.kafka import EmbeddedKafka
from isthmus.errors import AlreadyRunning, HardFailure
from isthmus.kafka.lock import BridgeLock
from isthmus.kafka.options import Kafka

HOLDER = """
import sys, time
from isthmus.errors import AlreadyRunning
from isthmus.kafka.lock import BridgeLock
from isthmus.kafka.options import Kafka

lock = BridgeLock(Kafka(sys.argv[1]), sys.argv[2], holder="the first one")
lock.request()
lock.acquire()
print("held", flush=True)
while True:
    time.sleep(0.1)
    try:
        lock.poll()
    except AlreadyRunning as failure:
        print(failure.holder, flush=True)
        break
"""


@pytest.fixture
def bridge_id() -> str:
    return f"b{uuid.uuid4().hex[:8]}"


@contextmanager
def requested(servers: str, bridge_id: str, holder: str) -> Iterator[BridgeLock]:
    lock = BridgeLock(Kafka(servers), bridge_id, holder=holder)
    lock.request()
    try:
        yield lock
    finally:
        lock.release()


def test_a_second_bridge_is_refused_and_told_who_is_first(kafka_servers: str, bridge_id: str) -> None:
    with requested(kafka_servers, bridge_id, "process 1 on a") as first:
        first.acquire()
        for _ in range(2):
            with (
                requested(kafka_servers, bridge_id, "process 2 on b") as second,
                pytest.raises(AlreadyRunning, match=bridge_id) as refused,
            ):
                second.acquire()
            assert (refused.value.holder, refused.value.setting) == ("process 1 on a", "bridge.id")
            assert "bridge.id of its own" in refused.value.remedy
            first.poll()


def test_a_bridge_of_another_id_is_not_concerned(kafka_servers: str, bridge_id: str) -> None:
    with (
        requested(kafka_servers, bridge_id, "1") as first,
        requested(kafka_servers, f"{bridge_id}-2", "2") as other,
    ):
        first.acquire()
        other.acquire()


def test_a_lock_that_is_released_is_free(kafka_servers: str, bridge_id: str) -> None:
    for number in range(3):
        with requested(kafka_servers, bridge_id, str(number)) as lock:
            lock.acquire()


def test_a_lock_can_be_released_before_it_is_held_and_requested_again(
    kafka_servers: str, bridge_id: str
) -> None:
    lock = BridgeLock(Kafka(kafka_servers), bridge_id, holder="1")
    lock.request()
    lock.release()
    lock.request()
    lock.acquire()
    lock.release()
    with requested(kafka_servers, bridge_id, "2") as following:
        following.acquire()


def test_of_several_that_start_at_once_one_has_it(kafka_servers: str, bridge_id: str) -> None:
    locks = [BridgeLock(Kafka(kafka_servers), bridge_id, holder=str(number)) for number in range(4)]
    for lock in locks:
        lock.request()
    held = []
    for number, lock in enumerate(locks):
        try:
            lock.acquire()
        except AlreadyRunning:
            continue
        held.append(number)
    try:
        assert len(held) == 1
        locks[held[0]].poll()
    finally:
        for lock in locks:
            lock.release()


def test_after_kill_9_the_lock_is_free(kafka_servers: str, bridge_id: str) -> None:
    with owner(HOLDER, kafka_servers, bridge_id) as (process, said):
        assert said == "held"
        process.kill()
        process.wait()
        with requested(kafka_servers, bridge_id, "the next") as lock:
            lock.acquire()  # Kafka misses the first one first


def test_a_holder_that_was_missed_hears_that_another_has_the_lock(kafka_servers: str, bridge_id: str) -> None:
    with owner(HOLDER, kafka_servers, bridge_id) as (process, said):
        assert said == "held"
        process.send_signal(signal.SIGSTOP)
        with requested(kafka_servers, bridge_id, "the second one") as lock:
            lock.acquire()
            process.send_signal(signal.SIGCONT)
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "the second one"
            lock.poll()


def test_the_lock_outlives_a_restart_of_kafka(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path) as kafka, requested(kafka.bootstrap_servers, "b", "1") as first:
        first.acquire()
        kafka.stop()
        kafka.start()

        def refused() -> bool:
            with requested(kafka.bootstrap_servers, "b", "2") as second:
                try:
                    second.acquire()
                except AlreadyRunning as failure:
                    return failure.holder == "1"
            return False

        eventually(refused)
        first.poll()


def test_who_may_not_use_the_group_is_told_so(tmp_path: Path) -> None:
    overrides = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:nobody",
        "allow.everyone.if.no.acl.found": "true",
    }
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    from isthmus.kafka.blocking import admin_client

    with EmbeddedKafka(tmp_path, overrides=overrides) as kafka:
        forbidden = AclBinding(
            ResourceType.GROUP,
            "isthmus.b.lock",
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation.READ,
            AclPermissionType.DENY,
        )
        admin = admin_client(Kafka(kafka.bootstrap_servers))
        for future in admin.create_acls([forbidden]).values():
            future.result()
        with (
            requested(kafka.bootstrap_servers, "b", "1") as lock,
            pytest.raises(HardFailure, match="GROUP_AUTHORIZATION_FAILED") as failure,
        ):
            lock.acquire()
        assert "read the consumer group isthmus.b.lock" in failure.value.remedy

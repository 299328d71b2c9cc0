from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.polling import eventually
from tests.support.processes import children_of, is_running, owner

from isthmus.embedded.kafka import MAX_MESSAGE_BYTES, EmbeddedKafka, find_running
from isthmus.errors import HardFailure
from isthmus.kafka.options import Kafka

OWNER = """
import sys, time
from pathlib import Path
from isthmus.embedded.kafka import EmbeddedKafka
kafka = EmbeddedKafka(Path(sys.argv[1]))
kafka.start()
print(kafka.bootstrap_servers, flush=True)
time.sleep(600)
"""

# A broker that was killed is taken for alive until its session ends.
SHORT_SESSION = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "250"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def data_dir(kafka: EmbeddedKafka) -> Path:
    return kafka._folder


def create_topic(kafka: EmbeddedKafka, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)


def produce(kafka: EmbeddedKafka, topic: str, value: bytes) -> KafkaError | None:
    outcome: list[KafkaError | None] = []
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "acks": "all", "log_level": 0}
    producer = Producer({**settings, "message.max.bytes": MAX_MESSAGE_BYTES + 1024})
    producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error))
    producer.flush(20)
    return outcome[0]


def consume(kafka: EmbeddedKafka, topic: str) -> bytes | None:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": f"readers of {topic}",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(1, timeout=60)
        return messages[0].value() if messages else None
    finally:
        consumer.close()


def guard_of(data_dir: Path, owner_pid: int) -> int:
    [guard] = [
        pid for pid in children_of(owner_pid) if Path(f"/proc/{pid}/cwd").resolve() == data_dir.resolve()
    ]
    return guard


def test_a_message_of_the_maximum_size_comes_back(kafka: EmbeddedKafka) -> None:
    create_topic(kafka, "large")
    value = os.urandom(MAX_MESSAGE_BYTES)
    assert produce(kafka, "large", value) is None
    assert consume(kafka, "large") == value


def test_asking_for_a_topic_does_not_create_it(kafka: EmbeddedKafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    asked = admin.list_topics("unheard-of", timeout=60).topics["unheard-of"]
    assert asked.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert "unheard-of" not in admin.list_topics(timeout=60).topics


def test_the_log_is_in_the_data_folder(kafka: EmbeddedKafka, data_dir: Path) -> None:
    assert "Kafka version: 4.3.0" in (data_dir / "kafka.log").read_text()


def test_another_process_finds_the_broker(kafka: EmbeddedKafka, data_dir: Path) -> None:
    code = (
        "import sys, pathlib, isthmus.embedded.kafka as k\n"
        "print(k.find_running(pathlib.Path(sys.argv[1])).servers)"
    )
    run = subprocess.run([sys.executable, "-c", code, data_dir], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == kafka.bootstrap_servers


def test_a_second_start_in_the_same_folder_is_refused(kafka: EmbeddedKafka, data_dir: Path) -> None:
    with pytest.raises(
        HardFailure, match=f"already runs in {data_dir}: {kafka.bootstrap_servers}"
    ) as failure:
        EmbeddedKafka(data_dir).start()
    assert "choose another folder" in failure.value.remedy
    assert kafka.alive


def test_a_restart_keeps_topics_and_port(tmp_path: Path) -> None:
    kafka = EmbeddedKafka(tmp_path)
    kafka.start()
    create_topic(kafka, "kept")
    assert produce(kafka, "kept", b"value") is None
    address = kafka.bootstrap_servers
    kafka.stop()
    kafka.stop()
    assert not kafka.alive
    assert find_running(tmp_path) is None
    kafka.start()
    assert kafka.bootstrap_servers == address
    assert consume(kafka, "kept") == b"value"
    kafka.stop()


def test_a_further_broker_joins_the_cluster_of_another(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path, overrides={"node.id": "2"}, joins=kafka) as further:
        assert further.cluster_id == kafka.cluster_id
        for each in (kafka, further):
            admin = AdminClient({"bootstrap.servers": each.bootstrap_servers, "log_level": 0})
            eventually(lambda admin=admin: set(admin.list_topics(timeout=60).brokers) == {1, 2})  # type: ignore[misc]


def test_a_port_that_somebody_else_took_is_replaced(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        taken = f"127.0.0.1:{somebody.getsockname()[1]}"
        (tmp_path / "server.properties").write_text(
            f"listeners=PLAINTEXT://{taken},CONTROLLER://127.0.0.1:1\n"
        )
        with EmbeddedKafka(tmp_path) as kafka:
            assert kafka.bootstrap_servers != taken
            assert find_running(tmp_path) == kafka.cluster


def test_a_killed_owner_takes_guard_and_broker_along(tmp_path: Path) -> None:
    with owner(OWNER, tmp_path) as (process, address):
        assert find_running(tmp_path) == Kafka(address)
        guard = guard_of(tmp_path, process.pid)
        [broker] = children_of(guard)
        process.kill()
        process.wait()
        eventually(lambda: not is_running(guard) and not is_running(broker))
        assert find_running(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_broker_that_was_killed_starts_again(tmp_path: Path) -> None:
    kafka = EmbeddedKafka(tmp_path, overrides=SHORT_SESSION)
    kafka.start()
    create_topic(kafka, "kept")
    assert produce(kafka, "kept", b"value") is None
    guard = guard_of(tmp_path, os.getpid())
    [broker] = children_of(guard)
    os.kill(guard, signal.SIGKILL)
    eventually(lambda: not is_running(broker))
    assert not kafka.alive
    assert find_running(tmp_path) is None
    kafka.start()
    assert consume(kafka, "kept") == b"value"
    kafka.stop()


def test_a_broker_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    kafka = EmbeddedKafka(tmp_path, overrides={"metric.reporters": "no.such.Reporter"})
    with pytest.raises(HardFailure, match="ended with exit code 1") as failure:
        kafka.start()
    assert "no.such.Reporter" in str(failure.value)
    assert str(tmp_path / "kafka.log") in failure.value.remedy
    assert not kafka.alive


def test_java_gets_the_options_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Xmx300m '-XX:NoSuch=a b'")
    with pytest.raises(HardFailure, match="Unrecognized VM option 'NoSuch=a b'"):
        EmbeddedKafka(tmp_path).start()


def test_settings_that_kafka_refuses_are_a_hard_failure(tmp_path: Path) -> None:
    kafka = EmbeddedKafka(tmp_path, overrides={"log.retention.ms": "soon"})
    with pytest.raises(HardFailure, match=r"log\.retention\.ms"):
        kafka.start()
    with EmbeddedKafka(tmp_path) as corrected:
        assert corrected.alive


def test_the_address_is_not_known_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        print(EmbeddedKafka(tmp_path).bootstrap_servers)

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from tests.support.files import permissions
from tests.support.processes import is_running

from isthmus.embedded import jars
from isthmus.embedded.java import java_command
from isthmus.embedded.kafka import EmbeddedKafka, find_running
from isthmus.kafka.blocking import admin_client, create_topics, topic_names
from isthmus.kafka.options import Kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka"), secured=True) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def folder(kafka: EmbeddedKafka) -> Path:
    return kafka._folder


def answered(kafka: Kafka, timeout_s: float = 60) -> bool:
    try:
        admin_client(kafka).list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


def test_nobody_gets_in_without_the_password(kafka: EmbeddedKafka) -> None:
    assert answered(kafka.cluster)
    assert not answered(Kafka(kafka.bootstrap_servers), 3)
    wrong = re.sub('password="[^"]*"', 'password="x"', kafka.cluster.options["sasl.jaas.config"])
    intruder = Kafka(kafka.bootstrap_servers, {**kafka.cluster.options, "sasl.jaas.config": wrong})
    assert not answered(intruder, 3)


def test_the_controller_asks_for_a_password_too(folder: Path) -> None:
    settings = (folder / "server.properties").read_text()
    assert "CONTROLLER\\:SASL_PLAINTEXT" in settings
    assert "PLAINTEXT\\:PLAINTEXT" not in settings


def test_all_that_is_in_the_folder_is_its_owners(folder: Path) -> None:
    found = permissions(folder)
    assert len(found) > 10
    assert [each for each, mode in found.items() if mode & 0o077] == []


def test_the_password_is_not_on_a_command_line(kafka: EmbeddedKafka) -> None:
    password = kafka.cluster.python_options()["sasl.password"]
    for pid in Path("/proc").glob("[0-9]*"):
        if is_running(int(pid.name)):
            assert password.encode() not in _command_line(pid)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_the_owners_processes_find_the_password(kafka: EmbeddedKafka, folder: Path) -> None:
    found = find_running(folder)
    assert found is not None
    assert found.options == kafka.cluster.options
    assert answered(found)


def test_kafkas_own_tools_take_the_file(kafka: EmbeddedKafka, folder: Path) -> None:
    create_topics(kafka.cluster, ["orders"], 1)
    asking = ["--describe", "--entity-type", "topics", "--entity-name", "orders"]
    tool = ["kafka.admin.ConfigCommand", "--bootstrap-server", kafka.bootstrap_servers, *asking]
    classpath = ":".join(map(str, jars.files("broker")))
    done = subprocess.run(
        [java_command(), "-cp", classpath, *tool, "--command-config", folder / "client.properties"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "configs for topic orders" in done.stdout, done.stderr


def test_clients_go_on_with_the_same_password_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path, secured=True) as kafka:
        first = kafka.cluster
        create_topics(first, ["kept"], 1)
    with EmbeddedKafka(tmp_path, secured=True) as again:
        assert again.cluster == first
        assert "kept" in topic_names(first)


def test_the_data_of_a_kafka_without_a_password_can_be_secured(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path) as kafka:
        create_topics(kafka.cluster, ["kept"], 1)
    with EmbeddedKafka(tmp_path, secured=True) as secured:
        assert "kept" in topic_names(secured.cluster)
        assert not answered(Kafka(secured.bootstrap_servers), 3)

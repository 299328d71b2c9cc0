"""The example with connectors, run as a user runs it, and the way there from an old configuration."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.aio.msg import Msg
from tests.support.commands import Running, isthmus
from tests.support.polling import eventually

import nats
from isthmus import BridgeMessage
from isthmus.embedded.nats import key_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "connectors.properties"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("connectors"), EXAMPLE) as running:
        running.wait_until_ready()
        yield running


def published_and_seen(running: Running, subject: str, payload: bytes, seen_on: str, **headers: str) -> Msg:
    found = re.search(r"nats (nats://\S+)", running.printed())
    assert found
    key = str(key_file(running.folder / ".isthmus" / "nats"))

    async def scenario() -> Msg:
        client = await nats.connect(found[1], nkeys_seed=key)
        try:
            subscription = await client.subscribe(seen_on)
            await client.flush()
            await client.publish(subject, payload, headers=headers or None)
            return await subscription.next_msg(60)
        finally:
            await client.close()

    return asyncio.run(scenario())


def test_an_order_goes_through_mq_and_back_to_nats(example: Running) -> None:
    order = BridgeMessage(b"one of those")
    order.set_property("amount", 42)
    seen = BridgeMessage.decode(published_and_seen(example, "orders", order.encode(), "shipping").data)
    assert seen.body == b"one of those"
    assert seen.get_int64_property("amount") == 42
    assert seen.header.put_date  # set by the queue manager


def test_an_alarm_is_published_again_with_its_headers(example: Running) -> None:
    seen = published_and_seen(example, "events.fire", b"hot", "alarms", severity="4", room="7")
    assert seen.data == b"hot"
    assert (seen.headers or {})["room"] == "7"


def test_what_is_no_bridge_message_is_a_dead_letter_of_its_connector(example: Running) -> None:
    published_and_seen(example, "orders", b"poison", "orders")

    eventually(lambda: example.bodies("connectors-dead-letters"), timeout_s=60)
    received = isthmus("receive", "-t", "connectors-dead-letters", "--json", EXAMPLE, folder=example.folder)
    letter = json.loads(received.stdout)
    headers = dict(letter["headers"])  # type: ignore[call-overload]
    assert letter["value"] == "poison"
    assert (headers["isthmus.error.code"], headers["isthmus.error.route"]) == ("malformed", "orders")
    assert (headers["isthmus.destination"], headers["jmsbridge.origin"]) == ("ORDERS", "connectors")
    assert headers["isthmus.id"].startswith("isthmus.connectors.journal:")
    assert "excludeheaders=true" in headers["isthmus.error.message"]


def test_the_monitor_tells_of_every_connector(example: Running) -> None:
    status, text = example.monitor("/varz")
    assert status == 200
    document = json.loads(text)
    assert {each["name"] for each in document["connectors"]} == {"orders", "shipping", "quotes"}
    assert {each["name"] for each in document["intakes"]} == {"events", "replies"}
    assert {each["name"] for each in document["routes"]} == {"alarms"}
    eventually(lambda: example.monitor("/healthz")[0] == 200, what=example.printed)


def test_it_says_what_stands_in_for_mq_and_stops_in_good_order(example: Running) -> None:
    assert "in-memory queue manager MEMORY: stands in for IBM MQ" in example.printed()
    assert example.stop() == 0
    assert example.printed().endswith("stopping\nstopped\n")


OLD = """
nats: { Servers: ["nats://localhost:4222"] }
connect: [
  { type: Queue2NATS, id: "out", queue: "DEV.QUEUE.1", subject: "one"
    mq: { ConnectionName: "localhost(1414)", ChannelName: "DEV.APP.SVRCONN", QueueManager: "QM1" } }
]
"""


def test_an_old_configuration_becomes_one_that_passes_the_check(tmp_path: Path) -> None:
    (tmp_path / "old.conf").write_text(OLD)
    made = isthmus("import", "nats-mq", "old.conf", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    (tmp_path / "new.properties").write_text(made.stdout)
    checked = isthmus("check", "--show", "new.properties", folder=tmp_path)
    assert checked.returncode == 0, checked.stdout
    assert "connectors.out.type=Queue2NATS" in checked.stdout
    assert "new.properties: ok" in checked.stdout


def test_an_old_configuration_that_cannot_be_right_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "old.conf").write_text("connect: [ { type: Queue2NATS } ]")
    done = isthmus("import", "nats-mq", "old.conf", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: old.conf: ")


def test_the_doctor_says_what_is_there_and_what_was_not_tried(tmp_path: Path) -> None:
    done = isthmus("doctor", EXAMPLE, folder=tmp_path)
    assert done.returncode == 0, done.stdout
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    tried = {"state.dir", "monitor.port", "java", "kafka", "nats", "mq"}
    assert lines.keys() == {"isthmus", "pyspark", "confluent-kafka", "nats-py", "scramp", "codecs"} | tried
    assert "mq.client=memory: in-memory queue manager MEMORY: stands in for IBM MQ" in done.stdout
    assert "no real queue manager has been tried" in done.stdout
    assert "nats-server" in lines["nats"]


def test_the_doctor_finds_that_ibms_library_is_missing(tmp_path: Path) -> None:
    (tmp_path / "b.properties").write_text("mq.library=/nowhere/libmqm_r.so\nmq.intake.q.queue=Q")
    done = isthmus("doctor", "b.properties", folder=tmp_path)
    assert done.returncode == 1
    assert re.search(r"^mq +missing ", done.stdout, re.MULTILINE)


def test_the_doctor_finds_that_a_broker_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "b.properties").write_text(
        "amqp.connect.main.url=amqp://bridge:s3cret@127.0.0.1:1\namqp.connect.main.intake.addresses=q"
    )
    done = isthmus("doctor", "b.properties", folder=tmp_path)
    assert done.returncode == 1
    assert re.search(
        r"^amqp +missing +main: amqp://127.0.0.1:1 cannot be reached: ", done.stdout, re.MULTILINE
    )
    assert "s3cret" not in done.stdout + done.stderr


def test_the_doctor_finds_that_kafka_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "b.properties").write_text("kafka.bootstrap.servers=127.0.0.1:1")
    done = isthmus("doctor", "b.properties", folder=tmp_path)
    assert done.returncode == 1
    assert "Kafka at '127.0.0.1:1' does not answer" in done.stdout

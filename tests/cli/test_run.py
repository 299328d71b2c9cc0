"""A bridge as its user sees it: started, sent to, looked at, stopped, started again."""

from __future__ import annotations

import base64
import json
import re
import signal
import urllib.request
from pathlib import Path

from tests.support.commands import QUICKSTART, Running, isthmus
from tests.support.files import permissions
from tests.support.kafka.topics import produce
from tests.support.polling import PATIENCE_S, eventually

from isthmus.embedded.kafka import find_running
from isthmus.journal.layout import Record
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.lock import BridgeLock
from isthmus.kafka.options import Kafka


def _monitor(bridge: Running) -> str:
    found = re.search(r"monitor (http://\S+)", bridge.printed())
    assert found
    return found[1]


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def _received(bridge: Running, topic: str) -> list[dict[str, object]]:
    done = isthmus("receive", "--topic", topic, "--json", QUICKSTART, folder=bridge.folder)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_message_that_is_sent_arrives_with_key_headers_and_types(bridge: Running) -> None:
    sent = isthmus(
        *("send", "--address", "orders", "-H", "JMSCorrelationID=c-7", "-H", "region=EU"),
        *("-p", "amount:int=42", "--body", "grüß dich", QUICKSTART),
        folder=bridge.folder,
    )
    assert sent.returncode == 0, sent.stderr
    place = sent.stdout.strip()
    assert re.fullmatch(r"isthmus\.quickstart\.journal:\d:\d+", place)

    eventually(lambda: "grüß dich".encode() in bridge.bodies("orders-eu"), timeout_s=60)
    [record] = _received(bridge, "orders-eu")
    assert ["isthmus.id", place] in record["headers"]
    assert (record["key"], record["value"]) == ("c-7", "grüß dich")
    headers = dict(record["headers"])  # type: ignore[call-overload]
    assert (headers["jms.amount"], headers["jms.CorrelationId"]) == ("42", "c-7")
    assert "amount=int;" in headers["jms.types"]
    assert headers["jmsbridge.origin"] == "quickstart"


def test_a_second_bridge_in_the_same_folder_is_refused(bridge: Running) -> None:
    for command in ("run", "pipeline"):
        second = isthmus(command, QUICKSTART, folder=bridge.folder)
        assert second.returncode == 3
        folder = bridge.folder / ".isthmus"
        assert f"already runs in state.dir {folder}: process {bridge.process.pid} on" in second.stderr
        assert "give this bridge a state.dir of its own" in second.stderr


def test_a_second_bridge_of_the_same_id_on_the_same_kafka_is_refused(
    kafka_servers: str, tmp_path: Path
) -> None:
    file = tmp_path / "second.properties"
    file.write_text(f"bridge.id=twice\nkafka.bootstrap.servers={kafka_servers}\n")
    first = BridgeLock(Kafka(kafka_servers), "twice", holder="process 1 on another machine")
    first.request()
    try:
        first.acquire()
        second = isthmus("pipeline", file, folder=tmp_path)
        assert second.returncode == 3
        assert "another bridge with bridge.id=twice runs on this Kafka: process 1 on another machine" in (
            second.stderr
        )
        assert "give this bridge a bridge.id of its own" in second.stderr
        first.poll()
    finally:
        first.release()


def test_receive_shows_records_readably(bridge: Running) -> None:
    isthmus(
        "send",
        "-a",
        "orders",
        "-p",
        "n:long=5",
        "--lines",
        QUICKSTART,
        folder=bridge.folder,
        given=b"one\ntwo\n",
    )
    eventually(lambda: len(bridge.bodies("orders-other")) >= 2, timeout_s=60)
    shown = isthmus(
        "receive", "--topic", "orders-other", "--count", "1", QUICKSTART, folder=bridge.folder
    ).stdout
    assert re.search(r"^orders-other:\d:0  key ID:", shown)
    assert re.search(r"jms\.n 5  long", shown)


def test_the_journal_can_be_read_and_filtered(bridge: Running) -> None:
    for amount in (1, 1000):
        isthmus(
            "send",
            "-a",
            "ledger",
            "-p",
            f"amount:int={amount}",
            "-b",
            str(amount),
            QUICKSTART,
            folder=bridge.folder,
        )
    where = "msg.address==ledger && msg.header.amount>10"
    done = isthmus("journal", "--where", where, "--json", QUICKSTART, folder=bridge.folder)
    assert [json.loads(line)["body"] for line in done.stdout.splitlines()] == ["1000"]
    wrong = isthmus("journal", "--where", "msg.adress==x", QUICKSTART, folder=bridge.folder)
    assert wrong.returncode == 1
    assert "^" in wrong.stderr


def test_what_is_live_in_the_journal_can_be_told_from_what_is_deleted(bridge: Running) -> None:
    def live() -> list[str]:
        done = isthmus(
            "journal", "--live", "--where", "msg.address==live", "--json", QUICKSTART, folder=bridge.folder
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["body"] for line in done.stdout.splitlines()]

    sent = [
        isthmus(
            "send",
            "-a",
            "live",
            "-H",
            f"JMSMessageID=ID:{body}",
            "-b",
            body,
            QUICKSTART,
            folder=bridge.folder,
        )
        for body in ("kept", "deleted")
    ]
    assert sorted(live()) == ["deleted", "kept"]
    topic, partition, _ = sent[1].stdout.strip().split(":")
    kafka = find_running(bridge.folder / ".isthmus" / "kafka")
    assert kafka
    produce(kafka, topic, Record(b"ID:deleted", None, []), partition=int(partition))
    assert live() == ["kept"]
    refused = isthmus("journal", "--live", "--follow", QUICKSTART, folder=bridge.folder)
    assert (refused.returncode, "--live" in refused.stderr) == (2, True)


def test_binary_bodies_and_files_survive(bridge: Running, tmp_path: Path) -> None:
    content = bytes(range(256)) * 40
    (tmp_path / "body").write_bytes(content)
    isthmus("send", "-a", "orders/binary", "--file", tmp_path / "body", QUICKSTART, folder=bridge.folder)

    eventually(lambda: content in bridge.bodies("orders-other"), timeout_s=60)
    encoded = {"base64": base64.b64encode(content).decode()}
    assert encoded in [each["value"] for each in _received(bridge, "orders-other")]


def test_the_monitor_tells_metrics_and_health(bridge: Running) -> None:
    monitor = _monitor(bridge)
    metrics = _get(f"{monitor}/metrics")
    for name in ("latency_avg_seconds", "success_rate_total", "failure_rate_total"):
        assert f'isthmus_routing_{name}{{bridge="quickstart"}}' in metrics
        assert f'isthmus_route_{name}{{bridge="quickstart",route="eu-orders"}}' in metrics
    eventually(lambda: bridge.monitor("/healthz")[0] == 200, what=lambda: bridge.monitor("/healthz")[1])
    assert json.loads(_get(f"{monitor}/healthz")) == {"status": "up", "problems": {}}
    assert "eu-orders" in _get(f"{monitor}/varz")


def test_all_that_a_bridge_writes_is_its_owners(bridge: Running) -> None:
    state = bridge.folder / ".isthmus"
    eventually((state / "checkpoints").exists, timeout_s=60)
    found = permissions(state)
    assert {"checkpoints", "kafka", "logs"} <= {each.name for each in found}
    assert [each for each, mode in found.items() if mode & 0o077] == []


def test_without_a_bridge_the_error_says_what_to_do(tmp_path: Path) -> None:
    done = isthmus("send", "-a", "orders", "-b", "x", QUICKSTART, folder=tmp_path)
    assert done.returncode == 3
    assert "no embedded Kafka is running" in done.stderr
    assert "isthmus run" in done.stderr


def test_wrong_usage_is_exit_code_2(tmp_path: Path) -> None:
    done = isthmus("send", "-a", "orders", "-p", "n:int=many", "-b", "x", QUICKSTART, folder=tmp_path)
    assert done.returncode == 2
    assert "'many' is not of the type int" in done.stderr.replace("\n", " ")


def test_a_bridge_finds_topics_that_come_later_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    config = tmp_path / "b.properties"
    config.write_text(
        "bridge.id=again\namqp.enabled=false\nmessage.convert=default\nrouting.on-error=skip\n"
        "routes.r.predicate=msg.address==a\nroutes.r.dest.topic=out\n"
        "routes.s.predicate=msg.address==b\nroutes.s.dest.topic=out\nroutes.s.conv.key=msg.header.k\n"
        "routes.s.on-error=stop\n"
    )

    def send(address: str, body: str) -> None:
        sent = isthmus("send", "-a", address, "-b", body, config, folder=tmp_path)
        assert sent.returncode == 0, sent.stderr

    first = Running(tmp_path, config)
    try:
        first.wait_until_ready()
        kafka = find_running(tmp_path / ".isthmus" / "kafka")
        assert kafka
        create_topics(kafka, ["late.topic"], 1)
        for address, body in [("never", "lost"), ("late/topic", "one"), ("late/topic", "two")]:
            send(address, body)
        eventually(lambda: set(first.bodies("late.topic")) == {b"one", b"two"}, timeout_s=90)
        send("a", "three")
        assert first.stop() == 0, first.printed()
        assert first.printed().rstrip().endswith("stopped")
        assert find_running(tmp_path / ".isthmus" / "kafka") is None
    finally:
        first.process.kill()

    second = Running(tmp_path, config)
    try:
        second.wait_until_ready()
        eventually(lambda: set(second.bodies("out")) == {b"three"}, timeout_s=60)
        # A message without its key stops the bridge where the policy says so, with what to do about it.
        send("b", "four")
        assert second.process.wait(PATIENCE_S) == 3
        assert "cannot be routed by route s: no header k (key)" in second.printed()
        assert "what to do: set routes.s.on-error" in second.printed()
    finally:
        second.process.send_signal(signal.SIGKILL)
        second.process.wait()

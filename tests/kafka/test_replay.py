"""Dead letters in a real Kafka: replayed once, whatever happens, or dropped, or quarantined."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from tests.support.commands import isthmus
from tests.support.kafka.topics import produce
from tests.support.names import unique
from tests.support.polling import PATIENCE_S, eventually

from isthmus.config import Settings, load
from isthmus.config.judgement.routing_plan import routing_plan
from isthmus.edges.dead_letters import EdgeDeadLetters
from isthmus.edges.outbox import outbound_message
from isthmus.errors import HardFailure, RefusedFailure
from isthmus.journal import layout, replay_order
from isthmus.journal.dead_letter import history_of, replays_of
from isthmus.journal.layout import AddressTopic, Entry, Op, Record
from isthmus.journal.replay import Replayer, read_dead_letters
from isthmus.journal.replay_order import in_order
from isthmus.journal.replay_plan import Planner, State, Step
from isthmus.kafka.blocking import admin_client, create_topics, describe, read_topic
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics
from isthmus.kafka.received import record_of
from isthmus.message import Body, BodyKind, Header, Message
from isthmus.monitor.dead_letters import Chosen
from isthmus.monitor.dead_letters import replay as replay_by_page
from isthmus.routing.decide import decide


class Bridge:
    """A bridge that does not run: its topics, and dead letters as its router makes them."""

    def __init__(self, servers: str, folder: Path, *more: str) -> None:
        self.kafka = Kafka(servers)
        self.folder = folder
        self.id = unique("b")
        self.dead = f"{self.id}-dead"
        self.queue = f"{self.id}-queue"
        self.source = f"{self.id}-in"
        self.file = folder / "bridge.properties"
        self.configure(*more)
        make_own_topics(self.settings, self.kafka)
        create_topics(self.kafka, [self.dead, self.queue, self.source], 2)

    def configure(self, *more: str) -> None:
        lines = (
            f"bridge.id={self.id}",
            f"kafka.bootstrap.servers={self.kafka.servers}",
            "routing.on-error=dead-letter",
            f"routing.dead-letter.topic={self.dead}",
            f"routing.source.topics={self.source}",
            "routes.eu.predicate=msg.header.region==EU",
            f"routes.eu.dest.topic={self.queue}",
            "routes.eu.conv.key=msg.header.CustomerId",
            *more,
        )
        self.file.write_text("\n".join(lines))
        self.settings: Settings = load(self.file, {})

    def fail(self, *messages: Message | Record, topic: str | None = None) -> None:
        """Dead-letter them, as the router does."""
        plan = routing_plan(self.settings)
        letters = []
        for offset, each in enumerate(messages):
            record = each if isinstance(each, Record) else layout.encode(Entry(Op.ADD, each))
            (decision, *_) = decide(plan, topic or plan.journal_topic, 0, offset, record, now_ms=0)
            assert decision.record is not None
            assert decision.topic == self.dead, decision
            letters.append(decision.record)
        produce(self.kafka, self.dead, *letters)

    def refuse(self, arrived: Record, topic: str | None = None, *, known: Settings | None = None) -> None:
        """Dead-letter what the router makes of it for an outbox, as an edge does that has these settings."""
        topic = topic or self.settings.journal.topic
        offset = len(self.records(topic))
        produce(self.kafka, topic, arrived, partition=0)
        decisions = decide(routing_plan(self.settings), topic, 0, offset, arrived, now_ms=0)
        (made,) = (each for each in decisions if each.route is not None and each.route.destination)
        assert made.record is not None and made.topic is not None, made  # noqa: PT018

        async def keep(outbox: str, record: Record) -> None:
            edge = EdgeDeadLetters(known or self.settings, self.kafka)
            try:
                await edge.outbound(outbox, outbound_message(record, "outbox:0:0"), RefusedFailure("m"))
            finally:
                await edge.close()

        asyncio.run(keep(made.topic, made.record))

    def command(self, *arguments: object) -> str:
        done = isthmus("dead-letter", arguments[0], self.file, *arguments[1:], folder=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def records(self, topic: str) -> list[Record]:
        return [record_of(message) for message in read_topic(self.kafka, topic)]

    def journal(self) -> list[Record]:
        return self.records(self.settings.journal.topic)


def order(number: int = 0, **headers: str) -> Message:
    """One that the route takes, and that has no key for it."""
    return Message(
        id=f"ID:{number}",
        address="orders",
        protocol="amqp",
        value=b"hello",
        body=Body(BodyKind.TEXT),
        headers={"region": Header("EU")} | {name: Header(text) for name, text in headers.items()},
        session=f"s{number % 7}",
    )


NATS = (
    "nats.servers=nats://127.0.0.1:4222",
    "routes.nats.predicate=msg.header.region==NATS",
    "routes.nats.dest.subject=subject",
)


@pytest.fixture
def bridge(kafka_servers: str, tmp_path: Path) -> Bridge:
    return Bridge(kafka_servers, tmp_path)


def test_a_replay_goes_through_the_journal_with_its_history_and_only_once(bridge: Bridge) -> None:
    bridge.fail(order(1), order(2, color="red"))
    assert "2 replayed, 0 quarantined, 0 left" in bridge.command("replay")
    assert "0 replayed, 0 quarantined, 0 left" in bridge.command("replay")
    replayed = {record.key: record for record in bridge.journal()}
    assert len(bridge.journal()) == 2
    record = replayed[b"ID:2"]
    assert layout.decode(record).message == order(2, color="red")
    assert replays_of(record) == 1
    (past,) = map(json.loads, history_of(record))
    assert (past["code"], past["route"]) == ("key", "eu")
    assert past["dead_letter"].startswith(f"{bridge.dead}:")
    assert "isthmus.error.code" not in dict(record.headers)
    assert "0 dead letters" in bridge.command("list")
    assert bridge.command("list", "--all").count("(replayed)") == 2


def test_a_replay_that_is_killed_goes_on_where_it_was(bridge: Bridge) -> None:
    count = 6_000
    bridge.fail(*map(order, range(count)))
    command = [sys.executable, "-m", "isthmus", "dead-letter", "replay", str(bridge.file), "--batch", "10"]
    notes = bridge.settings.replays_topic
    killed = []
    for stage in (1, 2):
        before = len(bridge.records(notes)) if stage > 1 else 0
        process = subprocess.Popen(command, cwd=bridge.folder, env={**os.environ}, stdout=subprocess.DEVNULL)
        try:
            eventually(lambda: notes in describe(bridge.kafka, [notes]))
            eventually(lambda before=before: len(bridge.records(notes)) > before + 50)  # type: ignore[misc]
        finally:
            process.kill()
            process.wait()
        killed.append(len(bridge.records(notes)))
    assert 0 < killed[0] < killed[1] < count
    bridge.command("replay", "--batch", "1000")
    found = Counter(record.key for record in bridge.journal())
    assert len(found) == count
    assert set(found.values()) == {1}


def test_two_replays_at_a_time_publish_once(bridge: Bridge) -> None:
    bridge.fail(order(1))
    planner = Planner(bridge.settings, bridge.kafka, limit=3)
    older = Replayer(bridge.settings, bridge.kafka)
    younger = Replayer(bridge.settings, bridge.kafka)
    (dead,) = read_dead_letters(bridge.kafka, bridge.dead)
    step = planner.step(dead, 0)
    assert younger.write([step], lambda _: None)[State.REPLAYED] == 1
    with pytest.raises(HardFailure, match="another replay"):
        older.write([step], lambda _: None)
    assert len(bridge.journal()) == 1


def test_what_failed_as_often_as_it_may_goes_to_the_quarantine(bridge: Bridge) -> None:
    bridge.fail(order(1))
    bridge.command("replay")
    for _ in range(2):  # the router dead-letters it again
        (*_, last) = bridge.journal()
        bridge.fail(last)
        bridge.command("replay", "--max-replays", "2")
    assert len(bridge.journal()) == 2
    (kept,) = bridge.records(f"{bridge.dead}.quarantine")
    assert replays_of(kept) == 2
    assert len(history_of(kept)) == 2
    assert dict(kept.headers)["isthmus.error.code"] == b"key"
    assert "1 dead letter in" in bridge.command("list", "--quarantine")
    assert "1 replayed" in bridge.command("replay", "--quarantine")
    assert replays_of(bridge.journal()[-1]) == 3


def test_what_the_topic_held_before_it_was_made_anew_hides_nothing(bridge: Bridge) -> None:
    bridge.fail(order(1))
    (dead,) = read_dead_letters(bridge.kafka, bridge.dead)
    replayer = Replayer(bridge.settings, bridge.kafka)
    older = replace(dead, timestamp_ms=dead.timestamp_ms - 1)
    replayer.write([Step(older, State.DROPPED)], lambda _: None)
    assert "1 dead letter in" in bridge.command("list")


def test_filters_and_dry_runs(bridge: Bridge) -> None:
    bridge.fail(order(1), order(2), Record(b"k", b"v", [("x", b"y")]))
    assert bridge.command("list", "--code", "key").count("  key  orders  no header CustomerId") == 2
    assert "1 dead letter in" in bridge.command("list", "--code", "malformed")
    assert "2 dead letters in" in bridge.command("list", "--route", "eu")
    assert "0 dead letters in" in bridge.command("list", "--until", "1h")
    assert "3 dead letters in" in bridge.command("list", "--since", "1h")
    lines = [json.loads(line) for line in bridge.command("list", "--json", "--route", "eu").splitlines()]
    assert {line["id"] for line in lines} == {f"{bridge.settings.journal.topic}:0:{n}" for n in (0, 1)}
    position = lines[0]["position"].partition(":")[2]
    said = bridge.command("replay", "--dry-run")
    assert "2 would be replayed, 0 would be quarantined, 1 would be left" in said
    assert "it fails again: no header CustomerId" in said
    assert "it is not laid out as a record of the journal" in said
    assert "2 would be dropped" in bridge.command("drop", "--route", "eu", "--dry-run")
    assert "1 dropped" in bridge.command("drop", "--position", position)
    assert "1 replayed, 0 quarantined, 1 left" in bridge.command("replay")
    assert len(bridge.journal()) == 1


def test_one_is_shown_in_full(bridge: Bridge) -> None:
    bridge.fail(order(1, color="red"))
    (line,) = bridge.command("list", "--json").splitlines()
    position = json.loads(line)["position"]
    shown = bridge.command("show", "--position", position)
    assert "no header CustomerId" in shown
    assert "jms.color red" in shown
    assert "hello" in shown
    made = json.loads(bridge.command("show", "--position", position, "--json"))
    assert (made["value"], made["history"], made["state"]) == ("hello", [], None)


def test_what_no_receiver_took_goes_back_to_its_topic(bridge: Bridge) -> None:
    own = [("jms.a", b"1"), ("jmsbridge.origin", bridge.id.encode()), ("isthmus.id", b"j:0:0")]
    marks = [("isthmus.id", f"{bridge.queue}:1:4".encode()), ("jmsbridge.origin", bridge.id.encode())]
    report = [("isthmus.error.code", b"redelivery"), ("isthmus.error.message", b"m")]
    headers = [*own, *marks, *report, ("isthmus.error.route", b"")]
    produce(bridge.kafka, bridge.dead, Record(b"k", b"v", headers))
    assert "1 replayed" in bridge.command("replay")
    (back,) = read_topic(bridge.kafka, bridge.queue)
    record = record_of(back)
    assert (back.partition(), record.key, record.value) == (1, b"k", b"v")
    assert list(record.headers[:3]) == own
    assert replays_of(record) == 1
    assert bridge.journal() == []


def test_what_another_system_did_not_take_is_routed_again_as_it_arrived(
    kafka_servers: str, tmp_path: Path
) -> None:
    bridge = Bridge(kafka_servers, tmp_path, *NATS)
    bridge.refuse(layout.encode(Entry(Op.ADD, order(1, region="NATS", color="red"))))
    assert "1 replayed" in bridge.command("replay")
    arrived, again = sorted(bridge.journal(), key=replays_of)
    assert layout.decode(again).message == layout.decode(arrived).message
    (past,) = map(json.loads, history_of(again))
    assert (past["route"], past["code"]) == ("nats", "refused")


def test_what_another_system_did_not_take_of_a_source_topic_is_replayed_as_it_arrived(
    kafka_servers: str, tmp_path: Path
) -> None:
    bridge = Bridge(kafka_servers, tmp_path, *NATS, "routes.nats.conv.key=msg.header.region")
    arrived = Record(b"k", b"v", [("region", b"NATS"), ("color", b"red")])
    bridge.refuse(arrived, bridge.source)
    assert "1 replayed" in bridge.command("replay")
    (again,) = bridge.journal()
    message = layout.decode(again).message
    assert (again.key, message.address, message.value) == (b"k", bridge.source, b"v")
    assert {name: message.headers[name].text for name in ("region", "color")} == {
        "region": "NATS",
        "color": "red",
    }


def test_what_another_system_did_not_take_is_left_once_its_message_is_gone(
    kafka_servers: str, tmp_path: Path
) -> None:
    bridge = Bridge(kafka_servers, tmp_path, *NATS)
    bridge.refuse(layout.encode(Entry(Op.ADD, order(1, region="NATS"))))
    first = TopicPartition(bridge.settings.journal.topic, 0, 1)
    admin = admin_client(bridge.kafka)  # held until the answer is there: it ends with it
    admin.delete_records([first])[first].result(PATIENCE_S)
    assert "is no longer there" in bridge.command("replay")
    assert bridge.journal() == []


def test_what_the_router_did_not_convert_for_another_system_is_in_its_dead_letter(
    kafka_servers: str, tmp_path: Path
) -> None:
    bridge = Bridge(kafka_servers, tmp_path, *NATS, "routes.nats.conv.key=msg.header.CustomerId")
    bridge.fail(Record(b"k", b"v", [("region", b"NATS")]), topic=bridge.source)
    bridge.configure(*NATS)
    assert "1 replayed" in bridge.command("replay")  # the source topic has nothing
    (again,) = bridge.journal()
    assert layout.decode(again).message.value == b"v"


def test_a_jms_destination_gets_no_second_copy_of_what_another_system_did_not_take(
    kafka_servers: str, tmp_path: Path
) -> None:
    bridge = Bridge(kafka_servers, tmp_path, *NATS, "amqp.port=0")
    address = f"{bridge.id}-orders"
    create_topics(bridge.kafka, [address], 1)
    sent = replace(order(1, region="NATS"), address=address)
    arrived = layout.encode(Entry(Op.ADD, sent, topic=AddressTopic(address, 1, 1_000_000, True)))
    without = bridge.settings.replace(routes=())
    bridge.refuse(arrived, known=without)  # its route is gone when the edge dead-letters it
    bridge.configure("amqp.port=0", "message.convert=jms")
    said = bridge.command("replay")  # the direct route leads to nothing but the destination
    assert "left: no route takes it any more, and its JMS destination had a copy of its own" in said
    bridge.configure(*NATS, "amqp.port=0")
    bridge.command("replay")
    (again,) = (each for each in bridge.journal() if replays_of(each))
    assert layout.decode(again).topic is None


def test_a_record_of_a_source_topic_is_replayed_as_a_message_of_its_address(bridge: Bridge) -> None:
    bridge.fail(Record(None, b"v", [("region", b"EU")]), topic=bridge.source)
    assert "1 replayed" in bridge.command("replay")
    (again,) = bridge.journal()
    message = layout.decode(again).message
    assert (message.address, message.protocol, message.value) == (bridge.source, "kafka", b"v")
    assert message.headers["region"].text == "EU"
    assert again.key == f"{bridge.source}:0:0".encode()


def test_what_would_be_lost_or_stop_the_bridge_is_left(bridge: Bridge) -> None:
    bridge.fail(order(1), order(2, Expiration="1000"))
    said = bridge.command("replay", "--dry-run")
    assert "its time is over" in said
    bridge.configure("routes.eu.on-error=stop")
    assert "left: it would stop the bridge: no header CustomerId" in bridge.command("replay")
    bridge.file.write_text(bridge.file.read_text().replace("==EU", "==US"))
    assert "left: no route takes it" in bridge.command("replay")
    assert bridge.journal() == []


def test_what_its_route_would_skip_is_left(bridge: Bridge) -> None:
    bridge.fail(order(1))
    bridge.configure("routes.eu.on-error=skip")
    said = bridge.command("replay")
    assert "left: it fails again, and would be skipped: no header CustomerId" in said
    assert "0 replayed, 0 quarantined, 1 left" in said
    assert bridge.journal() == []
    bridge.configure()
    assert "1 replayed" in bridge.command("replay")


def test_what_no_receiver_took_is_not_routed_a_second_time(bridge: Bridge) -> None:
    def rejected(*headers: tuple[str, bytes]) -> Record:
        marks = [("isthmus.id", f"{bridge.source}:1:4".encode()), ("jmsbridge.origin", bridge.id.encode())]
        report = [("isthmus.error.code", b"refused"), ("isthmus.error.message", b"m")]
        return Record(b"k", b"v", [*headers, *marks, *report, ("isthmus.error.route", b"")])

    taken, passed_over = ("region", b"EU"), ("region", b"US")
    published = ("jmsbridge.origin", bridge.id.encode())
    produce(bridge.kafka, bridge.dead, rejected(taken), rejected(passed_over), rejected(taken, published))
    said = bridge.command("replay")
    assert f"{bridge.source} is a source topic, from which route eu would take it a second time" in said
    assert "2 replayed, 0 quarantined, 1 left" in said
    back = [list(record.headers[:2]) for record in bridge.records(bridge.source)]
    assert [headers[0] for headers in back] == [passed_over, taken]
    assert back[1][1] == published


def by_command(bridge: Bridge) -> None:
    bridge.command("replay", "--batch", "3")


def by_page(bridge: Bridge) -> None:
    (of_all,) = {
        (dead.route, dead.code, dead.reason) for dead in read_dead_letters(bridge.kafka, bridge.dead)
    }
    route, code, reason = of_all
    chosen = Chosen(route=route, code=code, reason=reason, until_ms=2**53, dry_run=False)
    replay_by_page(bridge.settings, bridge.kafka, chosen)


@pytest.mark.parametrize("replayed", [by_command, by_page])
def test_a_session_keeps_its_order_in_whichever_partitions_its_dead_letters_are(
    bridge: Bridge, replayed: Callable[[Bridge], None]
) -> None:
    count = 20
    sent = [replace(order(number), session="one") for number in range(count)]
    plan = routing_plan(bridge.settings)
    for offset, message in enumerate(sent):
        record = layout.encode(Entry(Op.ADD, message))
        (decision,) = decide(plan, plan.journal_topic, 0, offset, record, now_ms=0)
        assert decision.record is not None
        produce(bridge.kafka, bridge.dead, decision.record, partition=offset % 2)
    replayed(bridge)
    assert [layout.decode(record).message.id for record in bridge.journal()] == [each.id for each in sent]


def test_dead_letters_come_in_order_however_few_are_held_at_a_time(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = [("isthmus.error.code", b"key"), ("isthmus.error.message", b"m"), ("isthmus.error.route", b"r")]

    def letter(source: str, size: int = 1) -> Record:
        return Record(b"k", bytes(size), [("isthmus.id", source.encode()), *report])

    produce(bridge.kafka, bridge.dead, letter("j:0:7"), letter("j:1:2"), letter("j:0:1"), partition=0)
    produce(bridge.kafka, bridge.dead, letter("j:1:1", 9_000), letter("j:0:4"), letter("j:0:9"), partition=1)
    for most, most_bytes in ((1, 10**6), (2, 10**6), (4, 10**6), (6, 1_000), (6, 10**6)):
        monkeypatch.setattr(replay_order, "WINDOW", most)
        monkeypatch.setattr(replay_order, "WINDOW_BYTES", most_bytes)
        found = in_order(bridge.kafka, bridge.dead, read_dead_letters(bridge.kafka, bridge.dead))
        by_partition: dict[int, list[int]] = {0: [], 1: []}
        for dead in found:
            assert dead.source is not None
            by_partition[dead.source[1]].append(dead.source[2])
        assert by_partition == {0: [1, 4, 7, 9], 1: [1, 2]}, (most, most_bytes)


def test_what_failed_on_its_way_in_comes_by_its_time(bridge: Bridge) -> None:
    report: dict[str, str | bytes | None] = dict.fromkeys(
        ("isthmus.error.code", "isthmus.error.message"), "m"
    )
    report["isthmus.error.route"] = ""
    producer = Producer(bridge.kafka.python_options())
    now_ms = time.time_ns() // 1_000_000
    for after_ms in (2, 0, 3, 1):
        at_ms, partition = now_ms + after_ms, after_ms % 2
        producer.produce(bridge.dead, b"v", headers=report, partition=partition, timestamp=at_ms)
    assert producer.flush(60) == 0
    found = in_order(bridge.kafka, bridge.dead, read_dead_letters(bridge.kafka, bridge.dead))
    assert [dead.timestamp_ms - now_ms for dead in found] == [0, 1, 2, 3]


def test_a_jms_destination_does_not_get_its_copy_twice(kafka_servers: str, tmp_path: Path) -> None:
    bridge = Bridge(kafka_servers, tmp_path, "amqp.port=0")
    create_topics(bridge.kafka, [f"{bridge.id}-orders"], 1)
    topic = AddressTopic(f"{bridge.id}-orders", 1, 1_000_000, True)
    sent = replace(order(1), address=f"{bridge.id}-orders")
    record = layout.encode(Entry(Op.ADD, sent, topic=topic))
    bridge.fail(record)
    bridge.command("replay")
    (again,) = bridge.journal()
    assert layout.decode(again).topic is None
    # And the other way round: its route has it, its destination does not.
    whole = routing_plan(bridge.settings)
    keyed = layout.encode(
        Entry(Op.ADD, replace(sent, headers={**sent.headers, "CustomerId": Header("c")}), topic=topic)
    )
    report = [("isthmus.error.code", b"oversize"), ("isthmus.error.message", b"m")]
    marks = [("jmsbridge.origin", bridge.id.encode()), ("isthmus.id", f"{whole.journal_topic}:0:9".encode())]
    last = [("isthmus.error.route", b"isthmus.destinations")]
    produce(bridge.kafka, bridge.dead, keyed._replace(headers=[*keyed.headers, *marks, *report, *last]))
    assert "route eu takes it too, and would publish it again" in bridge.command("replay")
    assert len(bridge.journal()) == 1

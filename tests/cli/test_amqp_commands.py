"""``send --amqp``, ``receive --amqp`` and ``produce``: a message to Kafka and back, without a program."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import Running, isthmus
from tests.support.polling import eventually


@pytest.fixture
def url(bridge: Running) -> str:
    found = re.search(r"amqp (127\.0\.0\.1:\d+)", bridge.printed())
    assert found
    return f"amqp://{found[1]}"


def _json(*arguments: object, folder: Path) -> list[dict[str, Any]]:
    done = isthmus("receive", "--json", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _send(url: str, *arguments: object, folder: Path, given: bytes = b"") -> list[str]:
    done = isthmus("send", "--amqp", "--url", url, *arguments, folder=folder, given=given)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_message_sent_over_amqp_is_routed_with_its_typed_properties(bridge: Running, url: str) -> None:
    [id] = _send(
        url,
        *("-a", "orders", "-H", "JMSCorrelationID=c-7", "-H", "region=EU", "-p", "amount:int=42"),
        *("--body", "grüß dich"),
        folder=bridge.folder,
    )
    [record] = _json("--topic", "orders-eu", "--count", 1, "--follow", folder=bridge.folder)
    headers = dict(record["headers"])
    assert (record["key"], record["value"]) == ("c-7", "grüß dich")
    assert (headers["jms.MessageId"], headers["jms.amount"]) == (id, "42")
    assert headers["jms.x-opt-jms-dest"] == "queue"
    assert "amount=int;" in headers["jms.types"]


def test_a_queue_gives_each_message_once_in_order_as_it_was_sent(bridge: Running, url: str) -> None:
    _send(url, "-a", "queue://lines", "--lines", folder=bridge.folder, given=b"one\ntwo\nthree\n")
    binary = bytes(range(256))
    _send(url, "-a", "lines", folder=bridge.folder, given=binary)
    _send(url, "-a", "lines", "--bytes", "-b", "four", folder=bridge.folder)

    taken = ("--amqp", "--url", url, "-a", "lines", "--follow", "--count")
    first = _json(*taken, 2, folder=bridge.folder)
    rest = _json(*taken, 3, folder=bridge.folder)
    assert [each["value"] for each in first] == ["one", "two"]
    assert rest[0]["value"] == "three"
    assert rest[1]["value"] == {"base64": base64.b64encode(binary).decode()}
    assert [dict(each["headers"]).get("jms.x-opt-jms-msg-type") for each in rest] == [None, "bytes", "bytes"]


def test_a_topic_gives_what_is_sent_from_now_on(bridge: Running, url: str) -> None:
    _send(url, "-a", "topic://news", "-b", "old", folder=bridge.folder)
    with Running(
        bridge.folder,
        *("--amqp", "--url", url, "-a", "topic://news", "--count", 1, "--follow"),
        command="receive",
    ) as receiver:

        def told() -> bool:
            _send(url, "-a", "topic://news", "-b", "new", folder=bridge.folder)
            return receiver.process.poll() is not None

        eventually(told, what=receiver.printed)
        assert receiver.printed().startswith("news  id ID:")
        assert receiver.printed().rstrip().endswith("new")
        assert "jms.x-opt-jms-dest topic" in receiver.printed()


def test_a_record_that_is_produced_reaches_a_jms_consumer(bridge: Running, url: str) -> None:
    produced = isthmus(
        *("produce", "--topic", "answers", "--key", "customer-7", "-H", "jms.CorrelationId=c-7"),
        *("-H", "trace=abc", "-p", "status:int=200", "--value", "on its way"),
        folder=bridge.folder,
    )
    assert (produced.returncode, produced.stdout) == (0, "answers:0:0\n"), produced.stderr
    [record] = _json("--topic", "answers", folder=bridge.folder)
    assert (record["key"], record["value"]) == ("customer-7", "on its way")
    assert ["trace", "abc"] in record["headers"]

    shown = isthmus(
        *("receive", "--amqp", "--url", url, "-a", "answers", "--count", 1, "--follow"), folder=bridge.folder
    )
    assert shown.returncode == 0, shown.stderr
    lines = [line.strip() for line in shown.stdout.splitlines()]
    assert lines[0] == "answers"
    assert {"jms.CorrelationId c-7", "jms.status 200  int", "jms.JMS_kafka_key customer-7"} <= set(lines)
    assert lines[-1] == "on its way"


def test_records_can_be_produced_line_by_line_and_without_a_value(bridge: Running) -> None:
    folder = bridge.folder
    isthmus("produce", "--topic", "compacted", "-k", "a", "--lines", folder=folder, given=b"1\n2\n")
    isthmus("produce", "--topic", "compacted", "-k", "a", "--tombstone", folder=folder)
    assert [each["value"] for each in _json("--topic", "compacted", folder=folder)] == ["1", "2", None]


def test_an_empty_topic_and_a_silent_queue_say_so_and_how_to_wait(bridge: Running, url: str) -> None:
    empty = isthmus("receive", "--topic", "orders-large", folder=bridge.folder)
    assert (empty.returncode, empty.stdout) == (0, "")
    assert empty.stderr == "orders-large is empty. Add --follow to wait for what comes.\n"
    silent = isthmus(
        "receive", "--amqp", "--url", url, "-a", "silent", "--timeout", 0.2, folder=bridge.folder
    )
    assert (silent.returncode, silent.stdout) == (0, "")
    assert silent.stderr.startswith("nothing came from silent within 0.2 s. Add --follow")


def test_what_is_refused_is_said_once(bridge: Running, url: str) -> None:
    for command in (("send", "-b", "x"), ("receive",)):
        done = isthmus(
            *command, "--amqp", "--url", url, "-a", "isthmus.quickstart.journal", folder=bridge.folder
        )
        assert done.returncode == 3
        assert done.stderr.count("amqp:unauthorized-access") == 1, done.stderr
    own = isthmus("produce", "--topic", "isthmus.quickstart.journal", "-v", "x", folder=bridge.folder)
    assert own.returncode == 1
    wrong = isthmus("produce", "--topic", "no/name", "-v", "x", folder=bridge.folder)
    assert (wrong.returncode, "no topic can have the name" in wrong.stderr) == (1, True)


def test_where_nobody_listens_the_error_says_where_and_what_to_do(tmp_path: Path) -> None:
    done = isthmus("send", "--amqp", "--url", "amqp://127.0.0.1:1", "-a", "x", "-b", "x", folder=tmp_path)
    assert done.returncode == 3
    assert "error: amqp://127.0.0.1:1 cannot be used: Connection refused\n" in done.stderr
    assert "isthmus run" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("send", "-a", "x", "-b", "x", "--url", "amqp://127.0.0.1"),
        ("send", "-a", "x", "-b", "x", "--bytes"),
        ("send", "-a", "x", "-b", "x", "--amqp", "--session", "s"),
        ("receive", "--amqp", "--topic", "x"),
        ("receive", "--amqp"),
        ("receive", "--address", "x"),
        ("receive",),
        ("produce", "--topic", "x", "--tombstone", "--value", "x"),
        ("produce", "--topic", "x", "-H", "nothing", "--value", "x"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert isthmus(*arguments, folder=tmp_path).returncode == 2

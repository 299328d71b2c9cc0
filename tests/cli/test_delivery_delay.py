"""Delivery delay, from Qpid JMS to Qpid JMS through a bridge that runs as a user runs it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.commands import Running
from tests.support.jms.qpid import JmsShell, QpidJms

PATIENCE_MS = 100_000
CONFIGURATION = """
bridge.id=later
amqp.port=0
routing.on-error=skip
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bridge") / "bridge.properties"
    file.write_text(CONFIGURATION)
    return file


@pytest.fixture
def bridge(file: Path) -> Iterator[Running]:
    with Running(file.parent, file) as running:
        running.wait_until_ready()
        yield running


def connect(qpid: QpidJms, bridge: Running) -> JmsShell:
    found = re.search(r"amqp 127\.0\.0\.1:(\d+)", bridge.printed())
    assert found, bridge.printed()
    jms = JmsShell(qpid, f"amqp://127.0.0.1:{found[1]}")
    jms.do("connect", "c")
    jms.do("session", "s", "c", "auto")
    jms.do("session", "t", "c", "transacted")
    return jms


def test_no_message_is_received_before_its_time(qpid: QpidJms, bridge: Running) -> None:
    with connect(qpid, bridge) as jms:
        jms.do("queue", "q", "s", "delayed")
        jms.do("topic", "t1", "s", "delayed-topic")
        jms.do("consumer", "all", "s", "q")
        jms.do("consumer", "sub", "s", "t1")
        jms.do("send", "s", "q", "first")
        assert jms.receive("all", 1, PATIENCE_MS) == ["first"]
        sent_s = time.time()
        jms.do("send", "s", "q", "later", "delay=5000")
        jms.do("send", "s", "t1", "on the topic", "delay=5000")
        jms.do("send", "t", "q", "in a transaction", "delay=9000")
        jms.do("commit", "t")
        jms.do("send", "t", "q", "never", "delay=1")
        jms.do("rollback", "t")
        jms.do("send", "s", "q", "at once")
        assert jms.receive("all", 1, PATIENCE_MS) == ["at once"]
        due_s = {"later": 5, "in a transaction": 9}
        while due_s:  # on a busy machine both may be overdue, and then come in any order
            (text,) = jms.receive("all", 1, PATIENCE_MS)
            assert time.time() >= sent_s + due_s.pop(text)
        assert jms.receive("sub", 1, PATIENCE_MS) == ["on the topic"]
        assert time.time() >= sent_s + 5
        assert jms.nothing("all")
        jms.do("send", "s", "q", "over a restart", "delay=20000")
    assert bridge.stop() == 0, bridge.printed()


def test_a_restart_changes_nothing(qpid: QpidJms, bridge: Running) -> None:
    with connect(qpid, bridge) as jms:
        jms.do("queue", "q", "s", "delayed")
        jms.do("consumer", "all", "s", "q")
        assert jms.receive("all", 1, PATIENCE_MS) == ["over a restart"]
        assert jms.nothing("all")

"""Delivery delay, from Qpid JMS to Qpid JMS through a bridge that runs as a user runs it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.commands import Running
from tests.support.jms.qpid import JmsShell, QpidJms

PATIENCE_MS = 240_000
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


def arrived(due_s: float, record: Callable[[str, object], None], what: str) -> None:
    """Note how late something is, which on a busy machine says nothing; early it must not be."""
    late_ms = round(1000 * (time.time() - due_s))
    record(f"{what}: late by ms", late_ms)
    print(f"{what}: late by {late_ms} ms")
    assert late_ms >= 0


def test_no_message_is_received_before_its_time(
    qpid: QpidJms, bridge: Running, file: Path, record_property: Callable[[str, object], None]
) -> None:
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
        due_s = {"at once": 0, "later": 5, "in a transaction": 9}
        while due_s:  # on a busy machine all may be overdue, and then come in any order
            (text,) = jms.receive("all", 1, PATIENCE_MS)
            arrived(sent_s + due_s.pop(text), record_property, text)
        assert jms.receive("sub", 1, PATIENCE_MS) == ["on the topic"]
        arrived(sent_s + 5, record_property, "on the topic")
        assert jms.nothing("all")
        for n in range(3):  # the ledger's first batches take longer
            due = time.time() + 4
            jms.do("send", "s", "q", f"later {n}", "delay=4000")
            assert jms.receive("all", 1, PATIENCE_MS) == [f"later {n}"]
            arrived(due, record_property, f"later {n}")
        for after in (20, 60):
            (file.parent / f"due-{after}").write_text(str(time.time() + after))
            jms.do("send", "s", "q", f"over a restart {after}", f"delay={after}000")
    assert bridge.stop() == 0, bridge.printed()


def test_a_restart_changes_nothing(
    qpid: QpidJms, bridge: Running, file: Path, record_property: Callable[[str, object], None]
) -> None:
    with connect(qpid, bridge) as jms:
        jms.do("queue", "q", "s", "delayed")
        jms.do("consumer", "all", "s", "q")
        for after in (20, 60):
            assert jms.receive("all", 1, PATIENCE_MS) == [f"over a restart {after}"]
            arrived(float((file.parent / f"due-{after}").read_text()), record_property, f"after {after} s")
        assert jms.nothing("all")

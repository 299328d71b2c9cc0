"""The Artemis that other tests and a benchmark talk to."""

from __future__ import annotations

from pathlib import Path

from tests.support.jms.qpid import QpidJms

from isthmus.testing.artemis import Artemis


def test_what_was_sent_is_received_after_a_restart_at_the_same_port(tmp_path: Path, qpid: QpidJms) -> None:
    with Artemis(tmp_path) as artemis:
        url = artemis.url
        assert qpid.run(url, "sync", "orders", 3)[-1] == "done"
        artemis.stop()
        assert not artemis.alive
        artemis.start()
        assert artemis.url == url
        lines = qpid.run(url, "queue", "orders", 3, program="Receives")
    assert lines == ["ready", "message 0", "message 1", "message 2", "done"]

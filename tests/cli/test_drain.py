"""A server that is told to stop while clients are connected finishes what they sent, and tells them."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tests.support.amqp.wire import Wire, message
from tests.support.commands import Running
from tests.support.polling import PATIENCE_S

from isthmus.edges.amqp.protocol import Closed
from isthmus.edges.amqp.protocol.terms import Accepted

CONFIGURATION = """
bridge.id=drained
kafka.bootstrap.servers={kafka}
amqp.host=127.0.0.1
amqp.port=0
amqp.auto-create=true
message.convert=default
"""


def test_sigterm_accepts_what_was_sent_and_says_goodbye(kafka_servers: str, tmp_path: Path) -> None:
    file = tmp_path / "bridge.properties"
    file.write_text(CONFIGURATION.format(kafka=kafka_servers))
    bridge = Running(tmp_path, file, command="edge")
    try:
        bridge.wait_until_ready()
        found = re.search(r"amqp 127\.0\.0\.1:(\d+)", bridge.printed())
        assert found, bridge.printed()
        with Wire(int(found[1])) as wire, Wire(int(found[1])) as idle:
            idle.open()
            link = wire.open().sender("orders")
            sent = [link.send(b"%d" % number, message(str(number))) for number in range(300)]
            wire.wait(lambda: any(each.settled for each in sent))  # the server has begun to read them
            bridge.process.send_signal(signal.SIGTERM)
            for connection in (wire, idle):
                closed = connection.until(Closed)
                assert closed.error is not None
                assert closed.error.condition == "amqp:connection:forced"
            assert [delivery.state for delivery in sent] == [Accepted()] * 300
        assert bridge.process.wait(PATIENCE_S) == 0, bridge.printed()
    finally:
        bridge.process.kill()
        bridge.process.wait()

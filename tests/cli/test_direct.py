"""The direct route in a running bridge: topics that come and topics that never do."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Running, isthmus
from tests.polling import eventually

from isthmus.embedded.kafka import find_running
from isthmus.kafka import Kafka, create_topics

CONFIGURATION = """
bridge.id=direct
message.convert=default
routing.on-error=skip
"""


def test_a_topic_that_comes_later_is_found_and_one_that_never_does_follows_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "direct.properties"
    file.write_text(CONFIGURATION)
    bridge = Running(tmp_path, file)
    try:
        bridge.wait_until_ready()
        servers = find_running(tmp_path / ".isthmus" / "kafka")
        assert servers is not None
        create_topics(Kafka(servers), ["late.topic"], 1)
        for address, body in [("never", "lost"), ("late/topic", "one"), ("late/topic", "two")]:
            sent = isthmus("send", "--address", address, "--body", body, file, folder=tmp_path)
            assert sent.returncode == 0, sent.stderr

        def bodies() -> set[object]:
            done = isthmus("receive", "--topic", "late.topic", "--json", file, folder=tmp_path)
            return {json.loads(line)["value"] for line in done.stdout.splitlines()}

        eventually(lambda: bodies() == {"one", "two"}, timeout_s=90)
        assert bridge.process.poll() is None, bridge.printed()
        assert bridge.stop() == 0
    finally:
        bridge.process.kill()
        bridge.process.wait()

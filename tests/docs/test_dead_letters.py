"""What the page on dead letters shows is what the commands print, on a real Kafka."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.support.commands import ROOT, isthmus
from tests.support.kafka.topics import produce

from isthmus.config import load
from isthmus.config.judgement.routing_plan import routing_plan
from isthmus.kafka.blocking import create_topics
from isthmus.kafka.options import Kafka
from isthmus.kafka.own_topics import make_own_topics
from isthmus.message import Header
from isthmus.routing.decide import decide
from isthmus.routing.explain import sample

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
CONFIG = """bridge.id=shop
kafka.bootstrap.servers={servers}
routing.on-error=dead-letter
routing.dead-letter.topic=shop-dead-letters
routes.eu.predicate=msg.address==orders
routes.eu.dest.topic=orders-eu
"""
KEY = "routes.eu.conv.key=msg.header.CustomerId\n"


def test_the_page_shows_what_the_commands_print(kafka_servers: str, tmp_path: Path) -> None:
    kafka, file = Kafka(kafka_servers), tmp_path / "bridge.properties"
    config = CONFIG.format(servers=kafka_servers)
    file.write_text(config + KEY)
    (tmp_path / "fixed.properties").write_text(config)
    settings = load(file, {})
    make_own_topics(settings, kafka)
    create_topics(kafka, ["shop-dead-letters", "orders-eu"], 2)
    plan = routing_plan(settings)
    for number in (0, 1):
        headers = {"MessageId": Header(f"ID:{number + 1}"), "region": Header("EU")}
        record = sample("orders", headers, b"hello", json=False, session="docs")
        (decision,) = decide(plan, plan.journal_topic, 0, number, record, now_ms=0)
        assert decision.record is not None
        produce(kafka, "shop-dead-letters", decision.record, partition=number)
    page = (ROOT / "docs" / "dead-letters.md").read_text(encoding="utf-8")
    (console,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    for command, shown in re.findall(r"^\$ isthmus (.*)\n((?:(?!\$ ).*\n?)*)", console, re.MULTILINE):
        done = isthmus(*shlex.split(command), folder=tmp_path)
        printed, expected = (re.sub(TIME, "TIME", text) for text in (done.stdout, shown))
        lines = sorted(line.rstrip() for line in printed.splitlines())  # partitions come in any order
        assert lines == sorted(expected.splitlines()), (command, done.stderr)

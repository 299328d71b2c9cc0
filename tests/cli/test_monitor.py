"""``isthmus monitor``: the page alone, on a Kafka that runs already."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

from tests.support.commands import Running, isthmus
from tests.support.monitor import watched
from tests.support.names import unique
from tests.support.polling import eventually
from tests.support.shop import Shop

from isthmus.monitor.server import Monitor
from isthmus.telemetry.parts import Flow, PartReport


def test_the_page_of_a_bridge_tells_who_is_connected_and_what_waits_in_queues(
    bridge: Running, tmp_path: Path
) -> None:
    found = re.search(r"amqp (127\.0\.0\.1:\d+)", bridge.printed())
    assert found
    url = ("--amqp", "--url", f"amqp://{found[1]}")
    sent = isthmus("send", *url, "-a", "queue://shelf", "--body", "hello", folder=bridge.folder)
    assert sent.returncode == 0, sent.stderr
    receiver = ("--amqp", *url[1:], "-a", "queue://shelf", "--follow")
    with Running(tmp_path, *receiver, command="receive") as receiving:

        def told() -> bool:
            clients = json.loads(bridge.monitor("/api/clients")[1])
            links = [link for client in clients["clients"] for link in client["links"]]
            return {"kind": "queue", "name": "shelf", "receivers": 1, "depth": 0} in clients["queues"] and [
                (each["address"], each["direction"], each["deliveries"]) for each in links
            ] == [("shelf", "out", 1)]

        eventually(told, what=lambda: bridge.monitor("/api/clients")[1] + receiving.printed())


def test_it_reads_its_file_again_when_that_changes_or_somebody_asks(
    kafka_servers: str, tmp_path: Path
) -> None:
    shop = Shop(kafka_servers, tmp_path, name=unique("reread"))
    shop.fill(10)
    configured = shop.file.read_text()

    def routes() -> list[str]:
        return [each["name"] for each in json.loads(running.monitor("/varz")[1])["router"]["routes"]]

    with Running(
        tmp_path, shop.file, "--watch", command="monitor", environ={"ISTHMUS_LOG_LEVEL": "warning"}
    ) as running:
        running.wait_until_ready()
        assert routes() == ["eu", "rest", "invoices"]
        more = f"routes.more.predicate=msg.address==more\nroutes.more.dest.topic={shop.name}-orders-eu\n"
        shop.file.write_text(configured + more)
        eventually(lambda: routes() == ["eu", "rest", "invoices", "more"], what=running.printed)
        shop.file.write_text(configured + "bridge.id=another\n")
        eventually(lambda: "needs a restart: bridge.id" in running.printed(), what=running.printed)
        assert routes() == ["eu", "rest", "invoices", "more"]
        running.process.send_signal(signal.SIGHUP)
        eventually(lambda: running.printed().count("needs a restart") == 2, what=running.printed)
        assert running.stop() == 0


def test_it_counts_what_is_published_and_shows_parts_of_other_processes(
    kafka_servers: str, tmp_path: Path
) -> None:
    shop = Shop(kafka_servers, tmp_path, name=unique("beside"))
    shop.fill(10)
    part = PartReport(name="prices", kind="intake", system="nats", connected=False, taken=Flow(7, 70))
    with (
        Monitor("127.0.0.1", 0, watched(health=lambda: {"nats": "gone"}, parts=lambda: [part])) as edge,
        Running(
            tmp_path, tmp_path / f"{shop.name}.properties", "--beside", edge.url, command="monitor"
        ) as running,
    ):
        running.wait_until_ready()
        shop.fill(40)

        def seen() -> bool:
            document = json.loads(running.monitor("/varz")[1])
            published = {each["name"]: each["published"] for each in document["router"]["routes"]}
            counted = published["eu"] > 0 and published["rest"] > 0 and document["router"]["records"] == 50
            return counted and bool(document["intakes"])

        eventually(seen, what=running.printed)
        document = json.loads(running.monitor("/varz")[1])
        assert (document["intakes"][0]["name"], document["intakes"][0]["messages_in"]) == ("prices", 7)
        assert document["router"]["records"] == 50

        def told() -> bool:
            status, health = running.monitor("/healthz")
            return (status, json.loads(health)["problems"]) == (503, {"nats": "gone"})

        eventually(told, what=running.printed)
        assert running.stop() == 0
        assert "Traceback" not in running.printed()

"""The monitor over real HTTP, on this machine."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from http.client import HTTPConnection
from threading import Event as Flag
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.support.monitor import watched
from tests.support.polling import eventually

from isthmus.config import Settings
from isthmus.errors import HardFailure
from isthmus.kafka.options import Kafka
from isthmus.monitor.guard import KEY_HEADER
from isthmus.monitor.inspector import Topics
from isthmus.monitor.server import Monitor
from isthmus.routing.counts import BatchCounts, RouteCounts
from isthmus.routing.plan import Outcome
from isthmus.telemetry.events import Event
from isthmus.telemetry.metrics import RouterMetrics

ROUTE = "<orders & co>"


class Answer(NamedTuple):
    status: int
    kind: str
    body: str


class Bridge:
    """A monitor, and the health that it reports."""

    def __init__(self) -> None:
        self.wrong: dict[str, str] = {}
        metrics = RouterMetrics("b", {ROUTE: "t"})
        metrics.add(BatchCounts([RouteCounts(3, 1)], {Outcome.PUBLISHED: 3, Outcome.SKIPPED: 1}))
        metrics.told(Event(position="j:0:0", outcome="published", route=ROUTE, age_ms=20, routing_ns=50_000))
        self.monitor = Monitor("127.0.0.1", 0, watched(metrics, lambda: self.wrong))

    def get(self, path: str, method: str = "GET") -> Answer:
        with closing(HTTPConnection(urlsplit(self.monitor.url).netloc, timeout=5)) as connection:
            connection.request(method, path)
            response = connection.getresponse()
            return Answer(response.status, response.headers["Content-Type"], response.read().decode())


@pytest.fixture(scope="module")
def running() -> Iterator[Bridge]:
    bridge = Bridge()
    with bridge.monitor:
        yield bridge


@pytest.fixture
def bridge(running: Bridge) -> Bridge:
    running.wrong = {}
    return running


def test_prometheus_finds_the_metrics(bridge: Bridge) -> None:
    status, kind, body = bridge.get("/metrics")
    assert status == 200
    assert kind.startswith("text/plain")
    assert 'isthmus_routing_success_rate_total{bridge="b"} 3.0' in body.splitlines()
    assert 'isthmus_routing_failure_rate_total{bridge="b"} 1.0' in body.splitlines()


def test_a_healthy_bridge_is_up(bridge: Bridge) -> None:
    status, kind, body = bridge.get("/healthz")
    assert (status, kind) == (200, "application/json")
    assert json.loads(body) == {"status": "up", "problems": {}}


def test_health_tells_the_truth_when_a_part_is_down(bridge: Bridge) -> None:
    bridge.wrong = {"router": "the router has stopped"}
    status, _, body = bridge.get("/healthz")
    assert status == 503
    assert json.loads(body) == {"status": "down", "problems": {"router": "the router has stopped"}}


def test_the_page_brings_all_that_it_needs(bridge: Bridge) -> None:
    status, kind, body = bridge.get("/")
    assert status == 200
    assert kind.startswith("text/html")
    used = re.findall(r'(?:href|src)="([^"#]+)"', body)
    assert used
    for each in used:
        assert bridge.get(f"/{each}").status == 200


def test_no_script_or_style_can_come_from_elsewhere(bridge: Bridge) -> None:
    with closing(HTTPConnection(urlsplit(bridge.monitor.url).netloc, timeout=5)) as connection:
        connection.request("GET", "/")
        headers = connection.getresponse().headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"], policy["connect-src"]) == ("'self'",) * 3
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


def test_varz_is_the_bridge_at_a_glance(bridge: Bridge) -> None:
    status, kind, body = bridge.get("/varz")
    assert (status, kind) == (200, "application/json")
    [route] = json.loads(body)["router"]["routes"]
    assert (route["name"], route["published"], route["failed"], route["age_ms"]) == (ROUTE, 3, 1, 20)


def test_a_query_makes_no_difference(bridge: Bridge) -> None:
    assert bridge.get("/healthz?verbose=1").status == 200


@pytest.mark.parametrize(
    "path", ["/nothing", "/metrics/", "/healthz/x", "/favicon.ico", "/static/nothing", "/static/../app.py"]
)
def test_there_is_nothing_else(bridge: Bridge, path: str) -> None:
    assert bridge.get(path).status == 404


def test_nothing_can_be_posted(bridge: Bridge) -> None:
    assert bridge.get("/metrics", "POST").status == 403


def test_an_origin_that_is_no_url_is_not_this_page(bridge: Bridge) -> None:
    with closing(HTTPConnection(urlsplit(bridge.monitor.url).netloc, timeout=5)) as connection:
        connection.request("POST", "/metrics", headers={"Origin": "http://["})
        assert connection.getresponse().status == 403


def test_a_port_that_is_taken_is_a_hard_failure() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        with pytest.raises(HardFailure, match=f"cannot listen on 127.0.0.1:{port}") as caught:
            Monitor("127.0.0.1", port, watched())
    assert "monitor.port" in caught.value.remedy


def test_an_address_of_another_machine_is_a_hard_failure() -> None:
    with pytest.raises(HardFailure, match=r"cannot listen on 192\.0\.2\.1:0"):
        Monitor("192.0.2.1", 0, watched())


def test_a_closed_monitor_answers_no_more() -> None:
    bridge = Bridge()
    assert bridge.get("/healthz").status == 200
    bridge.monitor.close()
    with pytest.raises(ConnectionRefusedError):
        bridge.get("/healthz")


TOKEN = "a token of some length"


def ask(monitor: Monitor, **headers: str) -> int:
    with closing(HTTPConnection(urlsplit(monitor.url).netloc, timeout=5)) as connection:
        connection.request("GET", "/healthz", headers=headers)
        return connection.getresponse().status


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9464", "127.0.0.1", "127.0.0.1:1", "[::1]:80"])
def test_it_answers_to_its_own_name(bridge: Bridge, host: str) -> None:
    assert ask(bridge.monitor, Host=host) == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:9464", "127.0.0.1.evil", "", ":80"])
def test_a_page_of_the_web_cannot_read_it_under_a_name_of_its_own(bridge: Bridge, host: str) -> None:
    assert ask(bridge.monitor, Host=host) == 421


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Monitor]:
    with Monitor("127.0.0.1", 0, watched(), token=TOKEN) as monitor:
        yield monitor


@pytest.mark.parametrize(
    "shown", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic("", TOKEN), basic("me", TOKEN)]
)
def test_who_has_the_token_gets_in_under_any_name(guarded: Monitor, shown: str) -> None:
    assert ask(guarded, Authorization=shown, Host="monitor.example") == 200


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "Bearer",
        "Bearer x",
        f"Bearer {TOKEN}x",
        f"Token {TOKEN}",
        TOKEN,
        "Basic !",
        basic(TOKEN, ""),
        "Bearer \xff",
    ],
)
def test_nobody_else_gets_in(guarded: Monitor, shown: str) -> None:
    assert ask(guarded, Authorization=shown) == 401


def test_every_path_asks_for_the_token(guarded: Monitor) -> None:
    for path in ("/", "/metrics", "/varz", "/healthz", "/nothing"):
        with closing(HTTPConnection(urlsplit(guarded.url).netloc, timeout=5)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Basic realm="isthmus"')


def connected(monitor: Monitor) -> socket.socket:
    found = urlsplit(monitor.url)
    return socket.create_connection((found.hostname or "", found.port or 0), timeout=30)


def test_a_client_that_drips_its_request_is_cut_off() -> None:
    with (
        Monitor("127.0.0.1", 0, watched(), patience_s=0.5) as monitor,
        connected(monitor) as slow,
    ):
        slow.setblocking(False)
        drops = iter(b"GET / HTTP/1.0\r\nx: " + b"x" * 1000)

        def cut_off() -> bool:
            try:
                slow.send(bytes([next(drops)]))
                return slow.recv(1) == b""
            except BlockingIOError:
                return False
            except ConnectionError:
                return True

        eventually(cut_off)
        assert ask(monitor) == 200


def test_clients_that_say_nothing_do_not_keep_others_out() -> None:
    with (
        Monitor("127.0.0.1", 0, watched(), max_connections=3, patience_s=600) as monitor,
        ExitStack() as silent,
    ):
        first = silent.enter_context(connected(monitor))
        for _ in range(9):
            silent.enter_context(connected(monitor))
        assert ask(monitor) == 200
        assert first.recv(1) == b""


def test_a_client_that_does_not_read_its_events_is_cut_off() -> None:
    with (
        Monitor("127.0.0.1", 0, watched(facts={"long": "x" * 2**20}), patience_s=0.5) as monitor,
        connected(monitor) as slow,
    ):
        slow.sendall(b"GET /api/feed HTTP/1.1\r\nHost: localhost\r\n\r\n")

        def cut_off() -> bool:
            try:
                slow.sendall(b"x")  # what is sent to a connection that is gone is refused
            except ConnectionError:
                return True
            return False

        eventually(cut_off)


def test_one_that_reads_them_watches_for_as_long_as_it_likes() -> None:
    with (
        Monitor("127.0.0.1", 0, watched(), patience_s=2.5) as monitor,
        closing(HTTPConnection(urlsplit(monitor.url).netloc, timeout=30)) as connection,
    ):
        connection.request("GET", "/api/feed")
        events = connection.getresponse()
        documents = 0
        while documents < 7:  # the seventh comes after more time than a client has for a request
            line = events.readline()
            assert line, "it was cut off"
            documents += line.startswith(b"data: ")


def test_closing_does_not_wait_for_those_who_watch() -> None:
    monitor = Monitor("127.0.0.1", 0, watched())
    with closing(HTTPConnection(urlsplit(monitor.url).netloc, timeout=30)) as connection:
        connection.request("GET", "/api/feed")
        events = connection.getresponse()
        assert events.readline() == b"retry: 1000\n"
        monitor.close()
        with suppress(ConnectionError):
            while events.readline():
                pass


def test_closing_does_not_wait_for_a_kafka_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    asked, answered = Flag(), Flag()

    def health() -> dict[str, str]:
        asked.set()
        answered.wait()
        return {}

    monitor = Monitor("127.0.0.1", 0, watched(health=health))
    with connected(monitor) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        asked.wait()
        monitor.close()
    answered.set()
    assert caplog.records == []


def test_a_mistake_is_told_once_for_each_question(caplog: pytest.LogCaptureFixture) -> None:
    def health() -> dict[str, str]:
        raise RuntimeError("a mistake")

    with Monitor("127.0.0.1", 0, watched(health=health)) as monitor:
        assert ask(monitor) == 500
    [told] = caplog.records
    assert told.getMessage() == "the monitor could not answer /healthz"
    assert told.exc_info is not None


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nabc\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_clients_do_wrong_is_not_logged(caplog: pytest.LogCaptureFixture, sent: bytes) -> None:
    caplog.set_level("INFO")
    with Monitor("127.0.0.1", 0, watched()) as monitor, connected(monitor) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while client.recv(65_536):
                pass
    assert caplog.records == []


def test_a_client_that_leaves_while_it_posts_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    topics = Topics(Settings, Kafka("127.0.0.1:1"))
    with (
        Monitor("127.0.0.1", 0, replace(watched(), topics=topics)) as monitor,
        closing(HTTPConnection(urlsplit(monitor.url).netloc, timeout=30)) as asking,
        connected(monitor) as client,
    ):
        asking.request("GET", "/api/session")
        key = json.loads(asking.getresponse().read())["key"]
        head = (
            f"POST /api/explain HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {key}\r\nContent-Length: 9\r\n"
        )
        client.sendall(f"{head}\r\n{{".encode())
        client.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while client.recv(65_536):
                pass
    assert caplog.records == []

"""The monitor over real HTTP, on this machine."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.support.polling import eventually

from isthmus.errors import HardFailure
from isthmus.routing.counts import BatchCounts, RouteCounts
from isthmus.routing.plan import Outcome
from isthmus.telemetry.events import Event
from isthmus.telemetry.http import Monitor
from isthmus.telemetry.metrics import RouterMetrics


class Answer(NamedTuple):
    status: int
    kind: str
    body: str


class Bridge:
    """A monitor, and the health that it reports."""

    def __init__(self) -> None:
        self.wrong: dict[str, str] = {}
        route = "<orders & co>"
        metrics = RouterMetrics("b", {route: "t"})
        metrics.add(BatchCounts([RouteCounts(3, 1)], {Outcome.PUBLISHED: 3, Outcome.SKIPPED: 1}))
        metrics.told(Event(position="j:0:0", outcome="published", route=route, age_ms=20, routing_ns=50_000))
        self.monitor = Monitor("127.0.0.1", 0, metrics, lambda: self.wrong)

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


def test_the_page_shows_routes_and_outcomes(bridge: Bridge) -> None:
    status, kind, body = bridge.get("/")
    assert status == 200
    assert kind.startswith("text/html")
    assert "<td>3</td><td>1</td><td>0.050 ms</td><td>20.0 ms</td>" in body
    assert "<td>published</td><td>3</td>" in body
    assert "Lag: 0 records" in body
    assert "Isthmus: up" in body


def test_the_page_escapes_what_it_shows(bridge: Bridge) -> None:
    bridge.wrong = {"router": "<script>alert(1)</script>"}
    body = bridge.get("/").body
    assert "&lt;orders &amp; co&gt;" in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body
    assert "<script>" not in body
    assert "<orders" not in body
    assert "Isthmus: down" in body


def test_a_query_makes_no_difference(bridge: Bridge) -> None:
    assert bridge.get("/healthz?verbose=1").status == 200


@pytest.mark.parametrize("path", ["/nothing", "/metrics/", "/healthz/x", "/favicon.ico"])
def test_there_is_nothing_else(bridge: Bridge, path: str) -> None:
    assert bridge.get(path).status == 404


def test_nothing_can_be_posted(bridge: Bridge) -> None:
    assert bridge.get("/metrics", "POST").status == 501


def test_a_port_that_is_taken_is_a_hard_failure() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        with pytest.raises(HardFailure, match=f"cannot listen on 127.0.0.1:{port}") as caught:
            Monitor("127.0.0.1", port, RouterMetrics("b", {}), dict)
    assert "monitor.port" in caught.value.remedy


def test_an_address_of_another_machine_is_a_hard_failure() -> None:
    with pytest.raises(HardFailure, match=r"cannot listen on 192\.0\.2\.1:0"):
        Monitor("192.0.2.1", 0, RouterMetrics("b", {}), dict)


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
    with Monitor("127.0.0.1", 0, RouterMetrics("b", []), dict, token=TOKEN) as monitor:
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
        Monitor("127.0.0.1", 0, RouterMetrics("b", []), dict, patience_s=0.5) as monitor,
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
        Monitor("127.0.0.1", 0, RouterMetrics("b", []), dict, max_connections=3, patience_s=600) as monitor,
        ExitStack() as silent,
    ):
        first = silent.enter_context(connected(monitor))
        for _ in range(9):
            silent.enter_context(connected(monitor))
        assert ask(monitor) == 200
        assert first.recv(1) == b""

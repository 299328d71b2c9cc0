"""What the page asks of messages, over HTTP, on a real Kafka."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from tests.support.commands import isthmus
from tests.support.names import unique
from tests.support.shop import Shop

from isthmus import AmqpMessage, AmqpValue
from isthmus.codecs.jms import to_message
from isthmus.journal.replay import read_dead_letters
from isthmus.kafka.blocking import read_present
from isthmus.monitor.server import Monitor
from isthmus.routing.explain import journaled

TOKEN = "a token of some length"
BASIC = {"Authorization": f"Basic {base64.b64encode(f'me:{TOKEN}'.encode()).decode()}"}


class Page:
    """Asks as the page does."""

    def __init__(self, monitor: Monitor, headers: dict[str, str]) -> None:
        self.url = urlsplit(monitor.url)
        self.headers = headers
        self.key = self.get("/api/session")[1]["key"]

    def get(self, path: str, **query: str) -> tuple[int, Any]:
        return self._ask("GET", f"{path}?{urlencode(query)}", None, {})

    def post(self, path: str, _sent: dict[str, str] | None = None, **body: Any) -> tuple[int, Any]:
        return self._ask("POST", path, json.dumps(body), {"X-Isthmus-Key": self.key, **(_sent or {})})

    def _ask(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> tuple[int, Any]:
        with closing(HTTPConnection(self.url.netloc, timeout=120)) as connection:
            connection.request(method, path, body, {**self.headers, **headers})
            answer = connection.getresponse()
            text = answer.read()
        if answer.headers["Content-Type"] != "application/json":
            return answer.status, text.decode()
        return answer.status, json.loads(text)


@pytest.fixture(scope="module")
def shop(kafka_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    made = Shop(kafka_servers, tmp_path_factory.mktemp("shop"), name=unique("shop"))
    made.fill()
    return made


@pytest.fixture(scope="module")
def page(shop: Shop) -> Iterator[Page]:
    with Monitor("127.0.0.1", 0, shop.watched, token=TOKEN) as monitor:
        yield Page(monitor, BASIC)


@pytest.fixture(scope="module")
def stranger(shop: Shop) -> Iterator[Page]:
    """Somebody on this machine, at a monitor that asks for no token."""
    with Monitor("127.0.0.1", 0, shop.watched) as monitor:
        yield Page(monitor, {})


def test_the_last_messages_of_a_route_are_what_it_published(shop: Shop, page: Page) -> None:
    status, found = page.get("/api/messages", route="eu")
    assert status == 200
    assert {dict(each["headers"])["jmsbridge.origin"] for each in found["messages"]} == {shop.name}
    orders = [json.loads(each["body"])["order"] for each in found["messages"]]
    assert len(set(orders)) == 20
    assert all(number % 2 == 0 and number % 7 for number in orders)
    assert found["messages"][0]["key"].startswith("c-")


def test_bodies_are_hidden_unless_the_settings_say_otherwise(
    kafka_servers: str, tmp_path: Path, shop: Shop
) -> None:
    hiding = Shop(kafka_servers, tmp_path, bodies=False, name=shop.name)
    with Monitor("127.0.0.1", 0, hiding.watched, token=TOKEN) as monitor:
        page = Page(monitor, BASIC)
        published = page.get("/api/messages", route="eu")[1]["messages"][0]
        group, *_ = page.get("/api/dead-letters")[1]["groups"]
        dead = page.get("/api/dead-letter", position=group["letters"][0]["position"])[1]
        journaled = page.get("/api/journal")[1][0]
        explained = page.post("/api/explain", position=journaled["position"])[1]["results"][0]
    assert [each["body"] for each in (published, dead, journaled)] == [None] * 3
    assert (explained["value"], explained["hidden"]) == (None, True)
    assert published["size"] > 0


@pytest.mark.parametrize("shown", [False, True])
def test_the_body_of_a_map_is_no_more_shown_than_any_other(
    kafka_servers: str, tmp_path: Path, shown: bool
) -> None:
    """The journal has it as JSON in a header of its own."""
    shop = Shop(kafka_servers, tmp_path, bodies=shown, name=unique("map"))
    message = AmqpMessage(application_properties={"region": "EU"}, body=AmqpValue({"card": "4711"}))
    shop.route([journaled(to_message(message.encode(), target="orders", fallback_id="m"), json=False)])
    with Monitor("127.0.0.1", 0, shop.watched, token=TOKEN) as monitor:
        page = Page(monitor, BASIC)
        position = f"{shop.settings.journal.topic}:0:0"
        explained = page.post("/api/explain", position=position)[1]
        assert explained["results"][0]["outcome"] == "dead-lettered"
        journal = page.get("/api/journal")[1]
        dead = page.get("/api/dead-letter", position=f"{shop.name}-dead-letters:0:0")[1]
    for each in (explained, journal, dead):
        assert ("isthmus.value" in json.dumps(each), "4711" in json.dumps(each)) == (shown, shown)


def test_a_typed_message_is_explained_term_by_term(page: Page) -> None:
    status, found = page.post("/api/explain", address="orders", headers="region: US", body="hello")
    assert status == 200
    assert [(each["name"], each["takes"]) for each in found["routes"]] == [("eu", False), ("rest", True)]
    region = found["routes"][0]["term"]["terms"][1]
    assert (region["holds"], region["found"]) == (False, "US")
    [result] = found["results"]
    assert (result["outcome"], result["value"]) == ("published", "hello")


@pytest.mark.parametrize("headers", ["region", "- a", "a: {b: {c: 1}}", "x: {int: text}"])
def test_what_is_no_message_is_refused_with_a_reason(page: Page, headers: str) -> None:
    status, found = page.post("/api/explain", address="orders", headers=headers)
    assert status == 400
    assert found["error"]


def test_a_message_of_the_journal_is_explained(page: Page) -> None:
    listed = page.get("/api/journal")[1]
    offsets = [int(each["position"].rpartition(":")[2]) for each in listed]
    assert offsets == sorted(offsets, reverse=True)
    assert {each["address"] for each in listed} == {"orders", "invoices"}
    found = page.post("/api/explain", position=listed[0]["position"])[1]
    assert (found["address"], found["position"]) == (listed[0]["address"], listed[0]["position"])


def test_a_captured_record_is_explained(stranger: Page, shop: Shop) -> None:
    journal = shop.settings.journal.topic
    done = isthmus(*("receive", "--json", "--topic", journal, shop.file), folder=shop.file.parent)
    line = done.stdout.splitlines()[0]
    status, found = stranger.post("/api/explain", captured=line)
    assert (status, found["address"], found["position"]) == (200, "orders", f"{journal}:0:0")
    status, found = stranger.post("/api/explain", captured="{}")
    assert status == 400
    assert "isthmus receive --json" in found["error"]


def test_nothing_but_what_the_router_reads_is_explained(page: Page, shop: Shop) -> None:
    status, found = page.post("/api/explain", position=f"{shop.name}-dead-letters:0:0")
    assert status == 400
    assert "the router does not read" in found["error"]


def test_a_changed_route_is_tried_on_the_last_messages(page: Page) -> None:
    status, found = page.post("/api/try-route", route="eu", predicate="msg.address==orders")
    assert status == 200
    assert found["tried"] == 60
    assert found["takes"] > found["took"] > 0
    assert any("rest" in each["before"] and "eu" in each["after"] for each in found["changes"])


def test_another_key_of_a_route_is_tried_on_the_last_messages(page: Page) -> None:
    predicate = "msg.address==orders && msg.header.region in (EU, UK)"

    def tried(key: str) -> dict[str, Any]:
        status, found = page.post("/api/try-route", route="eu", predicate=predicate, key=key)
        assert status == 200
        return found

    as_it_is = tried("msg.header.CustomerId")
    assert (as_it_is["changes"], as_it_is["rekeyed"]) == ([], 0)
    by_id = tried("")
    assert by_id["rekeyed"] > 0
    assert [each["before"] for each in by_id["changes"]] == ["eu fails: key"]
    by_nothing = tried("msg.header.Nobody")
    assert [each["after"] for each in by_nothing["changes"]] == ["eu fails: key"]


def test_a_key_that_is_no_header_is_told(page: Page) -> None:
    predicate = "exists(msg.address)"
    status, found = page.post("/api/try-route", route="eu", predicate=predicate, key="CustomerId")
    assert status == 400
    assert "msg.header.<Name>" in found["error"]


def test_a_predicate_that_cannot_be_read_is_told(page: Page) -> None:
    status, found = page.post("/api/try-route", route="eu", predicate="msg.address = orders")
    assert status == 400
    assert found["error"]


def test_dead_letters_are_shown_by_what_went_wrong(page: Page) -> None:
    found = page.get("/api/dead-letters")[1]
    reasons = {(each["route"], each["code"], each["reason"]): each["count"] for each in found["groups"]}
    eu, invoices = ("eu", "key", "no header CustomerId"), ("invoices", "key", "no header InvoiceId")
    assert reasons.keys() == {eu, invoices}
    assert reasons[eu] > reasons[invoices] > 0
    assert found["total"] == sum(reasons.values())
    one = page.get("/api/dead-letter", position=found["groups"][0]["letters"][0]["position"])[1]
    assert (one["code"], one["address"]) == ("key", "orders")
    assert "order" in one["body"]


def test_they_are_replayed_or_dropped_once_that_is_confirmed(
    kafka_servers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(kafka_servers, tmp_path, name=unique("replayed"))
    shop.fill(30)
    topic = f"{shop.name}-dead-letters"
    dead = [each for each in read_dead_letters(shop.kafka, topic) if each.route == "eu"]
    journaled = len([*read_present(shop.kafka, shop.settings.journal.topic)])
    with Monitor("127.0.0.1", 0, shop.watched, token=TOKEN) as monitor:
        page = Page(monitor, BASIC)
        shown = page.get("/api/dead-letters")[1]
        group = {field: shown["groups"][0][field] for field in ("route", "code", "reason")}
        until_ms = shown["until_ms"]
        foreseen = page.post("/api/replay", **group, until_ms=until_ms)[1]
        assert foreseen["counts"]["replayed"] == len(dead)
        [told] = foreseen["reasons"]
        assert told == {
            "state": "replayed",
            "reason": "it fails again: no header CustomerId",
            "count": len(dead),
        }
        assert len([*read_present(shop.kafka, shop.settings.journal.topic)]) == journaled
        dropped = page.post("/api/drop", position=dead[0].position, until_ms=0, dry_run=False)[1]
        assert dropped["counts"]["dropped"] == 1
        replayed = page.post("/api/replay", **group, until_ms=until_ms, dry_run=False)[1]
        assert replayed["counts"]["replayed"] == len(dead) - 1
        after = page.get("/api/dead-letters")[1]
        assert (after["total"], after["done"]) == (1, len(dead))  # that of another reason is left alone
    assert len([*read_present(shop.kafka, shop.settings.journal.topic)]) == journaled + len(dead) - 1
    assert [each.getMessage() for each in caplog.records] == [
        "dead letters, by the monitor's page: 1 dropped",
        f"dead letters, by the monitor's page: {len(dead) - 1} replayed",
    ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/replay", {"route": "eu", "code": "key", "reason": "", "until_ms": 0}),
        ("/api/drop", {"position": "a:0:0", "until_ms": 0}),
        ("/api/try-route", {"route": "eu", "predicate": "exists(msg.address)"}),
        ("/api/explain", {"position": "a:0:0"}),
    ],
)
def test_without_a_token_nobody_acts_or_reads_messages(
    stranger: Page, path: str, body: dict[str, Any]
) -> None:
    status, found = stranger.post(path, **body)
    assert status == 403
    assert "monitor.token" in found["error"]


@pytest.mark.parametrize("path", ["/api/messages", "/api/journal", "/api/dead-letters", "/api/dead-letter"])
def test_without_a_token_nobody_sees_messages(stranger: Page, path: str) -> None:
    assert stranger.get(path, route="eu", position="a:0:0")[0] == 403


def test_without_a_token_a_typed_message_is_explained_all_the_same(stranger: Page) -> None:
    assert stranger.post("/api/explain", address="orders")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Isthmus-Key": ""},
        {"X-Isthmus-Key": "a key of somebody else's"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_cannot_act_with_a_password_that_the_browser_has(
    page: Page, headers: dict[str, str]
) -> None:
    status, said = page.post("/api/drop", headers, position="a:0:0", until_ms=0)
    assert (status, said) == (403, "only the monitor's own page may post\n")


def test_what_is_posted_is_bounded(page: Page) -> None:
    assert page.post("/api/explain", address="x" * 70_000)[0] == 413


def test_a_kafka_that_does_not_answer_is_told(tmp_path: Path) -> None:
    shop = Shop("127.0.0.1:1", tmp_path)
    with Monitor("127.0.0.1", 0, shop.watched, token=TOKEN) as monitor:
        status, found = Page(monitor, BASIC).get("/api/journal")
    assert status == 503
    assert "does not answer" in found["error"]

"""The page in a real browser.

It also makes the pictures of the documentation: ``ISTHMUS_SCREENSHOTS=docs/images`` says where to. Without it
they are thrown away.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.support.browser import Watched, chromium
from tests.support.names import unique
from tests.support.shop import Shop

from isthmus.monitor.server import Monitor

TOKEN = "a token of some length"
LOGIN = {"username": "me", "password": TOKEN}
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
VIEWS = ("flow", "routes", "routes/eu", "explain", "dead-letters", "clients")

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def shop(browser: Any, kafka_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(kafka_servers, tmp_path_factory.mktemp("shop"), name="store")
    made.fill()
    made.remember_an_hour()
    with made.busy():
        yield made


@pytest.fixture(scope="module")
def monitor(shop: Shop) -> Iterator[Monitor]:
    with Monitor("127.0.0.1", 0, shop.watched, token=TOKEN) as found:
        yield found


@pytest.fixture
def opened(browser: Any, monitor: Monitor, shop: Shop) -> Iterator[Open]:
    """Opens a view, and makes sure that nothing was amiss in the end."""
    pages: list[Watched] = []

    def open_view(view: str = "flow", **options: Any) -> Any:
        chosen: dict[str, Any] = {"http_credentials": LOGIN, "viewport": WIDE, **options}
        pages.append(Watched(browser, f"{monitor.url}/#/{view}", **chosen))
        return pages[-1].page

    yield open_view
    for each in pages:
        each.close()
        assert [url for url in each.requests if not url.startswith(monitor.url)] == []
    shop.problems.clear()


def test_figures_move_without_a_reload(opened: Open) -> None:
    page = opened()
    page.evaluate("window.same = true")
    journaled = page.locator(".figures dd").first
    expect(journaled).to_have_text(re.compile("[1-9].*/s$"))
    expect(journaled).not_to_have_text(journaled.inner_text())
    assert page.evaluate("window.same")


def test_the_picture_leads_from_systems_to_topics(opened: Open) -> None:
    page = opened()
    page.wait_for_selector(".node .rate:text-matches('/s$')")
    titles = page.locator(".node .title").all_text_contents()
    assert titles[:3] == ["AMQP clients", "prices", "payments"]
    assert {"Journal", "Ledger", "Router", "invoices.large"} <= set(titles)


def test_what_is_unavailable_is_red_and_told_in_words(opened: Open, shop: Shop) -> None:
    page = opened()
    page.wait_for_selector("#health.good")
    shop.problems["payments"] = "the queue manager is unavailable"
    page.wait_for_selector("#health.bad:has-text('1 problem')")
    page.wait_for_selector("#problems:has-text('the queue manager is unavailable')")
    assert page.locator(".node.bad .title").all_text_contents() == ["payments"]
    shop.problems.clear()
    page.wait_for_selector("#health.good")


def test_a_route_has_its_last_hour_and_its_last_messages(opened: Open) -> None:
    page = opened("routes")
    page.click("th a:text-is('eu')")
    page.wait_for_selector("h1:text('eu')")
    page.wait_for_selector(".chart path.line.second")
    page.locator(".message").first.click()
    page.wait_for_selector(".message[open] pre:text('sku')")
    page.click(".message[open] a:text('Why did it go here?')")
    page.wait_for_selector(".tried .yes:has-text('eu takes it')")


def test_a_typed_message_is_explained(opened: Open) -> None:
    page = opened("explain")
    page.fill("input[name=address]", "orders")
    page.fill("textarea[name=headers]", "region: US\nCustomerId: <script>alert(1)</script>")
    page.fill("textarea[name=body]", "hello")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".tried .yes:has-text('rest takes it')")
    assert page.locator(".tried > .no small").last.inner_text().strip() == 'region is "US"'
    assert "<script>alert(1)</script>" in page.inner_text(".answer")


def test_a_changed_route_is_tried(opened: Open) -> None:
    page = opened("explain")
    page.wait_for_selector("select option:has-text('eu')", state="attached")
    page.locator("form textarea").last.fill("msg.address==orders")
    page.click("text=Try it on the last messages")
    page.wait_for_selector("text=it would take")
    expect(page.locator("input[name=key]")).to_have_value("msg.header.CustomerId")
    page.fill("input[name=key]", "")
    page.click("text=Try it on the last messages")
    page.wait_for_selector("text=would have another key")


def test_the_routes_to_try_are_those_of_the_last_reload(opened: Open, shop: Shop) -> None:
    page = opened("explain")
    page.wait_for_selector("select option:text-is('eu')", state="attached")
    before = shop.settings
    shop.settings = before.replace(routes=before.routes[::-1])
    try:
        expect(page.locator("select option")).to_have_text(["invoices", "rest", "eu"])
        assert page.locator("select").input_value() == "eu"
    finally:
        shop.settings = before


def test_the_mistake_in_a_predicate_has_its_caret_below_it(browser: Any, monitor: Monitor) -> None:
    watched = Watched(browser, f"{monitor.url}/#/explain", http_credentials=LOGIN, viewport=WIDE)
    page = watched.page
    page.wait_for_selector("select option:has-text('eu')", state="attached")
    page.locator("form textarea").last.fill("msg.address== && x")
    page.click("text=Try it on the last messages")
    _, text, caret = page.locator(".error").inner_text().splitlines()
    assert (text.strip(), caret.index("^")) == ("msg.address== && x", text.index("&&"))
    watched.context.close()


def test_what_the_ledger_holds_is_told(opened: Open) -> None:
    page = opened("clients")
    told = (
        "3 transactions have no outcome in the journal, 1 of them prepared; the oldest began 2 h 5 min ago."
    )
    page.wait_for_selector(f"text={told}")
    page.click("nav >> text=Flow")
    page.wait_for_selector(".node:has-text('Ledger') .sub:text-is('3 open, 2 h 5 min')")


def test_the_bytes_of_each_connection_are_told(opened: Open) -> None:
    page = opened("clients")
    page.wait_for_selector("tr:has-text('prices') td[data-label=In] small:text-matches('[KM]iB$')")


def test_a_chart_without_a_measured_message_says_so(browser: Any, kafka_servers: str, tmp_path: Path) -> None:
    shop = Shop(kafka_servers, tmp_path, name=unique("new"))
    shop.fill(1)
    with Monitor("127.0.0.1", 0, shop.watched, token=TOKEN) as monitor:
        watched = Watched(browser, f"{monitor.url}/#/routes/eu", http_credentials=LOGIN)
        watched.page.wait_for_selector(".plot .none:has-text('one message in a hundred is')")
        watched.close()


def test_dead_letters_are_dropped_after_a_confirmation(
    browser: Any, kafka_servers: str, tmp_path: Path
) -> None:
    shop = Shop(kafka_servers, tmp_path, name=unique("dropped"))
    shop.fill(20)
    with Monitor("127.0.0.1", 0, shop.watched, token=TOKEN) as monitor:
        watched = Watched(browser, f"{monitor.url}/#/dead-letters", http_credentials=LOGIN)
        page = watched.page
        page.click("text=Drop…")
        page.wait_for_selector("dialog:has-text('would be dropped')")
        page.click("dialog button:text('Cancel')")
        expect(page.locator("dialog")).to_have_count(0)
        page.click("text=Drop…")
        page.click("dialog button.danger:enabled")
        page.wait_for_selector("dialog:has-text(' dropped.')")
        page.keyboard.press("Escape")
        page.wait_for_selector("main:has-text('more were replayed, dropped or quarantined')")
        watched.close()


def test_it_goes_on_by_itself_with_a_bridge_that_was_started_again(browser: Any, shop: Shop) -> None:
    with Monitor("127.0.0.1", 0, shop.watched, token=TOKEN) as monitor:
        watched = Watched(browser, f"{monitor.url}/#/dead-letters", http_credentials=LOGIN)
        page = watched.page
        page.wait_for_selector("text=Drop…")
        port = int(monitor.url.rpartition(":")[2])
    page.wait_for_selector("#health.lost")
    with Monitor("127.0.0.1", port, shop.watched, token=TOKEN):
        page.wait_for_selector("#health.good")
        page.locator("text=Drop…").first.click()
        page.wait_for_selector("dialog:has-text('would be dropped')")
        watched.complaints.clear()  # of requests that nobody answered
        watched.close()


def test_without_a_token_the_page_shows_figures_and_says_why_no_more(browser: Any, shop: Shop) -> None:
    with Monitor("127.0.0.1", 0, shop.watched) as monitor:
        watched = Watched(browser, f"{monitor.url}/#/dead-letters")
        watched.page.wait_for_selector("text=set monitor.token to see, replay or drop them here")
        assert watched.page.locator("main button").count() == 0
        watched.page.click("nav >> text=Flow")
        watched.page.wait_for_selector(".node .rate:text-matches('/s$')")
        watched.close()


def test_all_of_it_can_be_reached_by_keyboard(opened: Open) -> None:
    page = opened()
    page.wait_for_selector(".node .rate:text-matches('/s$')")
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('href')"))
    assert reached[:7] == [
        "#main",
        "#/flow",
        "#/flow",
        "#/routes",
        "#/explain",
        "#/dead-letters",
        "#/clients",
    ]
    assert "#/routes/eu" in reached
    page.goto(page.url.replace("#/flow", "#/routes"))
    page.wait_for_selector("h1:text('Routes')")
    expect(page.locator("main")).to_be_focused()


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_a_telephone(opened: Open, view: str) -> None:
    page = opened(view, viewport=NARROW)
    page.wait_for_selector("#health.good")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


PICTURES = [
    *((view, WIDE, scheme) for view in VIEWS for scheme in ("light", "dark")),
    *((view, NARROW, "light") for view in VIEWS),
]


@pytest.mark.parametrize(("view", "viewport", "scheme"), PICTURES)
def test_it_is_worth_looking_at(
    opened: Open, shop: Shop, tmp_path: Path, view: str, viewport: dict[str, int], scheme: str
) -> None:
    folder = Path(os.environ.get("ISTHMUS_SCREENSHOTS", tmp_path))
    if view == "flow" and scheme == "dark":
        shop.problems["payments"] = "the queue manager is unavailable"
    page = opened(view, viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_selector("#health.bad" if shop.problems else "#health.good")
    _prepare(page, view)
    kind = scheme if viewport is WIDE else "narrow"
    picture = folder / f"{view.replace('/', '-')}-{kind}.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 5_000


def _prepare(page: Any, view: str) -> None:
    """Have something to see in a view."""
    match view:
        case "flow":
            page.wait_for_selector(".node .rate:text-matches('/s$')")
        case "routes/eu":
            page.wait_for_selector(".chart path.line.second")
            page.wait_for_selector(".message")
        case "explain":
            page.fill("input[name=address]", "orders")
            page.fill("textarea[name=headers]", "region: US\namount: {long: 42}")
            page.fill("textarea[name=body]", "hello")
            page.click("button:text('Explain')")
            page.wait_for_selector(".tried .yes")
            page.locator("form textarea").last.fill("msg.address==orders")
            page.click("text=Try it on the last messages")
            page.wait_for_selector("text=it would take")
        case "dead-letters":
            page.locator("summary").first.click()

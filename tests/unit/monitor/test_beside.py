"""Parts in other processes, by their monitors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.monitor import NO_MONITOR, answering, watched
from tests.support.polling import eventually

from isthmus.monitor.beside import Beside
from isthmus.monitor.server import Monitor
from isthmus.telemetry.held import HeldTransactions
from isthmus.telemetry.parts import ClientReport, Clients, Flow, LinkReport, PartReport, QueueReport

TOKEN = "a token of some length"
PART = PartReport(
    name="prices",
    kind="intake",
    system="nats",
    connected=True,
    taken=Flow(7, 70),
    delivered=Flow(3, 30),
    dead_letters=1,
    connects=2,
    lag=5,
)


def test_what_their_monitors_tell_is_told_here() -> None:
    shown = watched(health=lambda: {"nats": "not connected"}, parts=lambda: [PART])
    with (
        Monitor("127.0.0.1", 0, shown, token=TOKEN) as monitor,
        Beside([f"{monitor.url}/"], TOKEN) as beside,
    ):
        eventually(lambda: beside.reports() == [PART])
        eventually(lambda: beside.problems() == {"nats": "not connected"})


def test_what_their_ledger_holds_is_told_here() -> None:
    held = HeldTransactions(2, 1, 1_000)
    with (
        Monitor("127.0.0.1", 0, watched(held=lambda: held), token=TOKEN) as pipeline,
        Monitor("127.0.0.1", 0, watched(), token=TOKEN) as edge,
        Beside([pipeline.url, edge.url], TOKEN) as beside,
    ):
        eventually(lambda: beside.held() == held)


def test_the_clients_and_queues_of_all_of_them_are_told_when_somebody_looks() -> None:
    orders = ClientReport("checkout", "shop", "10.0.0.1", (LinkReport("orders", "in", 1, 2, 3),))
    stock = ClientReport("stock", "shop", "10.0.0.2", ())
    shelf = QueueReport("queue", "shelf", 2, 5)
    edges = [
        replace(watched(), clients=lambda _, client=client: Clients(1, (client,)), queues=lambda: [shelf])
        for client in (orders, stock)
    ]
    with (
        Monitor("127.0.0.1", 0, edges[0], token=TOKEN) as first,
        Monitor("127.0.0.1", 0, edges[1], token=TOKEN) as second,
    ):
        beside = Beside([first.url, "http://127.0.0.1:1", second.url], TOKEN)
        assert beside.clients(10) == Clients(2, (orders, stock))
        assert beside.clients(1) == Clients(2, (orders,))
        assert beside.queues() == [QueueReport("queue", "shelf", 4, 5)]


def test_one_that_does_not_answer_or_wants_another_token_is_a_problem() -> None:
    with (
        Monitor("127.0.0.1", 0, watched(), token=TOKEN) as guarded,
        Beside(["http://127.0.0.1:1", guarded.url], "another token") as beside,
    ):
        eventually(lambda: beside.problems().keys() == {"http://127.0.0.1:1", guarded.url})
        assert "401" in beside.problems()[guarded.url]
        assert beside.reports() == []


@pytest.mark.parametrize("octets", NO_MONITOR.values(), ids=NO_MONITOR)
def test_what_is_no_monitor_is_a_problem_and_hides_no_other(octets: bytes) -> None:
    wrong = {"nats": "not connected"}
    with (
        answering(octets) as url,
        Monitor("127.0.0.1", 0, watched(health=lambda: wrong, parts=lambda: [PART]), token=TOKEN) as monitor,
        Beside([url, monitor.url], TOKEN) as beside,
    ):
        eventually(lambda: beside.problems().keys() == {url, "nats"})
        assert "as a bridge's monitor does" in beside.problems()[url]
        assert (beside.reports(), beside.clients(9), beside.queues()) == ([PART], Clients(), [])


@pytest.mark.parametrize("url", ["http://127.0.0.1:amqp", "http://[::1", "edge:9464"])
def test_what_is_no_address_is_a_problem(url: str) -> None:
    with Beside([url], TOKEN) as beside:
        eventually(lambda: beside.problems().keys() == {url})
        assert beside.clients(9) == Clients()

"""Parts in other processes, by their monitors."""

from __future__ import annotations

from dataclasses import replace

from tests.support.monitor import watched
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

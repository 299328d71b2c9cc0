from __future__ import annotations

import msgspec

from isthmus.edges.amqp.server.traffic import (
    ANONYMOUS,
    INCOMING,
    OTHERS,
    OUTGOING,
    TEMPORARY,
    ServerFigures,
    Traffic,
    together,
)
from isthmus.routing.route import TEMPORARY_PREFIX
from isthmus.telemetry.parts import AddressTraffic


def test_links_of_an_address_count_together_and_directions_apart() -> None:
    traffic = Traffic()
    first, second = traffic.join(INCOMING, "orders"), traffic.join(INCOMING, "orders")
    first.add(1, 100)
    second.add(2, 200)
    second.links -= 1
    traffic.join(OUTGOING, "orders").add(1, 50)
    assert traffic.reports() == [
        AddressTraffic("in", "orders", 1, 3, 300),
        AddressTraffic("out", "orders", 1, 1, 50),
    ]


def test_clients_cannot_make_more_than_so_many_addresses() -> None:
    traffic = Traffic(most=2)
    for address in ("a", "b", "c", "d", "a"):
        traffic.join(INCOMING, address)
    assert [(each.address, each.links) for each in traffic.reports()] == [("a", 2), ("b", 1), (OTHERS, 2)]


def test_temporary_queues_are_one_address_and_the_relay_has_a_name() -> None:
    traffic = Traffic()
    for address in (f"{TEMPORARY_PREFIX}1", f"{TEMPORARY_PREFIX}2", ""):
        traffic.join(INCOMING, address)
    assert [(each.address, each.links) for each in traffic.reports()] == [(TEMPORARY, 2), (ANONYMOUS, 1)]


def test_figures_of_processes_add_up_and_those_that_ended_leave_what_they_counted() -> None:
    one = ServerFigures({"accepted": 3, "connections": 2}, [AddressTraffic("in", "a", 1, 3, 30)], 1, 5.0)
    two = ServerFigures({"accepted": 4, "connections": 1}, [AddressTraffic("in", "a", 2, 4, 40)], 2, 9.0)
    assert together([one, two]) == ServerFigures(
        {"accepted": 7, "connections": 3}, [AddressTraffic("in", "a", 3, 7, 70)], 3, 9.0
    )
    assert together([one, two.after_its_end()]) == ServerFigures(
        {"accepted": 7, "connections": 2}, [AddressTraffic("in", "a", 1, 7, 70)], 1, 5.0
    )


def test_figures_cross_a_pipe() -> None:
    figures = ServerFigures({"accepted": 3}, [AddressTraffic("in", "a", 1, 3, 30)], 1, 5.0)
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(figures)), ServerFigures) == figures

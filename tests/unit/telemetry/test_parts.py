"""What is told of connectors, intakes and destinations."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry, generate_latest

from isthmus.telemetry.parts import AddressTraffic, Flow, PartMetrics, PartReport, quantiles

CONNECTOR = PartReport(
    name="orders",
    kind="connector",
    system="nats→mq",
    connected=True,
    taken=Flow(3, 300),
    delivered=Flow(2, 200),
    dead_letters=1,
    not_acknowledged=4,
    connects=2,
    disconnects=1,
    reconnects=1,
    request_times_s=[n / 1000 for n in range(1, 101)],
)
INTAKE = PartReport(name="in", kind="intake", system="mq", connected=False)


def exposition() -> list[str]:
    registry = CollectorRegistry()
    registry.register(PartMetrics("b", lambda: [CONNECTOR, INTAKE]))
    return generate_latest(registry).decode().splitlines()


def test_prometheus_gets_what_went_in_and_out_of_each_part() -> None:
    labels = 'bridge="b",direction="{}",kind="connector",part="orders"'
    lines = exposition()
    assert f"isthmus_part_messages_total{{{labels.format('in')}}} 3.0" in lines
    assert f"isthmus_part_messages_total{{{labels.format('out')}}} 2.0" in lines
    assert f"isthmus_part_bytes_total{{{labels.format('out')}}} 200.0" in lines


def test_prometheus_gets_connections_and_dead_letters() -> None:
    labels = '{bridge="b",kind="connector",part="orders"}'
    counts = {
        "connects": 2.0,
        "disconnects": 1.0,
        "reconnects": 1.0,
        "dead_letters": 1.0,
        "not_acknowledged": 4.0,
    }
    lines = exposition()
    for name, count in counts.items():
        assert f"isthmus_part_{name}_total{labels} {count}" in lines
    assert f"isthmus_part_connected{labels} 1.0" in lines
    assert 'isthmus_part_connected{bridge="b",kind="intake",part="in"} 0.0' in lines


def test_prometheus_gets_request_times_by_quantile() -> None:
    labels = 'bridge="b",kind="connector",part="orders"'
    assert f'isthmus_part_request_seconds{{{labels},quantile="0.99"}} 0.099' in exposition()


def test_varz_lists_parts_by_kind() -> None:
    document = PartMetrics("b", lambda: [CONNECTOR, INTAKE]).varz()
    [connector], [intake] = document["connectors"], document["intakes"]
    assert document["routes"] == []
    assert (connector["name"], connector["messages_in"], connector["messages_out"]) == ("orders", 3, 2)
    assert connector["request_times_ms"] == {"p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
    assert (intake["connected"], intake["request_times_ms"]) == (False, {})


def test_quantiles_are_those_of_the_nearest_rank() -> None:
    assert quantiles([]) == {}
    assert set(quantiles([0.5]).values()) == {0.5}
    assert quantiles([3, 1, 2])[0.5] == 2


def test_prometheus_gets_links_by_address_and_open_transactions() -> None:
    links = [AddressTraffic("in", "orders", 2, 10, 1_000), AddressTraffic("out", "orders", 1, 5, 600)]
    server = PartReport(
        name="amqp",
        kind="intake",
        system="amqp",
        connected=True,
        links=links,
        transactions=3,
        oldest_transaction_s=1.5,
    )
    registry = CollectorRegistry()
    registry.register(PartMetrics("b", lambda: [server, INTAKE]))
    lines = generate_latest(registry).decode().splitlines()
    labels = '{address="orders",bridge="b",direction="in",part="amqp"}'
    assert f"isthmus_amqp_links{labels} 2.0" in lines
    assert f"isthmus_amqp_link_messages_total{labels} 10.0" in lines
    assert f"isthmus_amqp_link_bytes_total{labels} 1000.0" in lines
    assert 'isthmus_transactions_open{bridge="b",part="amqp"} 3.0' in lines
    assert 'isthmus_transaction_age_max_seconds{bridge="b",part="amqp"} 1.5' in lines
    assert not any(line.startswith("isthmus_transactions_open") and 'part="in"' in line for line in lines)


def test_prometheus_gets_the_lag_of_parts_that_have_an_outbox() -> None:
    registry = CollectorRegistry()
    registry.register(PartMetrics("b", lambda: [replace(CONNECTOR, lag=7), INTAKE]))
    lines = generate_latest(registry).decode().splitlines()
    assert 'isthmus_part_lag_records{bridge="b",kind="connector",part="orders"} 7.0' in lines
    assert sum(line.startswith("isthmus_part_lag_records{") for line in lines) == 1

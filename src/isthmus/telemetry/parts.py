"""What the parts of a bridge that speak to other systems have done since the start.

In: a function that says how each connector, intake and destination stands now. Out: Prometheus' metrics, and
the document of ``/varz``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

QUANTILES: Final = (0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Flow:
    """What went one way."""

    messages: int = 0
    bytes: int = 0


class AddressTraffic(msgspec.Struct, frozen=True):
    """What went over the AMQP links of one address, one way."""

    direction: str
    address: str
    links: int = 0
    """How many there are now."""
    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """How a part stands."""

    name: str
    kind: Literal["connector", "intake", "route"]
    system: str
    """Where messages come from and go to: ``mq``, ``nats→mq``."""
    connected: bool
    taken: Flow = Flow()
    delivered: Flow = Flow()
    dead_letters: int = 0
    not_acknowledged: int = 0
    """Acknowledgements of receivers that Kafka did not take: those messages are redelivered."""
    connects: int = 0
    disconnects: int = 0
    reconnects: int = 0
    request_times_s: Sequence[float] = field(default=(), repr=False)
    """How long the last requests took: those of answers to inboxes from request to answer, all others until
    the system had taken the messages."""
    lag: int | None = None
    """How many records of its outbox are yet to be delivered, as far as this process reads it."""
    links: Sequence[AddressTraffic] = field(default=(), repr=False)
    transactions: int | None = None
    """How many transactions clients have open; None where there are none ever."""
    oldest_transaction_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkReport:
    """A link of an AMQP client."""

    address: str
    direction: Literal["in", "out"]
    """``in``: the client sends on it."""
    credit: int
    """How many messages may still be sent on it, by whoever sends."""
    deliveries: int
    """How many were, modulo 2**32."""
    in_flight: int
    """How many of those that the client sent are not decided."""


@dataclass(frozen=True, slots=True)
class ClientReport:
    """An AMQP client that is connected."""

    container_id: str
    user: str
    address: str
    """The network address that it comes from."""
    links: tuple[LinkReport, ...]


@dataclass(frozen=True, slots=True)
class Clients:
    """The AMQP clients that are connected: how many, and who, but for those beyond a limit."""

    connected: int = 0
    shown: tuple[ClientReport, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueReport:
    """A queue, or a subscription of a topic, that AMQP clients receive from."""

    kind: Literal["queue", "subscription"]
    name: str
    """The address of a queue; of a subscription its consumer group, ``jms:<client id>:<name>``."""
    receivers: int
    """Those of the processes that were asked."""
    depth: int
    """How many messages are still to be received, those that somebody holds included."""


def clients_together(found: Iterable[Clients], most: int) -> Clients:
    """Those of all processes, of whom so many at most are shown."""
    everybody = list(found)
    shown = [client for each in everybody for client in each.shown]
    return Clients(sum(each.connected for each in everybody), tuple(shown[:most]))


def queues_together(found: Iterable[Iterable[QueueReport]]) -> list[QueueReport]:
    """Those of all processes, each once: its depth, which Kafka knows, is the same for all of them."""
    queues: dict[tuple[str, str], QueueReport] = {}
    for each in (queue for one in found for queue in one):
        have = queues.setdefault((each.kind, each.name), replace(each, receivers=0))
        queues[each.kind, each.name] = replace(
            each, receivers=have.receivers + each.receivers, depth=max(have.depth, each.depth)
        )
    return list(queues.values())


Reports = Callable[[], Sequence[PartReport]]


def quantiles(times_s: Sequence[float]) -> dict[float, float]:
    """The quantiles of `QUANTILES`, by the nearest rank; empty without any times."""
    ordered = sorted(times_s)
    return {each: ordered[math.ceil(each * len(ordered)) - 1] for each in QUANTILES} if ordered else {}


class PartMetrics(Collector):
    """The metrics of all parts, as they are when somebody asks."""

    def __init__(self, bridge_id: str, reports: Reports) -> None:
        self._bridge_id = bridge_id
        self._reports = reports
        self._started = time.time()

    @property
    def bridge_id(self) -> str:
        """Whose parts they are."""
        return self._bridge_id

    def collect(self) -> Iterator[Metric]:
        """All metrics, as Prometheus' client asks for them."""
        reports = self._reports()
        yield self._family(
            "messages", "messages taken from a system and delivered to one", reports, _messages
        )
        yield self._family("bytes", "bytes of their bodies", reports, _bytes)
        for name, meaning in (
            ("dead_letters", "messages that can never be handled"),
            ("not_acknowledged", "acknowledgements that Kafka did not take: those messages are redelivered"),
            ("connects", "connections made"),
            ("disconnects", "connections broken"),
            ("reconnects", "connections made again"),
        ):
            yield self._family(name, meaning, reports, _count_of(name))
        connected = GaugeMetricFamily(
            "isthmus_part_connected", "whether the system is there", labels=["bridge", "part", "kind"]
        )
        times = GaugeMetricFamily(
            "isthmus_part_request_seconds",
            "how long the last requests took",
            labels=["bridge", "part", "kind", "quantile"],
        )
        for report in reports:
            labels = [self._bridge_id, report.name, report.kind]
            connected.add_metric(labels, report.connected)
            for quantile, seconds in quantiles(report.request_times_s).items():
                times.add_metric([*labels, f"{quantile:g}"], seconds)
        yield from (connected, times)
        yield from self._of_outboxes(reports)
        yield from self._of_links(reports)
        yield from self._of_transactions(reports)

    def _of_outboxes(self, reports: Sequence[PartReport]) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            "isthmus_part_lag_records",
            "records of an outbox that are yet to be delivered",
            labels=["bridge", "part", "kind"],
        )
        for report in reports:
            if report.lag is not None:
                lag.add_metric([self._bridge_id, report.name, report.kind], report.lag)
        yield lag

    def _of_links(self, reports: Sequence[PartReport]) -> Iterator[Metric]:
        labels = ["bridge", "part", "address", "direction"]
        links = GaugeMetricFamily("isthmus_amqp_links", "AMQP links that are open", labels=labels)
        messages = CounterMetricFamily(
            "isthmus_amqp_link_messages", "messages taken (in) and sent (out) over AMQP links", labels=labels
        )
        size = CounterMetricFamily("isthmus_amqp_link_bytes", "bytes of these messages", labels=labels)
        for report in reports:
            for link in report.links:
                values = [self._bridge_id, report.name, link.address, link.direction]
                links.add_metric(values, link.links)
                messages.add_metric(values, link.messages)
                size.add_metric(values, link.bytes)
        yield from (links, messages, size)

    def _of_transactions(self, reports: Sequence[PartReport]) -> Iterator[Metric]:
        labels = ["bridge", "part"]
        count = GaugeMetricFamily(
            "isthmus_transactions_open", "transactions that clients have begun and not ended", labels=labels
        )
        oldest = GaugeMetricFamily(
            "isthmus_transaction_age_max_seconds", "for how long the oldest of them is open", labels=labels
        )
        for report in reports:
            if report.transactions is not None:
                count.add_metric([self._bridge_id, report.name], report.transactions)
                oldest.add_metric([self._bridge_id, report.name], report.oldest_transaction_s)
        yield from (count, oldest)

    def varz(self) -> dict[str, Any]:
        """The document of ``/varz``."""
        now = time.time()
        documents: dict[str, list[dict[str, Any]]] = {"connectors": [], "intakes": [], "routes": []}
        for report in self._reports():
            documents[f"{report.kind}s"].append(_document(report))
        return {
            "bridge": self._bridge_id,
            "start_time": datetime.fromtimestamp(self._started, UTC).isoformat(timespec="seconds"),
            "now": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
            "uptime_s": round(now - self._started),
            **documents,
        }

    def _family(
        self,
        name: str,
        meaning: str,
        reports: Sequence[PartReport],
        values: Callable[[PartReport], Mapping[str, int]],
    ) -> Metric:
        directed = values in (_messages, _bytes)
        labels = ["bridge", "part", "kind", *(["direction"] if directed else [])]
        family = CounterMetricFamily(f"isthmus_part_{name}", meaning, labels=labels)
        for report in reports:
            for direction, value in values(report).items():
                own = [self._bridge_id, report.name, report.kind, *([direction] if directed else [])]
                family.add_metric(own, value)
        return family


def _messages(report: PartReport) -> Mapping[str, int]:
    return {"in": report.taken.messages, "out": report.delivered.messages}


def _bytes(report: PartReport) -> Mapping[str, int]:
    return {"in": report.taken.bytes, "out": report.delivered.bytes}


def _count_of(name: str) -> Callable[[PartReport], Mapping[str, int]]:
    return lambda report: {"": getattr(report, name)}


def _transactions(report: PartReport) -> dict[str, Any]:
    return {
        "transactions": report.transactions,
        "oldest_transaction_s": round(report.oldest_transaction_s, 1),
    }


def _document(report: PartReport) -> dict[str, Any]:
    times = quantiles(report.request_times_s)
    return {
        "name": report.name,
        "system": report.system,
        "connected": report.connected,
        "messages_in": report.taken.messages,
        "bytes_in": report.taken.bytes,
        "messages_out": report.delivered.messages,
        "bytes_out": report.delivered.bytes,
        "dead_letters": report.dead_letters,
        "not_acknowledged": report.not_acknowledged,
        "connects": report.connects,
        "disconnects": report.disconnects,
        "reconnects": report.reconnects,
        **({} if report.lag is None else {"lag": report.lag}),
        **({} if report.transactions is None else _transactions(report)),
        "request_times_ms": {f"p{quantile * 100:g}": round(s * 1000, 3) for quantile, s in times.items()},
    }

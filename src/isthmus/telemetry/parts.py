"""What the parts of a bridge that speak to other systems have done since the start.

In: a function that says how each connector, intake and destination stands now. Out: Prometheus' metrics, and
the document of ``/varz``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

QUANTILES: Final = (0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Flow:
    """What went one way."""

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
        "request_times_ms": {f"p{quantile * 100:g}": round(s * 1000, 3) for quantile, s in times.items()},
    }

"""How a bridge did lately: rates of now, and for each route the last hour, in memory.

In: the document of `isthmus.telemetry.overview`, now and then, whose counts are since the start, and the
router's measured events. Out: the same document with rates and latencies, and points for charts. It costs a
few numbers for each route every `BIN_S`, whatever the traffic.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

from isthmus.telemetry.events import Event

BIN_S: Final = 10.0
HOUR: Final = 360
"""So many bins are kept."""
MINUTE: Final = 6
RATE_S: Final = 5.0
"""Rates are over about this time: long enough to read, short enough to see what happens."""
SAMPLES_A_BIN: Final = 2_000

Document = dict[str, Any]


class Point(NamedTuple):
    """What a route did in a bin."""

    time_s: float
    per_s: float
    failed_per_s: float
    p50_ms: float | None
    p99_ms: float | None


class _Track:
    """One route: its counts at the last bin, and the points before."""

    def __init__(self, published: int, failed: int) -> None:
        self.published = published
        self.failed = failed
        self.points: deque[Point] = deque(maxlen=HOUR)


class History:
    """Fed by one thread with documents, and by another with events."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._recent: deque[tuple[float, dict[str, int]]] = deque()
        self._tracks: dict[str, _Track] = {}
        self._binned_at: float | None = None
        self._lock = Lock()
        self._measured: dict[str, list[float]] = {}
        """The latencies of this bin in ms, by route."""

    def told(self, event: Event) -> None:
        """Take in what the router has measured of a message."""
        if event.latency_s is not None and event.route is not None:
            with self._lock:
                measured = self._measured.setdefault(event.route, [])
                if len(measured) < SAMPLES_A_BIN:
                    measured.append(event.latency_s * 1000)

    def add(self, document: Document) -> None:
        """Take in how things are now, and put rates and latencies into the document."""
        now = self._clock()
        counts = dict(_counts(document))
        while len(self._recent) > 1 and self._recent[1][0] <= now - RATE_S:
            self._recent.popleft()
        if self._recent:
            since, before = self._recent[0]
            _put_rates(document, counts, before, max(now - since, 0.001))
        for route in document["router"]["routes"]:
            route["p50_ms"], route["p99_ms"] = self._latency(route["name"])
        self._recent.append((now, counts))
        if self._binned_at is None:
            self._begin(document, now)
        elif now - self._binned_at >= BIN_S:
            self._bin(document, now, now - self._binned_at)

    def points(self, route: str) -> list[Point]:
        """The last hour of a route, the oldest first."""
        track = self._tracks.get(route)
        return [] if track is None else [*track.points]

    def _latency(self, route: str) -> tuple[float | None, float | None]:
        """The quantiles of the last bin of this minute that has any."""
        track = self._tracks.get(route)
        for point in reversed([] if track is None else [*track.points][-MINUTE:]):
            if point.p50_ms is not None:
                return point.p50_ms, point.p99_ms
        return None, None

    def _begin(self, document: Document, now: float) -> None:
        self._binned_at = now
        for route in document["router"]["routes"]:
            self._tracks[route["name"]] = _Track(route["published"], route["failed"])

    def _bin(self, document: Document, now: float, took_s: float) -> None:
        with self._lock:
            measured, self._measured = self._measured, {}
        tracks = {}
        for route in document["router"]["routes"]:
            name, published, failed = route["name"], route["published"], route["failed"]
            track = tracks[name] = self._tracks.get(name) or _Track(0, 0)
            latencies = sorted(measured.get(name, ()))
            track.points.append(
                Point(
                    round(now, 1),
                    round((published - track.published) / took_s, 2),
                    round((failed - track.failed) / took_s, 2),
                    _quantile(latencies, 0.5),
                    _quantile(latencies, 0.99),
                )
            )
            track.published, track.failed = published, failed
        self._tracks = tracks  # those of routes that are gone go, too
        self._binned_at = now


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


def _counts(document: Document) -> Iterator[tuple[str, int]]:
    router = document["router"]
    yield "journal", router["records"] or 0
    yield "published", router["outcomes"].get("published", 0)
    for route in router["routes"]:
        yield f"published {route['name']}", route["published"]
        yield f"failed {route['name']}", route["failed"]
    for kind in ("connectors", "intakes", "routes"):
        for part in document[kind]:
            yield f"{kind} {part['name']} in", part["messages_in"]
            yield f"{kind} {part['name']} out", part["messages_out"]


def _put_rates(
    document: Document, counts: Mapping[str, int], before: Mapping[str, int], took_s: float
) -> None:
    def rate(name: str) -> float:
        return round(max(0, counts[name] - before.get(name, counts[name])) / took_s, 2)

    router = document["router"]
    router["per_s"] = rate("journal")
    router["published_per_s"] = rate("published")
    for route in router["routes"]:
        route["per_s"] = rate(f"published {route['name']}")
        route["failed_per_s"] = rate(f"failed {route['name']}")
    for kind in ("connectors", "intakes", "routes"):
        for part in document[kind]:
            part["in_per_s"] = rate(f"{kind} {part['name']} in")
            part["out_per_s"] = rate(f"{kind} {part['name']} out")

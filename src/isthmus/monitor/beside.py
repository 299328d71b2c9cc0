"""A bridge whose parts run in other processes, seen from beside them: by their monitors.

In: the addresses of monitors. Out: the reports of their parts and what is wrong with them, as of the last
time that each was asked, once a second; and the AMQP clients and queues that they know, when somebody looks.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec

from isthmus.telemetry.held import HeldTransactions, held_together
from isthmus.telemetry.parts import Clients, Flow, PartReport, QueueReport, clients_together, queues_together

EVERY_S: Final = 1.0
TIMEOUT_S: Final = 5.0

_KINDS: Final[tuple[Literal["connector", "intake", "route"], ...]] = ("connector", "intake", "route")


class Beside:
    """Asks other monitors from the start of a ``with`` block to its end."""

    def __init__(self, urls: Sequence[str], token: str | None) -> None:
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._urls = [url.rstrip("/") for url in urls]
        self._documents: dict[str, dict[str, Any]] = {}
        self._problems: dict[str, Mapping[str, str]] = {}
        self._over = Event()
        self._threads = [
            Thread(target=self._run, args=(url,), name="monitor-beside", daemon=True) for url in self._urls
        ]

    def reports(self) -> list[PartReport]:
        """How the parts of all of them stand."""
        return [
            _report(kind, part)
            for document in self._documents.copy().values()
            for kind in _KINDS
            for part in document.get(f"{kind}s", ())
        ]

    def held(self) -> HeldTransactions | None:
        """What the ledger of any of them holds."""
        told = (each["ledger"] for each in self._documents.copy().values() if "ledger" in each)
        return held_together(
            HeldTransactions(each["transactions"], each["prepared"], each["since_ms"]) for each in told
        )

    def problems(self) -> dict[str, str]:
        """What is wrong with any of them."""
        return {part: why for each in self._problems.copy().values() for part, why in each.items()}

    def clients(self, most: int) -> Clients:
        """Who is connected to the AMQP servers of all of them, so many at most; they are asked now."""
        return clients_together((_clients(each) for each in self._looked()), most)

    def queues(self) -> list[QueueReport]:
        """What these receive from; likewise."""
        return queues_together(msgspec.convert(each["queues"], list[QueueReport]) for each in self._looked())

    def _looked(self) -> list[dict[str, Any]]:
        """What each tells of its clients. One that does not answer is left out: it is a problem already."""
        with ThreadPoolExecutor(max(1, len(self._urls)), thread_name_prefix="monitor-beside") as threads:
            return [each for each in threads.map(self._look, self._urls) if each is not None]

    def _look(self, url: str) -> dict[str, Any] | None:
        with suppress(OSError, ValueError, HTTPException):
            found: dict[str, Any] = self._get(f"{url}/api/clients")
            return found if "queues" in found else None
        return None

    def _run(self, url: str) -> None:
        while True:
            try:
                document = self._get(f"{url}/varz")
                if "router" not in document:
                    raise ValueError("there is no router in it")
                self._documents[url] = document
                self._problems[url] = self._get(f"{url}/healthz")["problems"]
            except OSError as error:
                self._problems[url] = {url: f"does not answer: {error}"}
            except (ValueError, LookupError, TypeError, HTTPException) as error:
                self._problems[url] = {url: f"does not answer as a bridge's monitor does: {error!r:.200}"}
            if self._over.wait(EVERY_S):
                return

    def _get(self, url: str) -> Any:
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 503:  # which is how it says that something is wrong
                    raise
                return json.loads(error.read())

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()


def _clients(told: Mapping[str, Any]) -> Clients:
    return msgspec.convert({"connected": told["connected"], "shown": told["clients"]}, Clients)


def _report(kind: Literal["connector", "intake", "route"], part: Mapping[str, Any]) -> PartReport:
    return PartReport(
        name=part["name"],
        kind=kind,
        system=part["system"],
        connected=part["connected"],
        taken=Flow(part["messages_in"], part["bytes_in"]),
        delivered=Flow(part["messages_out"], part["bytes_out"]),
        dead_letters=part["dead_letters"],
        not_acknowledged=part["not_acknowledged"],
        connects=part["connects"],
        disconnects=part["disconnects"],
        reconnects=part["reconnects"],
        lag=part.get("lag"),
        transactions=part.get("transactions"),
        oldest_transaction_s=part.get("oldest_transaction_s", 0.0),
    )

"""A receiver that remembers what it got."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from isthmus.edges.amqp.server.receivers.record_source import PolledRecord


class Receiver:
    """Takes what arrives."""

    def __init__(self) -> None:
        self.taken: list[PolledRecord] = []
        self.idles = 0
        self.failures: list[str] = []

    @property
    def values(self) -> list[bytes | None]:
        return [each.record.value for each in self.taken]

    def on_records(self, taken: Sequence[PolledRecord], *, redelivered: bool = False) -> None:
        self.taken += taken

    def on_idle(self) -> None:
        self.idles += 1

    def on_revoked(self, partitions: Collection[int]) -> None: ...

    def on_failed(self, condition: str, description: str) -> None:
        self.failures.append(condition)

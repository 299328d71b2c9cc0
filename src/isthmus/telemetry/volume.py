"""How many bytes went a way on which only some messages are measured."""

from __future__ import annotations

from typing import Final

WEIGHT: Final = 0.125
"""Of the latest measurement in the size that others are taken to have."""


class Volume:
    """Adds up what messages have by the sizes of those that were measured. It never falls."""

    def __init__(self) -> None:
        self._size: float | None = None
        self._bytes = 0.0
        self._messages = 0
        """How many of them are added up."""

    def measure(self, size: int, messages: int) -> None:
        """Note the size of one message, when there were so many in all."""
        self.until(messages)
        self._size = float(size) if self._size is None else self._size + WEIGHT * (size - self._size)

    def until(self, messages: int) -> float:
        """The bytes of so many messages."""
        if self._size is not None and messages > self._messages:
            self._bytes += (messages - self._messages) * self._size
            self._messages = messages
        return self._bytes

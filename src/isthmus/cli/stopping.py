"""How SIGINT and SIGTERM end a bridge: the first in good order, also while it starts, the second at once."""

from __future__ import annotations

import os
import signal
from threading import Event
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR: Final = b"\x1b[?25h"


class Stopped(KeyboardInterrupt):
    """A signal came during the start. What was started so far is to be stopped."""


class Stop:
    """Takes the signals, from `take_signals` on. To be used on the main thread.

    Until `started`, the first signal raises `Stopped` wherever the start is; from then on it sets ``asked``.
    The second one ends the process. Servers that it started end with it: see `isthmus.embedded.guard`.
    """

    def __init__(self) -> None:
        self.asked = Event()
        self._starting = True

    def take_signals(self) -> None:
        """Take the signals. To be called again where a library may have taken them for itself."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def started(self) -> None:
        """The start is over. Raises `Stopped` if a signal came that something on the way kept to itself."""
        self._starting = False
        self.take_signals()
        if self.asked.is_set():
            raise Stopped

    def stopping(self) -> None:
        """From now on every signal ends the process at once."""
        self._starting = False
        self.asked.set()
        self.take_signals()

    def _on_signal(self, number: int, _: object) -> None:
        if self.asked.is_set():
            if os.isatty(1):
                os.write(1, _SHOW_CURSOR)  # which a panel has hidden
            os._exit(128 + number)
        self.asked.set()
        if self._starting:
            raise Stopped

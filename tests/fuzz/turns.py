"""An event loop that knows how long its turns take."""

from __future__ import annotations

import asyncio
import time


class MeasuredLoop(asyncio.SelectorEventLoop):
    """Times every turn by the CPU time of its thread: what waits, or is kept waiting, does not count."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_s = 0.0
        self.counting = False

    def _run_once(self) -> None:
        before = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        if self.counting:
            self.longest_s = max(self.longest_s, time.thread_time() - before)

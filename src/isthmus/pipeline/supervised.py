"""A query that is looked after: started again, after a pause, when what ended it may pass.

In: how to start it, and what its exceptions mean. Each start goes on from the query's checkpoint, so nothing
is lost in between. A query that ends by itself has done its part, and the next start follows at once. What
cannot pass is raised, and ends the bridge.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

from isthmus.errors import HardFailure, Outage
from isthmus.events.pipeline import QueryEnded, QueryRunsAgain, QueryStarted

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
STEADY_S = 60.0
"""After so long without a failure the next one is the first one again."""


class Supervised:
    """One query, by its name. Call `poll` now and then."""

    def __init__(
        self,
        name: str,
        start: Callable[[], StreamingQuery],
        explain: Callable[[str], HardFailure],
        *,
        on_restart: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._start = start
        self._explain = explain
        """What an exception's text means: an `Outage` if the query is to start again."""
        self._on_restart = on_restart
        """Told the name when it runs again after a failure, or because somebody asked for it."""
        self._clock = clock
        self._query: StreamingQuery | None = None
        self._outage: Outage | None = None
        self._interrupted = False
        """Whether the query was ended before it had done its part."""
        self._pause_s = FIRST_PAUSE_S
        self._due = 0.0
        """When to start again, while there is an outage; before that, since when the query runs."""

    @property
    def query(self) -> StreamingQuery | None:
        """The query as it runs, or ran last."""
        return self._query

    @property
    def problem(self) -> str | None:
        """What is wrong, in a few words; None while the query runs."""
        if self._outage is not None:
            return f"waits, and starts again: {self._outage}"
        if self._query is None:
            return "not started"
        return None if self._query.isActive else f"the {self.name} has stopped"

    def start(self) -> None:
        """Start the query. Raises `HardFailure` when that cannot be done."""
        self._query = self._start()
        self._outage = None
        self._due = self._clock()
        QueryStarted(self.name).emit()

    def poll(self) -> None:
        """Start the query again if it is time. Raises `HardFailure` once it cannot go on."""
        if self._outage is not None:
            if self._clock() >= self._due:
                self._start_again()
        elif self._query is not None and not self._query.isActive:
            error = self._query.exception()
            failure = None if error is None else self._explain(str(error))
            self._interrupted = self._interrupted or error is not None
            if isinstance(failure, Outage):
                self._wait(failure)
            elif failure is not None:
                raise failure
            else:
                self._start_again()

    def restart(self) -> None:
        """Stop the query; the next `poll` starts it again."""
        if self._query is not None:
            self._interrupted = self._interrupted or self._query.isActive
            self._query.stop()

    def stop(self) -> None:
        """Stop the query. The next start goes on from its checkpoint."""
        if self._query is not None:
            self._query.stop()
            self._query = None

    def _start_again(self) -> None:
        had_outage = self._outage is not None
        try:
            self.start()
        except Outage as outage:
            self._wait(outage)
        else:
            if self._interrupted:  # one that has caught up is followed by the next, as it should be
                self._interrupted = False
                self._on_restart(self.name)
            if had_outage:
                QueryRunsAgain(self.name).emit()

    def _wait(self, outage: Outage) -> None:
        now = self._clock()
        if self._outage is None and now - self._due >= STEADY_S:
            self._pause_s = FIRST_PAUSE_S
        self._outage, self._due = outage, now + self._pause_s
        QueryEnded(self.name, self._pause_s, outage).emit()
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

"""The bridge as a whole."""

from __future__ import annotations

from isthmus.events import Event


class Starting(Event, level="info", text="bridge %(bridge)s starts with %(routes)d routes"):
    """The configuration is good, and the parts are being started."""

    bridge: str
    routes: int


class Started(Event, level="info", text="bridge %(bridge)s has started"):
    """All parts run."""

    bridge: str


class Stopping(Event, level="info", text="bridge %(bridge)s stops"):
    """Somebody asked for it. What is in flight is finished first."""

    bridge: str


class Stopped(Event, level="info", text="bridge %(bridge)s has stopped"):
    """All parts have ended in good order."""

    bridge: str


class Failed(Event, level="critical", text="%(error)s"):
    """What ended the process, with what to do about it. As text, people see it without this line."""

    error: str
    remedy: str | None


class LockHeld(Event, level="info", text="bridge %(bridge)s holds its lock in Kafka"):
    """No other process can run the pipeline of this bridge; also the end of `bridge.lock_uncertain`."""

    bridge: str


class LockUncertain(
    Event, level="warning", text="bridge %(bridge)s may have lost its lock in Kafka: %(error)s"
):
    """Kafka could not be told that this process still has the lock. Told once, until it holds it again."""

    bridge: str
    error: str


class SystemAwaited(Event, level="warning", text="%(problem)s: the bridge starts, and waits for it"):
    """A system did not answer when the start tried it."""

    problem: str


class Reloaded(Event, level="warning", text="reloaded: %(routes)d routes, in %(seconds).1f s"):
    """The bridge goes by its configuration as it is now."""

    routes: int
    seconds: float


class ReloadUnfinished(
    Event,
    level="error",
    text="the router goes by the changed configuration, the edges take what both old and new routes take: "
    "%(error)s",
):
    """What edges need of the changed configuration could be used when it was tried, and not any more."""

    error: object


class ReloadRefused(
    Event,
    level="error",
    text="the configuration is not reloaded, and the bridge goes on as it was: %(error)s",
):
    """The configuration has mistakes, or needs a restart."""

    error: object

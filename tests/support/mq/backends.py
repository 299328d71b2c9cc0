"""The queue managers that one contract is tried on: in memory, IBM's binding on `mqi.c`, and a real one."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Protocol

from isthmus.edges.mq.ibm import ClientOptions, IbmQueueManager
from isthmus.edges.mq.port import QueueManager
from isthmus.testing.queue_manager import MemoryQueueManager

REAL_QUEUES = ("DEV.QUEUE.1", "DEV.QUEUE.2")
"""What IBM's developer image defines. A real queue manager needs these two; they are emptied."""


class NotPossible(Exception):
    """The queue manager cannot be made to do that: the test is skipped for it."""


class Backend(Protocol):
    """A queue manager, and what a test does to it."""

    queue_manager: QueueManager
    topic: str
    """The topic string below which one may publish and subscribe."""

    def queue(self, number: int, **attributes: Any) -> str:
        """The name of an empty queue with these attributes."""
        ...

    def model_queue(self) -> str: ...
    def restart(self) -> None: ...
    def break_connections(self) -> None: ...
    def fail_next_commit(self, reason: int, *, after: bool) -> None: ...
    def stop(self) -> None: ...
    def start(self) -> None: ...


class Memory:
    """The in-memory queue manager."""

    topic = "isthmus/test"

    def __init__(self) -> None:
        self.queue_manager = self._manager = MemoryQueueManager("MEMORY")
        self.restart = self._manager.restart
        self.break_connections = self._manager.break_connections
        self.stop = self._manager.stop
        self.start = self._manager.start

    def queue(self, number: int, **attributes: Any) -> str:
        return self._manager.define_queue(f"TEST.{number}", **attributes).name

    def model_queue(self) -> str:
        return self._manager.define_queue("TEST.MODEL", model=True).name

    def fail_next_commit(self, reason: int, *, after: bool) -> None:
        self._manager.fail_next_commit(reason, when="after" if after else "before")


class StandIn:
    """IBM's binding on our own library."""

    topic = "isthmus/test"

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self._library.stand_in_reset()
        self.queue_manager = IbmQueueManager(ClientOptions(queue_manager="STANDIN", library=str(library)))

    def queue(self, number: int, **attributes: Any) -> str:
        return self._define(f"TEST.{number}", **attributes)

    def model_queue(self) -> str:
        return self._define("TEST.MODEL", model=True)

    def _define(self, name: str, **attributes: Any) -> str:
        denied = attributes.get("denied", ())
        self._library.stand_in_define_queue(
            name.encode(),
            attributes.get("max_depth", 5000),
            attributes.get("max_message_bytes", 4 * 1024 * 1024),
            attributes.get("backout_threshold", 0),
            attributes.get("backout_queue", "").encode(),
            attributes.get("default_persistence", 0),
            int(attributes.get("model", False)),
            int("put" in denied),
            int("get" in denied),
        )
        return name

    def restart(self) -> None:
        self._library.stand_in_restart()

    def break_connections(self) -> None:
        self._library.stand_in_break_connections()

    def fail_next_commit(self, reason: int, *, after: bool) -> None:
        self._library.stand_in_fail_next_commit(reason, int(after))

    def stop(self) -> None:
        self._library.stand_in_restart()
        self._library.stand_in_stop(1)

    def start(self) -> None:
        self._library.stand_in_stop(0)

    def open_handles(self) -> int:
        """How many message handles nobody has deleted."""
        return int(self._library.stand_in_open_handles())


class Real:
    """The queue manager that MQSERVER names: one of IBM's developer image, or like it."""

    topic = "dev/isthmus"

    def __init__(self) -> None:
        self.queue_manager = IbmQueueManager(
            ClientOptions(
                queue_manager=os.environ.get("MQ_QUEUE_MANAGER", ""),
                user=os.environ.get("MQ_USER", ""),
                password=os.environ.get("MQ_PASSWORD", ""),
                library=os.environ.get("MQ_LIBRARY", ""),
            )
        )

    def queue(self, number: int, **attributes: Any) -> str:
        if attributes:
            raise NotPossible("a real queue manager's queues are not redefined")
        name = REAL_QUEUES[number - 1]
        connection = self.queue_manager.connect()
        try:
            source = connection.open_queue(name)
            while source.get() is not None:
                connection.commit()
        finally:
            connection.disconnect()
        return name

    def model_queue(self) -> str:
        return "DEV.APP.MODEL.QUEUE"

    def restart(self) -> None:
        raise NotPossible("a real queue manager is not restarted")

    def break_connections(self) -> None:
        raise NotPossible("a real queue manager's connections are not broken")

    def fail_next_commit(self, reason: int, *, after: bool) -> None:
        raise NotPossible("a real queue manager's commits are not made to fail")

    stop = start = restart


def build_stand_in(folder: Path) -> Path:
    """Compile the library. There must be a C compiler."""
    library = folder / "libmqm_r.so"
    source = Path(__file__).parent / "mqi.c"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared"]
    # The binding asks for the library by this name, and takes one that is loaded already.
    name = "-Wl,-soname,libmqm_r.so"
    subprocess.run(["gcc", *flags, name, "-o", str(library), str(source), "-lpthread"], check=True)
    return library


def why_no_stand_in() -> str | None:
    """Why the binding cannot run on our library here; None if it can."""
    if "MQSERVER" in os.environ:
        return "MQSERVER names a real queue manager: IBM's own library is in this process"
    if shutil.which("gcc") is None:
        return "there is no gcc to build the library with the MQI's entry points"
    return None

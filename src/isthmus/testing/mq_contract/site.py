"""Where the checks of a queue manager take place, and what they say what they find with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from isthmus.edges.mq.descriptor import Mqmd, MqMessage
from isthmus.edges.mq.port import Connection, QueueManager, QueueTarget, Source
from isthmus.errors import MqError

WAIT_S: Final = 10.0
"""How long a message that must be there is waited for."""


class ContractBroken(Exception):
    """What was found, and what should have been."""


@dataclass(slots=True)
class Site:
    """Where the checks take place. ``close`` it after each."""

    manager: QueueManager
    queue: str = "DEV.QUEUE.1"
    model_queue: str = "DEV.APP.MODEL.QUEUE"
    topic: str = "dev/isthmus"
    _connections: list[Connection] = field(default_factory=list)

    def connect(self) -> Connection:
        """A connection of the check's own."""
        self._connections.append(self.manager.connect())
        return self._connections[-1]

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections:
            connection.disconnect()
        self._connections.clear()


def expect(found: object, wanted: object, what: str = "") -> None:
    """Raise `ContractBroken` unless the two are equal."""
    if found != wanted:
        prefix = f"{what}: " if what else ""
        raise ContractBroken(f"{prefix}found {_short(found)}, expected {_short(wanted)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def put(connection: Connection, queue: str, *bodies: bytes, **fields: Any) -> None:
    """Put messages with such fields in their descriptors, and commit."""
    for body in bodies:
        connection.put(QueueTarget(queue), MqMessage(descriptor=Mqmd(**fields), body=body))
    connection.commit()


def drain(connection: Connection, source: Source) -> list[bytes]:
    """All that a source has, committed."""
    bodies = []
    while (message := source.get()) is not None:
        bodies.append(message.body)
    connection.commit()
    return bodies


def got(source: Source) -> MqMessage:
    """A message that must be there."""
    message = source.get(WAIT_S)
    if message is None:
        raise ContractBroken("no message, where there must be one")
    return message


def reason_of(call: Callable[[], object]) -> int:
    """The reason for which MQ refuses."""
    try:
        call()
    except MqError as error:
        return error.reason
    raise ContractBroken("MQ does not refuse it")

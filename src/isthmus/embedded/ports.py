"""Ports of this machine for servers that Isthmus runs itself."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

from isthmus.errors import HardFailure

HOST = "127.0.0.1"

# Below the ports that systems give to outgoing connections: a client that keeps trying to reconnect to a
# port of that range can be given that very port, and then talks to itself.
_PORTS = range(20_000, 32_000)


def free_port(*wanted: int) -> int:
    """The first wanted port that is free, else a random one that is. `HardFailure` when there is none."""
    for port in _candidates(*wanted):
        if _is_free(port):
            return port
    raise HardFailure(f"All ports of {HOST} are taken.", remedy="See by whom: ss -ltnp")


def _candidates(*wanted: int) -> Iterator[int]:
    yield from wanted
    yield from random.sample(_PORTS, 100)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections of the last server that linger must not count as "taken".
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True

"""The AMQP server as several processes on one port: each takes its share of the connections.

The kernel gives a connection to one of them, where it stays: its sessions, transactions and temporary queues
are that process's own. What several connections share is in Kafka. A worker that dies is started again; its
clients connect anew, and end up at any.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import socket
import sys
from collections import Counter
from contextlib import ExitStack
from typing import Any

from isthmus.config import Settings
from isthmus.edges.amqp.server.service import report_of
from isthmus.errors import HardFailure
from isthmus.kafka.options import Kafka
from isthmus.telemetry.parts import PartReport

log = logging.getLogger(__name__)

RESTART_S = 1.0
"""How long a worker that died is waited for to be missed: one that dies at once must not keep a core busy."""
STOP_S = 25.0
"""How long a worker may take to end in good order."""


class AmqpWorkers:
    """Takes AMQP connections, from `run` until that is cancelled."""

    def __init__(self, settings: Settings, kafka: Kafka) -> None:
        self.ready = asyncio.Event()
        self.restarts = 0
        self.ports: list[int] = []
        """The ports that it listens on: without TLS first."""
        self._settings = settings
        self._kafka = kafka
        self._up: dict[int, int] = {}
        self._counts: dict[int, Counter[str]] = {}
        self._counted: Counter[str] = Counter()

    @property
    def pids(self) -> list[int]:
        """The processes that take connections now."""
        return list(self._up.values())

    async def run(self) -> None:
        """Serve until cancelled. Raises `HardFailure` when it cannot listen."""
        with ExitStack() as reserved:
            settings = self._reserve(reserved)
            given = pickle.dumps((settings, self._kafka))
            workers = [asyncio.create_task(self._keep(n, given)) for n in range(self._settings.amqp.workers)]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    def counts(self) -> Counter[str]:
        """What all workers counted, those that are gone among them; ``connections`` are those of now."""
        return sum(self._counts.values(), self._counted)

    def report(self) -> PartReport:
        """How it stands."""
        return report_of(self.counts(), connected=len(self._up) == self._settings.amqp.workers)

    def _reserve(self, reserved: ExitStack) -> Settings:
        """Take the ports, without listening, so that they are the same for every worker that ever starts."""
        amqp, amqps = self._settings.amqp, self._settings.amqps
        plain = self._bind(amqp.port, reserved) if amqp.enabled else amqp.port
        secure = None if amqps.port is None else self._bind(amqps.port, reserved)
        ws = None if amqp.ws_port is None else self._bind(amqp.ws_port, reserved)
        wss = None if amqps.ws_port is None else self._bind(amqps.ws_port, reserved)
        return self._settings.model_copy(
            update={
                "amqp": amqp.model_copy(update={"port": plain, "ws_port": ws}),
                "amqps": amqps.model_copy(update={"port": secure, "ws_port": wss}),
            }
        )

    def _bind(self, port: int, reserved: ExitStack) -> int:
        host = self._settings.amqp.host
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            taken = reserved.enter_context(socket.socket(family, kind))
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            taken.bind(address)
        except OSError as error:
            raise HardFailure(
                f"the AMQP server cannot listen on {host}:{port}: {error.strerror}",
                remedy="set amqp.host and amqp.port; port 0 takes any that is free",
            ) from None
        self.ports.append(taken.getsockname()[1])
        return self.ports[-1]

    async def _keep(self, number: int, given: bytes) -> None:
        """Have one worker, again and again."""
        while True:
            exit_code = await self._run_one(number, given)
            self._counted += self._counts.pop(number, Counter())
            del self._counted["connections"]
            self.restarts += 1
            log.warning("an AMQP worker ended with exit code %d, and is started again", exit_code)
            await asyncio.sleep(RESTART_S)

    async def _run_one(self, number: int, given: bytes) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "isthmus.edges.amqp.server.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(len(given).to_bytes(8, "big") + given)
            async for line in process.stdout:
                self._heard(number, process.pid, json.loads(line))
            return await process.wait()
        finally:
            self._up.pop(number, None)
            await _end(process)

    def _heard(self, number: int, pid: int, said: dict[str, Any]) -> None:
        if "failure" in said:
            raise HardFailure(said["failure"], remedy=said["remedy"])
        if "ready" in said:
            self._up[number] = pid
            if len(self._up) == self._settings.amqp.workers:
                self.ready.set()
        else:
            self._counts[number] = Counter(said["counts"])


async def _end(process: asyncio.subprocess.Process) -> None:
    """Tell a worker to stop, by the end of its input, and wait for it; but not for ever.

    All that it says is read to the end: else its pipe outlives it, and the loop.
    """
    if process.stdin is not None:
        process.stdin.close()  # `communicate` does so only from Python 3.12 on
    try:
        await asyncio.wait_for(process.communicate(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.communicate()
    except asyncio.CancelledError:  # nobody has the time to wait: it must not be left behind all the same
        if process.returncode is None:
            process.kill()
        await process.wait()
        raise
    finally:
        # The loop may have but this turn left to close the pipes.
        process._transport.close()  # type: ignore[attr-defined]
        await asyncio.sleep(0)

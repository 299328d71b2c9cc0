"""The AMQP server as several processes on one port: each takes its share of the connections.

The kernel gives a connection to one of them, where it stays: its sessions, transactions and temporary queues
are that process's own. What several connections share is in Kafka. A worker that dies is started again; its
clients connect anew, and end up at any.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import sys
from contextlib import ExitStack
from typing import Any, TypeVar

import msgspec

from isthmus.config import Settings
from isthmus.edges.amqp.server.pipe import framed, read_frame
from isthmus.edges.amqp.server.service import report_of
from isthmus.edges.amqp.server.traffic import ServerFigures, together
from isthmus.errors import ConfigError, HardFailure
from isthmus.events import add_counts
from isthmus.events.amqp import WorkerEnded
from isthmus.kafka.options import Kafka
from isthmus.telemetry.parts import Clients, PartReport, QueueReport, clients_together, queues_together

T = TypeVar("T")

RESTART_S = 1.0
"""How long a worker that died is waited for to be missed: one that dies at once must not keep a core busy."""
CHANGE_S = 10.0
"""How long workers may take to go by other settings."""
LOOK_S = 4.0
"""How long they may take to say who is connected. One that does not say is left out."""
STOP_S = 25.0
"""How long a worker may take to end in good order."""
UNAWAITED = 0
"""The number of requests whose answer nobody waits for."""


class AmqpWorkers:
    """Takes AMQP connections, from `run` until that is cancelled."""

    def __init__(self, settings: Settings, kafka: Kafka) -> None:
        self.ready = asyncio.Event()
        self.restarts = 0
        self.ports: list[int] = []
        """The ports that it listens on: without TLS first."""
        self._settings = self._bound = settings
        """As they were given, and with the ports that they came to."""
        self._kafka = kafka
        self._up: dict[int, int] = {}
        self._figures: dict[int, ServerFigures] = {}
        self._ended = together(())
        """What those counted that are gone."""
        self._problems: dict[int, str | None] = {}
        self._given = b""
        """What a worker that starts is told."""
        self._changed: tuple[Settings, bool] | None = None
        """What workers were last asked to change to, and whether narrowly."""
        self._inputs: dict[int, asyncio.StreamWriter] = {}
        self._requests = 0
        self._awaited: dict[int, dict[int, asyncio.Future[Any]]] = {}
        """By worker, the answers to requests that it was sent."""

    @property
    def pids(self) -> list[int]:
        """The processes that take connections now."""
        return list(self._up.values())

    async def run(self) -> None:
        """Serve until cancelled. Raises `HardFailure` when it cannot listen."""
        with ExitStack() as reserved:
            settings = self._reserve(reserved)
            self._bound = settings
            self._given = pickle.dumps((settings, self._kafka))
            workers = [asyncio.create_task(self._keep(n)) for n in range(self._settings.amqp.workers)]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    def figures(self) -> ServerFigures:
        """What all workers counted, those that are gone among them, and what is open now."""
        return together((self._ended, *self._figures.copy().values()))

    @property
    def problem(self) -> str | None:
        """Why some or all of them take no messages at the moment, if so."""
        wanted = self._settings.amqp.workers
        if len(self._up) < wanted:
            return f"{len(self._up)} of {wanted} workers listen"
        return next((problem for problem in self._problems.copy().values() if problem), None)

    async def clients(self, most: int) -> Clients:
        """Who is connected to any of them, and on which links; so many are shown at most."""
        return clients_together(await self._look(Clients, "clients", most), most)

    async def queues(self) -> list[QueueReport]:
        """What somebody receives from. One whose Kafka does not answer is left out."""
        return queues_together(await self._look(list[QueueReport], "queues"))

    def report(self) -> PartReport:
        """How it stands."""
        return report_of(self.figures(), connected=len(self._up) == self._settings.amqp.workers)

    def _reserve(self, reserved: ExitStack) -> Settings:
        """Take the ports, without listening, so that they are the same for every worker that ever starts."""
        amqp, amqps = self._settings.amqp, self._settings.amqps
        plain = self._bind(amqp.port, reserved) if amqp.enabled else amqp.port
        secure = None if amqps.port is None else self._bind(amqps.port, reserved)
        ws = None if amqp.ws_port is None else self._bind(amqp.ws_port, reserved)
        wss = None if amqps.ws_port is None else self._bind(amqps.ws_port, reserved)
        return self._settings.replace(
            amqp=amqp.replace(port=plain, ws_port=ws), amqps=amqps.replace(port=secure, ws_port=wss)
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

    async def change(self, settings: Settings, *, narrowly: bool = False) -> None:
        """Have every worker `AmqpService.change`. Raises `ConfigError` with what one of them says.

        One that is starting is not waited for: it does so once it listens.
        """
        amqp = self._bound.amqp.replace(users_file=settings.amqp.users_file)
        bound = self._bound.amqps
        settings = settings.replace(
            amqp=amqp, amqps=settings.amqps.replace(port=bound.port, ws_port=bound.ws_port)
        )
        if not narrowly:
            self._bound = settings
            self._given = pickle.dumps((settings, self._kafka))
        self._changed = settings, narrowly
        answers = self._ask("change", settings, narrowly)
        async with asyncio.timeout(CHANGE_S):
            for answer in await asyncio.gather(*answers):
                if "failure" in answer:
                    raise ConfigError(answer["failure"])

    async def _look(self, kind: type[T], verb: str, *arguments: object) -> list[T]:
        """What each worker knows, of those that say so in time."""
        answers = self._ask(verb, *arguments)
        if answers:
            await asyncio.wait(answers, timeout=LOOK_S)
        said = [each.result() for each in answers if each.done()]
        return [msgspec.convert(each["found"], kind) for each in said if "found" in each]

    def _ask(self, verb: str, *arguments: object) -> list[asyncio.Future[Any]]:
        """Send a request to every worker that listens; gives their answers.

        That of a worker which ends before it has answered is empty.
        """
        self._requests += 1
        number = self._requests
        request = framed(pickle.dumps((number, verb, arguments)))
        answers = []
        for worker in self._up:
            answer = asyncio.get_running_loop().create_future()
            self._awaited.setdefault(worker, {})[number] = answer
            self._inputs[worker].write(request)
            answers.append(answer)
        return answers

    async def _keep(self, number: int) -> None:
        """Have one worker, again and again."""
        while True:
            exit_code = await self._run_one(number)
            self._problems.pop(number, None)
            if (figures := self._figures.pop(number, None)) is not None:
                self._ended = together((self._ended, figures.after_its_end()))
            self.restarts += 1
            WorkerEnded(exit_code).emit()
            await asyncio.sleep(RESTART_S)

    async def _run_one(self, number: int) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "isthmus.edges.amqp.server.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(framed(self._given))
            self._inputs[number] = process.stdin
            while (said := await read_frame(process.stdout)) is not None:
                self._heard(number, process.pid, msgspec.json.decode(said))
            return await process.wait()
        finally:
            self._up.pop(number, None)
            for answer in [*self._awaited.pop(number, {}).values()]:
                if not answer.done():
                    answer.set_result({})
            await _end(process)

    def _heard(self, number: int, pid: int, said: dict[str, Any]) -> None:
        if "answers" in said:
            answer = self._awaited.get(number, {}).pop(said["answers"], None)
            if answer is not None and not answer.done():
                answer.set_result(said)
        elif "failure" in said:
            raise HardFailure(said["failure"], remedy=said["remedy"])
        elif "ready" in said:
            if self._changed is not None:  # what it was given may be older, and is never narrow
                self._inputs[number].write(framed(pickle.dumps((UNAWAITED, "change", self._changed))))
            self._up[number] = pid
            if len(self._up) == self._settings.amqp.workers:
                self.ready.set()
        else:
            self._figures[number] = msgspec.convert(said["figures"], ServerFigures)
            add_counts(said["events"])
            self._problems[number] = said["problem"]


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

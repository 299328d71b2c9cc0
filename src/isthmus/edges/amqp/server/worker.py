"""One worker of the AMQP server: a process that shares its port with others. `workers` starts it.

In, on standard input: the settings and the way to Kafka, pickled; then requests, each a number, a verb and
its arguments. The end of the input means stop, so that a worker ends with its owner, however that ends. Out,
on standard output, as JSON: ``ready``, then now and then what was counted, and what ``answers`` a request; or
a ``failure`` and its ``remedy``. Each of these is a frame of `isthmus.edges.amqp.server.pipe`.

| verb | arguments | answer |
|---|---|---|
| ``change`` | those of `AmqpService.change` | ``failure`` if it is refused |
| ``clients`` | how many to show | ``found``: a `Clients` |
| ``queues`` | | ``found``: a list of `QueueReport`; or ``failure`` if Kafka does not answer |
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import sys
from typing import Any

import msgspec

from isthmus.config import Settings
from isthmus.edges.amqp.server.pipe import first_frame, framed, read_frame
from isthmus.edges.amqp.server.service import AmqpService
from isthmus.edges.dead_letters import EdgeDeadLetters
from isthmus.edges.running import run_together
from isthmus.edges.traced import open_journal
from isthmus.errors import HardFailure, IsthmusError
from isthmus.events import take_counts
from isthmus.kafka.options import Kafka
from isthmus.logs import configure_as_owner
from isthmus.telemetry.traces import traces_of

TELL_S = 0.5
"""How often it tells what was counted."""


def main() -> None:
    """Serve until standard input ends, or SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who then ends the input
    configure_as_owner()
    settings, kafka = pickle.loads(first_frame(sys.stdin.buffer))
    try:
        asyncio.run(_serve(settings, kafka))
    except IsthmusError as failure:
        remedy = failure.remedy if isinstance(failure, HardFailure) else "mend the configuration"
        _say(failure=str(failure), remedy=remedy)
        sys.exit(HardFailure.exit_code)


async def _serve(settings: Settings, kafka: Kafka) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    commands = asyncio.StreamReader()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    traces = traces_of(settings.otel, settings.bridge_id)
    journal = await open_journal(settings, kafka, traces)
    dead_letters = EdgeDeadLetters(settings, kafka)
    service = AmqpService(settings, kafka, journal, dead_letters, shares_port=True, traces=traces)
    others = [loop.create_task(_obey(commands, service, stop)), loop.create_task(_tell(service))]
    try:
        await run_together({"amqp": service}, stop)
    finally:
        for task in others:
            task.cancel()
        await dead_letters.close()
        await journal.close()
        if traces is not None:
            await asyncio.to_thread(traces.close)
        pipe.close()


async def _obey(requests: asyncio.StreamReader, service: AmqpService, stop: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as answering:
        while (request := await read_frame(requests)) is not None:
            answering.create_task(_answer(service, *pickle.loads(request)))
        stop.set()


async def _answer(service: AmqpService, number: int, verb: str, arguments: tuple[Any, ...]) -> None:
    """Do what is asked, while other requests are served: one that has to ask Kafka may take its time."""
    try:
        found: object = None
        if verb == "change":
            settings, narrowly = arguments
            await service.change(settings, narrowly=narrowly)
        elif verb == "clients":
            found = await service.clients(*arguments)
        else:
            found = await service.queues()
    except Exception as failure:  # whatever it is, the owner waits for an answer
        _say(answers=number, failure=str(failure))
    else:
        _say(answers=number, found=found)


async def _tell(service: AmqpService) -> None:
    await service.ready.wait()
    _say(ready=True)
    while True:
        await asyncio.sleep(TELL_S)
        _say(figures=service.figures(), events=take_counts(), problem=service.problem)


def _say(**what: object) -> None:
    try:
        sys.stdout.buffer.write(framed(msgspec.json.encode(what)))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        return  # the owner is gone, which the end of the input says too


if __name__ == "__main__":
    main()

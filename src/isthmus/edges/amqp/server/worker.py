"""One worker of the AMQP server: a process that shares its port with others. `workers` starts it.

In, on standard input: the settings and the way to Kafka, pickled, behind their length in eight bytes. Its end
means stop, so that a worker ends with its owner, however that ends. Out, on standard output: one JSON object
for each line, ``ready``, then now and then what was counted; or a ``failure`` and its ``remedy``.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import signal
import sys

from isthmus.config import Settings
from isthmus.edges.amqp.server.service import AmqpService
from isthmus.edges.dead_letters import EdgeDeadLetters
from isthmus.edges.journal import EdgeJournal
from isthmus.edges.running import run_together
from isthmus.errors import HardFailure, IsthmusError
from isthmus.kafka.options import Kafka

TELL_S = 0.5
"""How often it tells what was counted."""


def main() -> None:
    """Serve until standard input ends, or SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who then ends the input
    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    settings, kafka = pickle.loads(sys.stdin.buffer.read(size))
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
    journal = await EdgeJournal.open(kafka, settings.journal, as_json=settings.uses_json)
    dead_letters = EdgeDeadLetters(settings, kafka)
    service = AmqpService(settings, kafka, journal, dead_letters, shares_port=True)
    others = [loop.create_task(_stop_at_the_end(commands, stop)), loop.create_task(_tell(service))]
    try:
        await run_together({"amqp": service}, stop)
    finally:
        for task in others:
            task.cancel()
        await dead_letters.close()
        await journal.close()
        pipe.close()


async def _stop_at_the_end(commands: asyncio.StreamReader, stop: asyncio.Event) -> None:
    await commands.read()
    stop.set()


async def _tell(service: AmqpService) -> None:
    await service.ready.wait()
    _say(ready=True)
    while True:
        await asyncio.sleep(TELL_S)
        _say(counts=service.counts())


def _say(**what: object) -> None:
    try:
        sys.stdout.write(f"{json.dumps(what)}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        return  # the owner is gone, which the end of the input says too


if __name__ == "__main__":
    main()

"""``isthmus doctor``: what this machine has of what a bridge needs, and what has not been tried.

Exit 0 if a bridge could run, 1 if something that it needs is missing.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from isthmus.cli.bridge import ConfigFile, kafka_folder, read_settings
from isthmus.config import Settings
from isthmus.errors import IsthmusError

if TYPE_CHECKING:
    from isthmus.kafka.options import Kafka

NOT_TRIED = "no real queue manager has been tried with this version: try yours with --mq-contract"

_STYLES = {"ok": "green", "note": "yellow", "missing": "bold red"}


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    state: Literal["ok", "note", "missing"]
    said: str


def doctor(
    file: ConfigFile = None,
    mq_contract: Annotated[
        bool,
        typer.Option(
            "--mq-contract", help="Put the queue manager to the checks of everything that the bridge needs."
        ),
    ] = False,
    mq_queue: Annotated[
        str, typer.Option(help="For --mq-contract: an empty queue that nothing else uses.")
    ] = "DEV.QUEUE.1",
    mq_model_queue: Annotated[
        str, typer.Option(help="For --mq-contract: a model queue.")
    ] = "DEV.APP.MODEL.QUEUE",
    mq_topic: Annotated[
        str, typer.Option(help="For --mq-contract: the topic string below which messages are published.")
    ] = "dev/isthmus",
    report: Annotated[
        Path | None, typer.Option(help="For --mq-contract: a file for the report, as JSON.")
    ] = None,
) -> None:
    """Say which versions, Java, Kafka, NATS, MQ client and AMQP brokers a bridge would run with."""
    settings = read_settings(file)
    if mq_contract:
        from isthmus.cli.mq_contract import mq_contract as check

        check(settings, mq_queue, mq_model_queue, mq_topic, report)
        return
    findings = [
        *_versions(),
        _java(),
        _kafka(settings),
        _nats_server(settings),
        *dict.fromkeys(_mq(settings)),
        *_brokers(settings),
        _codec(),
    ]
    console = Console(highlight=False, soft_wrap=True)
    for each in findings:
        state = (f"{each.state:<8}", _STYLES[each.state])
        console.print(Text.assemble(f"{each.what:<16}", state, each.said))
    if any(each.state == "missing" for each in findings):
        raise typer.Exit(1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _versions() -> Iterator[Finding]:
    yield Finding("isthmus", "ok", f"{_version('isthmus')} on Python {platform.python_version()}")
    for package, extra in (("pyspark", "bridge"), ("confluent-kafka", "bridge")):
        found = _version(package)
        yield Finding(package, "ok" if found else "missing", found or f"pip install isthmus[{extra}]")


def _java() -> Finding:
    from isthmus.embedded.java import java_command, java_version

    try:
        java = java_command()
        return Finding("java", "ok", f"{java_version(java).splitlines()[0]} ({java})")
    except (IsthmusError, OSError) as error:
        return Finding("java", "missing", str(error))


def _kafka(settings: Settings) -> Finding:
    if _version("confluent-kafka") is None:
        return Finding("kafka", "missing", "there is no client to ask it with")
    from isthmus.embedded.kafka import find_running
    from isthmus.kafka import blocking
    from isthmus.kafka.options import Kafka

    if settings.kafka.embedded:
        running = find_running(kafka_folder(settings))
        if running is None:
            return Finding("kafka", "ok", "embedded: `isthmus run` starts it")
        kafka = running
    else:
        kafka = Kafka(settings.kafka.bootstrap_servers, settings.kafka.client)
    where = kafka.servers
    if not blocking.answers(kafka):
        return Finding("kafka", "missing", f"{where} does not answer")
    lacks = asyncio.run(_lacks(kafka)) if settings.listens_to_amqp else None
    if lacks is not None:
        return Finding("kafka", "note", f"{where} answers; {lacks}")
    return Finding("kafka", "ok", f"{where} answers")


async def _lacks(kafka: Kafka) -> str | None:
    """What Kafka is too old for."""
    from isthmus.kafka.client import ResilientClient
    from isthmus.kafka.share_requests import missing_for_queues

    client = ResilientClient(kafka)
    try:
        return missing_for_queues(await client.versions())
    finally:
        await client.close()


def _nats_server(settings: Settings) -> Finding:
    from isthmus.embedded.nats import server_program

    client = _version("nats-py")
    if client is None:
        state: Literal["note", "missing"] = "missing" if settings.nats.servers else "note"
        return Finding("nats", state, "pip install isthmus[nats]")
    try:
        program = server_program()
    except IsthmusError as error:
        return Finding("nats", "missing" if settings.nats.embedded else "note", f"nats-py {client}; {error}")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=30)
    return Finding("nats", "ok", f"nats-py {client}; {said.stdout.strip()} ({program})")


def _mq(settings: Settings) -> Iterator[Finding]:
    from isthmus.edges.mq.client import queue_manager
    from isthmus.edges.needs import queue_managers

    binding = _version("ibmmq")
    managers = queue_managers(settings)
    for each in managers:
        state: Literal["note", "missing"] = "note"
        if each.client == "ibm" and (problem := _ibm_problem(each.library or "")):
            state = "missing"
            yield Finding("mq", state, problem)
        yield Finding("mq", "note", f"mq.client={each.client}: {queue_manager(each).description}")
    if not managers:
        yield Finding("mq", "note", f"not used; ibmmq {binding}" if binding else "not used; no ibmmq")
    yield Finding("mq", "note", NOT_TRIED)


def _ibm_problem(library: str) -> str | None:
    from isthmus.edges.mq.ibm import load

    try:
        load(library)
    except IsthmusError as error:
        return str(error)
    return None


def _brokers(settings: Settings) -> Iterator[Finding]:
    if settings.amqp_brokers or settings.listens_to_amqp:
        found = _version("scramp")
        yield Finding("scramp", "ok" if found else "missing", found or "pip install isthmus[amqp]")
        if not found:
            return
    for name, broker in settings.amqp_brokers.items():
        from isthmus.edges.amqp.client.client import reach

        try:
            yield Finding("amqp", "ok", f"{name}: {reach(broker, settings.bridge_id)}")
        except IsthmusError as error:
            yield Finding("amqp", "missing", f"{name}: {error}")


def _codec() -> Finding:
    import isthmus.codecs.amqp.reader as codec

    compiled = not (codec.__file__ or "").endswith(".py")
    compiler = shutil.which("cc") or shutil.which("gcc")
    said = "compiled" if compiled else "interpreted, several times slower: build it with a C compiler"
    return Finding(
        "codecs", "ok" if compiled else "note", said if compiled or compiler else f"{said} (none here)"
    )

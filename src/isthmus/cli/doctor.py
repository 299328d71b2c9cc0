"""``isthmus doctor``: what this machine and the systems around it have of what a bridge needs.

It tries all of it (see `isthmus.cli.probes`), and says what it could not try. Exit 0 if a bridge could run,
1 if something that it needs is missing.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from isthmus.cli.bridge import ConfigFile, read_settings
from isthmus.cli.probes import attempt_all, probes_here
from isthmus.config import Settings

NOT_TRIED = "no real queue manager has been tried with this version: try yours with --mq-contract"

State = Literal["ok", "note", "missing"]
_STYLES = {"ok": "green", "note": "yellow", "missing": "bold red"}


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    state: State
    said: str
    remedy: str | None = None


def doctor(
    ctx: typer.Context,
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
    """Say what a bridge would run with, and try all of it: state.dir, ports, files, Java, and every login.

    ok was tried and works, missing was tried and does not, a note says what could not be tried.
    """
    if not mq_contract:
        _refuse_options_of_the_contract(ctx)
    settings = read_settings(file)
    if mq_contract:
        from isthmus.cli.mq_contract import mq_contract as check

        check(settings, mq_queue, mq_model_queue, mq_topic, report)
        return
    findings = [*_versions(settings), *_tried(settings), *_mq(settings), _codec()]
    console = Console(highlight=False, soft_wrap=True)
    for each in findings:
        state = (f"{each.state:<8}", _STYLES[each.state])
        console.print(Text.assemble(f"{each.what:<16}", state, each.said))
        if each.remedy:
            console.print(Text.assemble(f"{'':<24}", ("what to do: ", "bold"), each.remedy))
    if any(each.state == "missing" for each in findings):
        raise typer.Exit(1)


def _refuse_options_of_the_contract(ctx: typer.Context) -> None:
    for name in ("mq_queue", "mq_model_queue", "mq_topic", "report"):
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter("has a meaning with --mq-contract only", param_hint=option)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _versions(settings: Settings) -> Iterator[Finding]:
    from isthmus.edges.needs import uses_nats

    yield Finding("isthmus", "ok", f"{_version('isthmus')} on Python {platform.python_version()}")
    speaks_amqp = bool(settings.amqp_brokers) or settings.listens_to_amqp
    for package, extra, needed in (
        ("pyspark", "bridge", True),
        ("confluent-kafka", "bridge", True),
        ("nats-py", "nats", uses_nats(settings)),
        ("scramp", "amqp", speaks_amqp),
    ):
        found = _version(package)
        state: State = "ok" if found else "missing" if needed else "note"
        yield Finding(package, state, found or f"pip install 'isthmus[{extra}]'")


def _tried(settings: Settings) -> Iterator[Finding]:
    for each in attempt_all(probes_here(settings)):
        state: State = "missing" if each.failure else "ok" if each.tried else "note"
        yield Finding(each.probe.what, state, each.said, each.remedy)


def _mq(settings: Settings) -> Iterator[Finding]:
    from isthmus.edges.needs import queue_managers

    if not queue_managers(settings):
        binding = _version("ibmmq")
        yield Finding("mq", "note", f"not used; ibmmq {binding}" if binding else "not used; no ibmmq")
    yield Finding("mq", "note", NOT_TRIED)


def _codec() -> Finding:
    import isthmus.codecs.amqp.reader as codec

    compiled = not (codec.__file__ or "").endswith(".py")
    compiler = shutil.which("cc") or shutil.which("gcc")
    said = "compiled" if compiled else "interpreted, several times slower: build it with a C compiler"
    return Finding(
        "codecs", "ok" if compiled else "note", said if compiled or compiler else f"{said} (none here)"
    )

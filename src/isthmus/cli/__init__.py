"""The command line: one file a command. `LazyGroup` imports the one that is run."""

from __future__ import annotations

import sys
from typing import Annotated, ClassVar

import typer

from isthmus.cli.lazy import LazyGroup, filled
from isthmus.errors import ConfigError, HardFailure, IsthmusError
from isthmus.extras import missing_extra
from isthmus.logs import FORMAT_VARIABLE, LEVEL_VARIABLE, Format, Level


class _Commands(LazyGroup):
    COMMANDS: ClassVar[dict[str, tuple[str, str]]] = {
        "run": (
            "isthmus.cli.run:run",
            "Run a bridge in the foreground: all of its parts, until Ctrl-C or SIGTERM.",
        ),
        "pipeline": (
            "isthmus.cli.run:pipeline",
            "Run only the data pipeline of a bridge, on a Kafka that runs already.",
        ),
        "edge": (
            "isthmus.cli.run:edge",
            "Run only the edges of a bridge, which speak AMQP, NATS and MQ, on a Kafka that runs already.",
        ),
        "monitor": (
            "isthmus.cli.monitor:monitor",
            "Run only the page of a bridge, beside its edges and pipeline, on a Kafka that runs already.",
        ),
        "reload": (
            "isthmus.cli.reload:reload",
            "Have a running bridge read its configuration again: routes, users and certificates.",
        ),
        "top": (
            "isthmus.cli.top:top",
            "Watch a bridge that runs elsewhere: routes, parts, lag and what is wrong, until Ctrl-C.",
        ),
        "check": (
            "isthmus.cli.check:check",
            "Check a configuration: keys, values, routes, and the topics that they name.",
        ),
        "doctor": (
            "isthmus.cli.doctor:doctor",
            "Say what a bridge would run with, and try all of it: state.dir, ports, files, Java, and every "
            "login.",
        ),
        "send": (
            "isthmus.cli.send:send",
            "Send a message: straight into the journal, or with --amqp over AMQP, as a JMS client does.",
        ),
        "receive": (
            "isthmus.cli.receive:receive",
            "Show the records of a Kafka topic, or with --amqp take messages as a JMS client does.",
        ),
        "produce": (
            "isthmus.cli.produce:produce",
            "Produce a record to a Kafka topic, as any Kafka application does: JMS clients receive it from "
            "there.",
        ),
        "convert": (
            "isthmus.cli.convert:convert",
            "Show a captured message in another form, as the bridge would convert it.",
        ),
        "explain": (
            "isthmus.cli.explain:explain",
            "Explain what becomes of a message: which route takes it, and why each earlier one does not, "
            "term by term; its key; and the record that would be published, or the soft failure.",
        ),
        "routes": (
            "isthmus.cli.routes:routes",
            "Test a bridge's routes with sample messages.",
        ),
        "dead-letter": (
            "isthmus.cli.dead_letter:dead_letters",
            "See what could not be routed or delivered, replay it once the cause is mended, or drop it.",
        ),
        "journal": (
            "isthmus.cli.journal:journal",
            "Read a bridge's journal, or write into it what the ledger is to do.",
        ),
        "import": ("isthmus.cli.import_:importing", "Turn another bridge's configuration into ours."),
        "user": (
            "isthmus.cli.user:users",
            "Say who may connect to the AMQP server, and what each may do.",
        ),
    }


app = typer.Typer(
    name="isthmus",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"isthmus {version('isthmus')}")
        raise typer.Exit


_HELP = """
A bridge between message systems and Kafka: every message lands in a journal exactly as it arrived, and Spark
routes it to where it belongs.

Begin with `isthmus run examples/quickstart.properties`, which needs nothing but Java 17. Then, in
another terminal:

  isthmus send --amqp -a orders -H CorrelationId=c-7 -H region=EU --body hello
  isthmus receive --topic orders-eu --count 1 --follow

Exit codes: 0 done, 1 an unusable configuration, 2 wrong usage, 3 a failure that stops the bridge.
"""


@app.callback(help=filled(_HELP))
def _options(
    version: Annotated[  # noqa: ARG001 - the option's callback does it
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    log_level: Annotated[
        Level, typer.Option("--log-level", envvar=LEVEL_VARIABLE, help="The least that is logged.")
    ] = Level.WARNING,
    log_format: Annotated[
        Format,
        typer.Option(
            "--log-format",
            envvar=FORMAT_VARIABLE,
            help="How standard error has it: text for people, or one JSON object a line.",
        ),
    ] = Format.TEXT,
) -> None:
    from isthmus.logs import configure

    configure(log_level, log_format)


def main() -> None:
    """Run a command. An error of ours is two lines that say what happened and what to do, never a trace."""
    try:
        try:
            app()
        except ImportError as error:
            if (failure := missing_extra(error)) is None:
                raise
            raise failure from None
    except IsthmusError as error:
        _tell(error)
        sys.exit(1 if isinstance(error, ConfigError) else HardFailure.exit_code)


def _tell(error: IsthmusError) -> None:
    from rich.console import Console
    from rich.text import Text

    from isthmus.events.bridge import Failed
    from isthmus.logs import is_json

    remedy = error.remedy if isinstance(error, HardFailure) else None
    if is_json():
        Failed(str(error), remedy).emit()
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), str(error)))
    if remedy is not None:
        console.print(Text.assemble(("what to do: ", "bold"), remedy))

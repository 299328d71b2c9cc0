"""The command line: one file a command."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.text import Text

from isthmus.cli.check import check
from isthmus.cli.convert import convert
from isthmus.cli.doctor import doctor
from isthmus.cli.import_ import importing
from isthmus.cli.journal import journal
from isthmus.cli.receive import receive
from isthmus.cli.run import edge, pipeline, run
from isthmus.cli.send import send
from isthmus.cli.user import users
from isthmus.errors import ConfigError, HardFailure, IsthmusError
from isthmus.extras import missing_extra

app = typer.Typer(
    name="isthmus",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""A bridge between message systems and Kafka: every message lands in a journal exactly as it
arrived, and Spark routes it to where it belongs.

Begin with [bold]isthmus run[/], which needs nothing but Java 17, and in another terminal
[bold]isthmus send --address orders --body hello[/] and [bold]isthmus journal[/].

Exit codes: 0 done, 1 an unusable configuration, 2 wrong usage, 3 a failure that stops the bridge.""",
)
for command in (run, pipeline, edge, check, doctor, send, receive, convert):
    app.command()(command)
app.add_typer(journal)
app.add_typer(importing)
app.add_typer(users)


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
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(Text.assemble(("error: ", "bold red"), str(error)))
        if isinstance(error, HardFailure):
            console.print(Text.assemble(("what to do: ", "bold"), error.remedy))
        sys.exit(1 if isinstance(error, ConfigError) else HardFailure.exit_code)

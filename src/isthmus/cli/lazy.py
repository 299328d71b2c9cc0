"""Commands that are imported when they are run: ``isthmus --help`` and a wrong option import none of them."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

AS_IT_IS = "\b\n"
"""What Click knows a paragraph by whose lines it must leave alone."""


class Group(TyperGroup):
    """Commands, each listed with its whole summary."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Click's interface
        """List the commands, where Click would cut their summaries."""
        rows = [(name, each.get_short_help_str(1_000)) for name, each in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def group(name: str, summary: str, cls: type[TyperGroup] = Group, **more: Any) -> typer.Typer:
    """A group of commands. Their help is plain text: importing Rich takes longer than all else."""
    return typer.Typer(name=name, help=summary, cls=cls, rich_markup_mode=None, **more)


class LazyCommand(TyperCommand):
    """Stands for a command, or for a group of them, until it is used."""

    def __init__(self, name: str, home: str, summary: str) -> None:
        """``home`` is where it is: ``module:name`` of a function or of a `typer.Typer`."""
        super().__init__(name, help=summary, rich_markup_mode=None)
        self._home = home

    def load(self) -> Any:
        """The command itself."""
        module, _, attribute = self._home.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            command: Any = typer.main.get_group(found)
        else:
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(self.name)(found)
            command = typer.main.get_command(alone)
        _fill_lines(command)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command itself, which takes over."""
        return self.load().make_context(info_name, args, parent, **extra)


class LazyGroup(Group):
    """A group whose commands, as ``COMMANDS`` of its class says, are imported when they are run."""

    COMMANDS: ClassVar[dict[str, tuple[str, str]]]
    """By name: the home, and the summary, which is the first sentence of the command's own help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (home, summary) in self.COMMANDS.items():
            self.add_command(LazyCommand(name, home, summary))


def _fill_lines(command: Any) -> None:
    """Let paragraphs of help break where the terminal's lines end, and not where those of the source do."""
    if command.help:
        command.help = filled(command.help)
    for each in getattr(command, "commands", {}).values():
        _fill_lines(each)


def filled(text: str) -> str:
    """The text with a line for each paragraph. What is indented, such as examples, stays as it is."""
    return "\n\n".join(_filled(each) for each in inspect.cleandoc(text).split("\n\n"))


def _filled(paragraph: str) -> str:
    if paragraph.startswith(" "):
        return f"{AS_IT_IS}{paragraph}"
    return paragraph if paragraph.startswith(AS_IT_IS) else " ".join(paragraph.splitlines())

"""``isthmus user``: who may connect to the AMQP server, in the file that ``amqp.users.file`` names.

Passwords are asked for without an echo, or read from standard input; they are never an argument, which
everyone on the machine could read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isthmus.cli.lazy import group
from isthmus.errors import ConfigError

if TYPE_CHECKING:
    from isthmus.edges.amqp.server.users import User

UsersFile = Annotated[Path, typer.Argument(help="The users file: what amqp.users.file names.")]
Name = Annotated[str, typer.Argument(help="The user's name.")]

users = group("user", "Say who may connect to the AMQP server, and what each may do.", no_args_is_help=True)


@users.command()
def add(
    file: UsersFile,
    name: Name,
    send: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="An address that the user may send to; * is any text."),
    ] = None,
    receive: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="An address that the user may receive from."),
    ] = None,
    password_stdin: Annotated[bool, typer.Option(help="Read the password from standard input.")] = False,
    certificate: Annotated[
        bool, typer.Option(help="No password: the user comes with a certificate of that name.")
    ] = False,
) -> None:
    """Add a user, or replace one. --send and --receive may be repeated.

    Without either the user may send and receive everywhere; with one of them, only what is given. No pattern
    includes the topics of bridges (isthmus.*), Kafka's own (__*) or the dead letters: each must be named. A
    server reads the file when it starts.
    """
    from isthmus.edges.amqp.server.users import ANYTHING, set_user

    if certificate and password_stdin:
        raise typer.BadParameter("--certificate is instead of a password")
    everything = not send and not receive
    password = None if certificate else _from_stdin() if password_stdin else _asked(name)
    set_user(
        file,
        name,
        password,
        send=ANYTHING if everything else send or (),
        receive=ANYTHING if everything else receive or (),
    )


@users.command("list")
def list_users(file: UsersFile) -> None:
    """Print every user with what it may do."""
    from isthmus.edges.amqp.server.users import Users

    for user in Users.read(file):
        typer.echo(_described(user))


@users.command()
def remove(file: UsersFile, name: Name) -> None:
    """Take a user out of the file."""
    from isthmus.edges.amqp.server.users import remove_user

    remove_user(file, name)


def _asked(name: str) -> str:
    password: str = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return password


def _from_stdin() -> str:
    password = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    if not password:
        raise ConfigError("there is no password on standard input")
    return password


def _described(user: User) -> str:
    proof = "password" if user.secrets else "certificate"
    may = {"send": user.send, "receive": user.receive}
    allowed = (f"{verb}: {' '.join(patterns) or 'nothing'}" for verb, patterns in may.items())
    return "\t".join([user.name, proof, *allowed])

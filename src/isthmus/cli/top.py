"""``isthmus top``: the panel of a bridge that runs elsewhere, by the address of its monitor."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from isthmus.cli.status import has_panel, panel
from isthmus.errors import HardFailure, Unreachable

if TYPE_CHECKING:
    from urllib.request import Request

TIMEOUT_S = 10.0


def top(
    url: Annotated[
        str, typer.Argument(help="The monitor's address: monitor.host and monitor.port of the bridge.")
    ] = "http://127.0.0.1:9464",
    token: Annotated[
        str | None,
        typer.Option(envvar="ISTHMUS_MONITOR_TOKEN", help="Its monitor.token; better in the environment."),
    ] = None,
    every: Annotated[float, typer.Option(min=0.1, help="How many seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False,
) -> None:
    """Watch a bridge that runs elsewhere: routes, parts, lag and what is wrong, until Ctrl-C.

    Where there is no terminal it prints all of it once, as --once does.
    """
    console = Console(highlight=False, soft_wrap=True)
    document = _look(url, token)
    if once or not has_panel(console):
        console.print(panel(document, url))
        return
    hint = f"{url}, Ctrl-C ends this"
    try:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(panel(document, hint), refresh=True)
                time.sleep(every)
                try:
                    document = _look(url, token)
                except Unreachable as error:
                    document = {**document, "problems": {"monitor": str(error)}}
    except KeyboardInterrupt:
        return


def _look(url: str, token: str | None) -> dict[str, Any]:
    """The bridge as it is now, with what is wrong. Raises `Unreachable`, and `HardFailure` of a refusal."""
    document = _get(f"{url.rstrip('/')}/varz", token)
    if "router" not in document:
        raise HardFailure(f"{url} is not a bridge's monitor", remedy="give monitor.host and monitor.port")
    return {**document, "problems": _get(f"{url.rstrip('/')}/healthz", token)["problems"]}


def _get(url: str, token: str | None) -> dict[str, Any]:
    import urllib.request  # only here: it brings TLS and more, which no other command needs to load
    from http.client import HTTPException, InvalidURL

    if not url.startswith(("http://", "https://")):
        raise HardFailure(f"{url} is no address of a monitor", remedy="give one such as http://host:9464")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        status, text = _answer(urllib.request.Request(url, headers=headers))
    except (ValueError, InvalidURL) as error:
        raise HardFailure(
            f"{url} is no address of a monitor: {error}", remedy="give one such as http://host:9464"
        ) from None
    except OSError as error:
        raise Unreachable(f"{url} does not answer: {getattr(error, 'reason', error)}") from None
    except HTTPException as error:
        raise Unreachable(
            f"{url} does not answer as a monitor does ({error!r:.200}): give monitor.host and monitor.port"
        ) from None
    if status == 401:
        remedy = "give its monitor.token: --token, or ISTHMUS_MONITOR_TOKEN"
        raise HardFailure(f"{url} asks for another token", remedy=remedy)
    if status not in (200, 503):  # 503 is how it says that something is wrong
        raise HardFailure(f"{url} answers with {status}", remedy="give monitor.host and monitor.port")
    try:
        document: dict[str, Any] = json.loads(text)
    except ValueError:
        raise HardFailure(f"{url} is not a bridge's", remedy="give monitor.host and monitor.port") from None
    return document


def _answer(request: Request) -> tuple[int, bytes]:
    """The status and the text of the answer, whatever it is."""
    from urllib.error import HTTPError
    from urllib.request import urlopen

    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()

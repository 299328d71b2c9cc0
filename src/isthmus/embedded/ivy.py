"""Resolves confs of `ivy.xml` with the Ivy that PySpark ships, and shows how far it is.

What it has downloaded stays in Ivy's cache, so that a second try begins where the first one failed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from isthmus.embedded.java import java_command
from isthmus.errors import HardFailure

IVY_XML = Path(__file__).with_name("ivy.xml")
SETTINGS = Path(__file__).with_name("ivysettings.xml")

PAUSES_S = (1.0, 5.0)  # between tries: single downloads fail now and then, and succeed a moment later

_FOUND = re.compile(r"\tfound \S+ in ")
_FETCHED = re.compile(r"\t\[SUCCESSFUL \] [^#]+#([^;]+);([^!]+)!")
_UNREACHABLE = re.compile(r"Server access error.*|java\.\w.*(?:Exception|Error).*")
_ABSENT = re.compile(r"\S+#\S+: not found")

_REMEDY = (
    "Check the network, and the proxy (HTTPS_PROXY). Behind a mirror, set ISTHMUS_IVY_SETTINGS to an Ivy "
    "settings file that names it. On a machine without network, set ISTHMUS_JARS_DIR to a folder that was "
    "filled on another one with: python -m isthmus.embedded.jars"
)


def retrieve(confs: Sequence[str], *, into: Path, cache: Path) -> None:
    """Put the jars of each conf into a folder of that name in `into`. `HardFailure` after the last try."""
    command = _command(confs, into, cache)
    with _progress(confs) as show:
        for pause_s in (0.0, *PAUSES_S):
            time.sleep(pause_s)
            problems = _run(command, show)
            if not problems:
                return
    wanted = ", ".join(confs)
    raise HardFailure(f"The jars for {wanted} cannot be fetched.\n" + "\n".join(problems), remedy=_REMEDY)


def _command(confs: Sequence[str], into: Path, cache: Path) -> list[str]:
    settings = os.environ.get("ISTHMUS_IVY_SETTINGS") or str(SETTINGS)
    pattern = f"{into}/[conf]/[artifact]-[revision](-[classifier]).[ext]"
    return [
        *(
            str(java_command()),
            "-XX:TieredStopAtLevel=1",
        ),  # it runs for seconds: the quick compiler is enough
        *_proxy_options(),
        *("-jar", str(_ivy_jar()), "-settings", settings, "-cache", str(cache), "-ivy", str(IVY_XML)),
        *("-confs", *confs, "-retrieve", pattern),
    ]


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")  # finds it without importing it
    places = pyspark.submodule_search_locations if pyspark else None
    for place in places or ():
        for jar in Path(place).glob("jars/ivy-*.jar"):
            return jar
    raise HardFailure("PySpark is not installed.", remedy="pip install 'isthmus[bridge]'")


def _proxy_options() -> Iterator[str]:
    """The proxy that the environment names, which Java does not look for there."""
    from urllib.request import getproxies  # brings http and ssl, which nothing else here needs

    proxies = getproxies()
    for scheme in ("http", "https"):
        proxy = urlsplit(proxies.get(scheme, ""))
        if proxy.hostname:
            yield f"-D{scheme}.proxyHost={proxy.hostname}"
            yield f"-D{scheme}.proxyPort={proxy.port or 80}"
    if exceptions := proxies.get("no"):
        hosts = (host.strip() for host in exceptions.split(","))
        yield "-Dhttp.nonProxyHosts=" + "|".join(f"*{h}" if h.startswith(".") else h for h in hosts)


def _run(command: Sequence[str], show: Callable[[str], None]) -> list[str]:
    """One run of Ivy: what went wrong, which is nothing if it went well."""
    output = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            show(line)
            output.append(line.strip())
    if ivy.returncode == 0:
        return []
    # Ivy also calls "not found" what it could not look for: that is said only if nothing else is.
    for problem in (_UNREACHABLE, _ABSENT):
        if lines := [match[0] for line in output if (match := problem.search(line))]:
            return lines[:5]
    return [line for line in output if line][-5:] or [f"Ivy ended with exit code {ivy.returncode}."]


@contextmanager
def _progress(confs: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """A function that takes Ivy's output line by line: a bar on a terminal, else a line for every jar."""
    # Here, because most processes never fetch anything, and rich takes a while to import.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"jars for {', '.join(confs)}", total=None)
        found = fetched = 0

        def show(line: str) -> None:
            nonlocal found, fetched
            if _FOUND.match(line):
                found += 1
            elif jar := _FETCHED.match(line):
                fetched += 1
                # Modules without a jar, and jars that are in the cache, count as found only.
                progress.update(task, description=f"{jar[1]} {jar[2]}", completed=fetched, total=found)
                if not console.is_terminal:
                    console.print(f"fetched {jar[1]} {jar[2]}", highlight=False, soft_wrap=True)

        yield show
        progress.update(task, description="jars", completed=fetched, total=fetched)

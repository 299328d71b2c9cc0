"""The jars that Isthmus runs with, fetched when they are first needed.

`ivy.xml` names them, in sets that are called confs. Each conf has a folder of its own, whose name ends in
a digest of what `ivy.xml` says of that conf::

    $ISTHMUS_JARS_DIR, else $XDG_CACHE_HOME/isthmus/jars, else ~/.cache/isthmus/jars
    ├── broker-5f0c…/    the jars of the conf `broker`
    ├── spark-91ab…/
    ├── ivy/             Ivy's own cache
    └── lock             held by the process that fetches

A folder appears by a rename once it is complete. So its being there says that the jars are, a change of
`ivy.xml` leads to another folder, and processes that fetch at the same time don't disturb each other.

From a shell: ``python -m isthmus.embedded.jars spark broker``
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from isthmus.embedded import ivy
from isthmus.errors import HardFailure
from isthmus.private import cache_folder


def ensure(*confs: str) -> None:
    """Fetch the jars of those confs that are not there yet. `HardFailure` when they cannot be had."""
    if _missing(confs):
        with _fetching_alone():
            if missing := _missing(confs):  # another process may have fetched them meanwhile
                _fetch(missing)


def files(conf: str) -> list[Path]:
    """The jars of a conf, in a fixed order; fetched now if they are missing."""
    ensure(conf)
    return sorted(_folder_of(conf).iterdir())


def classpath(conf: str) -> str:
    """The jars of a conf as Java's ``-cp`` takes them; fetched now if they are missing."""
    return os.pathsep.join(map(str, files(conf)))


def confs() -> list[str]:
    """The names of the confs that there are."""
    return [conf.attrib["name"] for conf in _declarations().iterfind("configurations/conf")]


def folder() -> Path:
    """Where jars are kept, which need not exist yet."""
    if own := os.environ.get("ISTHMUS_JARS_DIR"):
        return Path(own).absolute()
    return cache_folder() / "jars"


def _missing(confs: tuple[str, ...]) -> list[str]:
    return [conf for conf in dict.fromkeys(confs) if not _folder_of(conf).is_dir()]


def _folder_of(conf: str) -> Path:
    return folder() / f"{conf}-{_digest(conf)}"


def _digest(conf: str) -> str:
    """Of everything in `ivy.xml` but comments, layout, and what is for other confs alone."""
    root = _declarations()
    others = set(confs()) - {conf}
    if len(others) == len(confs()):
        raise ValueError(f"no conf {conf!r} in ivy.xml; there are {', '.join(confs())}")
    for parent in root.findall("configurations") + root.findall("dependencies"):
        for element in list(parent):
            if _confs_of(element) and _confs_of(element) <= others:
                parent.remove(element)
    text = ElementTree.canonicalize(ElementTree.tostring(root, "unicode"), strip_text=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _confs_of(element: ElementTree.Element) -> set[str]:
    """The confs that an element is for: ``a``, ``b`` and ``c`` in ``conf="a,b->default;c->master"``."""
    if element.tag == "conf":
        return {element.attrib["name"]}
    mappings = element.get("conf", "").split(";")
    return {name.strip() for mapping in mappings for name in mapping.split("->")[0].split(",")} - {""}


def _declarations() -> ElementTree.Element:
    return ElementTree.parse(ivy.IVY_XML).getroot()


@contextmanager
def _fetching_alone() -> Iterator[None]:
    try:
        folder().mkdir(parents=True, exist_ok=True)
        lock = (folder() / "lock").open("w")
    except OSError as error:
        raise HardFailure(
            f"There is no place for the jars: {error}",
            remedy="Set ISTHMUS_JARS_DIR to a folder that can be written to.",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the end of the process lets go of it too
        except BlockingIOError:
            sys.stderr.write("waiting for another process that fetches jars\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(missing: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=folder(), prefix="fetching-") as name:
        fetched = Path(name)
        ivy.retrieve(missing, into=fetched, cache=folder() / "ivy")
        for conf in missing:
            (fetched / conf).rename(_folder_of(conf))


def main() -> None:
    """``python -m isthmus.embedded.jars CONF…``: fetch the jars of these confs, or of all."""
    parser = argparse.ArgumentParser(prog="python -m isthmus.embedded.jars", description=main.__doc__)
    parser.add_argument("confs", metavar="CONF", nargs="*", help=f"of {', '.join(confs())}")
    chosen = parser.parse_args().confs or confs()
    if unknown := set(chosen) - set(confs()):
        parser.error(f"no conf {', '.join(sorted(unknown))}; there are {', '.join(confs())}")
    try:
        ensure(*chosen)
    except HardFailure as failure:
        sys.stderr.write(f"{failure}\n{failure.remedy}\n")
        sys.exit(failure.exit_code)


if __name__ == "__main__":
    main()

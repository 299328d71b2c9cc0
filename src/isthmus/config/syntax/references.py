"""References in values: ``${env:NAME}`` and ``${file:PATH}``.

They stand anywhere in a value and are replaced once, when the configuration is loaded; a path is relative to
the configuration file, and the newline at the end of a file does not count. What comes out is `Hidden`: it
is shown as it was written, and so is a secret that stands in the file in plain text, as a mask.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from isthmus.config.syntax.hidden import MASK, Hidden, looks_secret
from isthmus.config.syntax.problem import Problem, Severity
from isthmus.config.syntax.properties import Entry, read_text, reason_against

_REFERENCE = re.compile(r"\$\{(env|file):([^{}]*)\}")


def resolve(entry: Entry, environ: Mapping[str, str], folder: Path) -> tuple[Entry, list[Problem]]:
    """The entry with its references replaced; without a value if one of them leads nowhere."""
    if entry.value is None:
        return entry, []
    first, *rest = _REFERENCE.split(entry.value)
    problems: list[Problem] = []
    value, masked, literals = first, first and MASK, first
    for kind, name, literal in zip(rest[0::3], rest[1::3], rest[2::3], strict=True):
        reference = f"${{{kind}:{name}}}"
        try:
            value += _target(kind, name, environ, folder) + literal
        except ValueError as error:
            problems.append(entry.problem(Severity.ERROR, f"{reference}: {error}"))
        masked += reference + (literal and MASK)
        literals += literal
    if problems:
        return dataclasses.replace(entry, value=None), problems
    if "${" in literals:
        hint = "references are ${env:NAME} and ${file:PATH}"
        problems.append(entry.problem(Severity.WARNING, "holds a ${ that begins no reference", hint))
    if looks_secret(entry.key, value):
        value = Hidden(value, masked)
    elif rest:
        value = Hidden(value, entry.value)
    return dataclasses.replace(entry, value=value), problems


def _target(kind: str, name: str, environ: Mapping[str, str], folder: Path) -> str:
    """What a reference stands for. Raises `ValueError` with the reason why there is nothing."""
    if kind == "file":
        text = read_text(folder / name).removesuffix("\n").removesuffix("\r")
    elif name in environ:
        text = environ[name]
    else:
        raise ValueError("there is no such environment variable")
    if reason := reason_against(text):
        raise ValueError(reason)
    return text

"""Environment variables that override the file: ``ISTHMUS_BRIDGE_ID`` sets ``bridge.id``.

A variable's name is its key in upper case with ``_`` for every ``.`` and ``-``. It can set a key that is
fixed, a part of a route, intake or connector that the file has, a ``kafka.*`` or ``pipeline.spark.*`` option
that the file has, or a new option whose name has neither ``-`` nor capitals.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping

from isthmus.config.judgement.keys import FIXED, OPEN, named_keys, open_prefix
from isthmus.config.syntax.problem import Problem, Severity
from isthmus.config.syntax.properties import Entry, reason_against

PREFIX = "ISTHMUS_"
OTHER_VARIABLES = frozenset(
    {
        "ISTHMUS_IVY_SETTINGS",
        "ISTHMUS_JARS_DIR",
        "ISTHMUS_LOG_FORMAT",
        "ISTHMUS_LOG_LEVEL",
        "ISTHMUS_PASSWORD",
        "ISTHMUS_PURE_PYTHON",
    }
)
"""Those that are no settings of a bridge: where jars come from and lie, how processes log, the password that
``send --amqp`` and ``receive --amqp`` log in with, and which form of the codecs runs."""


def variable_name(key: str) -> str:
    """The environment variable for a key."""
    return PREFIX + key.upper().replace(".", "_").replace("-", "_")


def override(
    entries: Mapping[str, Entry], environ: Mapping[str, str]
) -> tuple[dict[str, Entry], list[Problem]]:
    """The entries with what the environment says in place of what they say."""
    overridden = dict(entries)
    problems: list[Problem] = []
    by_variable = _keys_by_variable(entries)
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        source = f"${name}"
        keys = by_variable.get(name) or _new_option(name)
        if not keys:
            problems.append(_unknown(name, by_variable))
        elif len(keys) > 1:
            message = f"stands for several keys: {', '.join(sorted(keys))}"
            problems.append(Problem(Severity.ERROR, message, source))
        else:
            (key,) = keys
            if key in entries:
                problems.append(entries[key].problem(Severity.NOTE, f"overridden by {source}"))
            value = environ[name]
            reason = reason_against(value)
            overridden[key] = Entry(key, None if reason else value, source)
            if reason:
                problems.append(overridden[key].problem(Severity.ERROR, reason))
    return overridden, problems


def _keys_by_variable(entries: Mapping[str, Entry]) -> Mapping[str, set[str]]:
    known = [
        *FIXED,
        *named_keys(entries),
        *(key for key in entries if key not in FIXED and open_prefix(key)),
    ]
    by_variable: dict[str, set[str]] = defaultdict(set)
    for key in known:
        by_variable[variable_name(key)].add(key)
    return by_variable


def _new_option(name: str) -> set[str]:
    for prefix in OPEN:
        option = name.removeprefix(variable_name(prefix))
        if option and option != name:
            return {prefix + option.lower().replace("_", ".")}
    return set()


def _unknown(name: str, known: Iterable[str]) -> Problem:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else None
    return Problem(Severity.WARNING, "stands for no setting", f"${name}", hint=hint)

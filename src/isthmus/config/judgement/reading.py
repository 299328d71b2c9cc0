"""From a file and an environment to settings, with everything that is wrong on the way.

A mistake does not hide the next one: whatever cannot be understood is reported and left at its default, and
reading goes on. `load` is for those who only want settings that are right.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from isthmus.config.foreign import strimzi
from isthmus.config.foreign.formats import format_of
from isthmus.config.judgement.build import build, recognise
from isthmus.config.judgement.rules import conversions, judge
from isthmus.config.model.settings import Settings
from isthmus.config.syntax import environment, properties
from isthmus.config.syntax.problem import Problem, Severity
from isthmus.config.syntax.properties import Entry
from isthmus.config.syntax.references import resolve
from isthmus.converters.registry import look_in
from isthmus.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be understood of a configuration, and what is wrong with it."""

    settings: Settings
    entries: Mapping[str, Entry]
    """Those whose keys are known, with references replaced, in the order of the file."""
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep a bridge from starting."""
        return tuple(each for each in self.problems if each.severity is Severity.ERROR)


def load(path: Path | None, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a bridge; without a file, the defaults. Raises `ConfigError` with every problem."""
    reading = read(path, environ)
    if reading.errors:
        problems = [each for each in reading.problems if each.severity is not Severity.NOTE]
        raise ConfigError("\n".join(str(each) for each in problems))
    return reading.settings


def read(path: Path | None, environ: Mapping[str, str] = os.environ) -> Reading:
    """Everything that a file and an environment say. Raises nothing on account of what they say."""
    written, problems = properties.read(path) if path else ({}, [])
    if written is None:
        return Reading(Settings(), {}, tuple(problems))
    if foreign := format_of(written):
        message = f"a configuration of {foreign.bridge}"
        hint = f"isthmus import {foreign.command} {path} prints ours"
        return Reading(Settings(), {}, (Problem(Severity.ERROR, message, str(path), hint=hint),))
    if strimzi.is_oldest(written):
        written, renamed = strimzi.as_ours(written)
        problems += renamed
    overridden, overriding = environment.override(written, environ)
    known, unknown = recognise(overridden)
    problems += [*overriding, *unknown]
    entries: dict[str, Entry] = {}
    for key, entry in known.items():
        entries[key], unresolved = resolve(entry, environ, path.parent if path else Path())
        problems += unresolved
    if path is not None and any(":" in (each.value or "") for each in conversions(entries)):
        look_in(path.parent)
    settings, refused = build(entries)
    problems += [*refused, *judge(settings, entries)]
    return Reading(settings, entries, tuple(sorted(problems, key=_in_order_of_the_file)))


def _in_order_of_the_file(problem: Problem) -> tuple[bool, int]:
    return problem.line is None, problem.line or 0

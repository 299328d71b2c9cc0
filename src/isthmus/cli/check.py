"""``isthmus check FILE``: everything that is wrong with a configuration, before anything is started.

Exit 0 if a bridge could start with it, 1 if there are errors.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Collection, Mapping
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from isthmus import config
from isthmus.config import KafkaSettings, Problem, Reading, Severity, TopicFacts, TopicProbe
from isthmus.config.syntax.hidden import scrub
from isthmus.config.syntax.problem import printable
from isthmus.errors import HardFailure

if TYPE_CHECKING:
    from isthmus.cli.probes import Finding

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}


def check(
    file: Annotated[Path, typer.Argument(help="The configuration file.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print the settings in effect, without secrets.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask Kafka about topics.")] = False,
    connect: Annotated[
        bool,
        typer.Option("--connect", help="Also try what a start uses: state.dir, ports, files, every login."),
    ] = False,
) -> None:
    """Check a configuration: keys, values, routes, and the topics that they name.

    With --connect it tries, from this machine, all that `isthmus run` would try before it starts anything.
    Else it says what was not tried.
    """
    reading = config.read(file, os.environ)
    # An answer that comes of half-understood settings would mislead.
    kafka_understood = not any((each.key or "kafka.").startswith("kafka.") for each in reading.errors)
    online = not reading.settings.kafka.embedded and not offline and kafka_understood
    findings = _try(reading) if connect and not reading.errors else []
    kafka_failed = any(each.failure and each.probe.what == "kafka" for each in findings)
    ask = online and not kafka_failed
    problems = config.check(file, os.environ, _probe(reading.settings.kafka) if ask else None)
    problems += [_problem(each, reading) for each in findings if each.failure]
    ok = not any(each.severity is Severity.ERROR for each in problems)
    settings = config.dump(reading.settings) if show else None
    outline = {**config.outline(reading.settings), **_tried(findings)} if ok else {}
    if json:
        _print_json(file, ok, problems, outline, settings)
    else:
        _print(file, problems, outline, settings)
    if not ok:
        raise typer.Exit(1)


def _try(reading: Reading) -> list[Finding]:
    from isthmus.cli.probes import attempt_all, probes_here

    return attempt_all(probes_here(reading.settings))


def _problem(finding: Finding, reading: Reading) -> Problem:
    """A failed probe at the line of the setting that it hangs on; without secrets of the file."""
    values = [entry.value for entry in reading.entries.values() if entry.value]
    message = scrub(finding.said, values)
    hint = scrub(finding.remedy, values) if finding.remedy else None
    entry = reading.entries.get(finding.probe.key or "")
    return (
        entry.problem(Severity.ERROR, message, hint) if entry else Problem(Severity.ERROR, message, hint=hint)
    )


def _tried(findings: list[Finding]) -> dict[str, str]:
    """What the verdict rests on, and what it does not."""
    if not findings:
        return {"not tried": "state.dir, ports, files, Java and logins (--connect tries them)"}
    told = {"tried": "; ".join(each.said for each in findings if each.tried)}
    if left := "; ".join(f"{each.probe.what} {each.said}" for each in findings if not each.tried):
        told["not tried"] = left
    return told


def _probe(kafka: KafkaSettings) -> TopicProbe:
    def probe(names: Collection[str]) -> Mapping[str, TopicFacts]:
        # Only here: the Kafka client is a big import, and an extra that may not be installed.
        try:
            from isthmus.kafka.blocking import probe as probe_of
        except ImportError as error:
            remedy = "install isthmus[bridge], or check --offline"
            raise HardFailure(f"no Kafka client: {error}", remedy=remedy) from None
        return probe_of(kafka)(names)

    return probe


def _print_json(
    file: Path,
    ok: bool,
    problems: list[Problem],
    outline: Mapping[str, str],
    settings: list[tuple[str, str]] | None,
) -> None:
    report: dict[str, object] = {
        "file": str(file),
        "ok": ok,
        "problems": [dataclasses.asdict(each) for each in problems],
        "outline": outline,
    }
    if settings is not None:
        report["settings"] = dict(settings)
    typer.echo(dumps(report))


def _print(
    file: Path,
    problems: list[Problem],
    outline: Mapping[str, str],
    settings: list[tuple[str, str]] | None,
) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for key, value in settings or ():
        console.print(Text.assemble((printable(key), "bold"), "=", printable(value)))
    for problem in problems:
        console.print(_text(problem))
    for name, fact in outline.items():
        console.print(Text.assemble((f"{name}: ", "bold"), printable(fact)))
    counts = Counter(each.severity for each in problems)
    found = [f"{counts[each]} {each}{'s' * (counts[each] != 1)}" for each in Severity if counts[each]]
    verdict = ("not usable", "red") if counts[Severity.ERROR] else ("ok", "green")
    console.print(
        Text.assemble(f"{printable(str(file))}: ", verdict, f" ({', '.join(found)})" if found else "")
    )


def _text(problem: Problem) -> Text:
    """The problem as it prints itself, in colours."""
    style = _STYLES[problem.severity]
    text = Text(str(problem))
    start = len(problem.place) + 2 if problem.place else 0
    text.stylize(style, start, start + len(problem.severity) + 1)
    text.highlight_regex(r"(?m)^ *\^$", style)
    return text

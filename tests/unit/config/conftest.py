from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from isthmus.config import Problem, Settings, TopicProbe, check, load

ROUTE = "routes.r.predicate=msg.address==a\nroutes.r.dest.topic=t\n"


@pytest.fixture
def loaded(write: Callable[[str | bytes], Path]) -> Callable[..., Settings]:
    """The settings of a text."""

    def load_text(content: str | bytes, environ: Mapping[str, str] | None = None) -> Settings:
        return load(write(content), environ or {})

    return load_text


@pytest.fixture
def found(write: Callable[[str | bytes], Path]) -> Callable[..., list[Problem]]:
    """The problems of a text; it needs no routes of its own unless ``complete``."""

    def check_text(
        content: str | bytes,
        environ: Mapping[str, str] | None = None,
        topics: TopicProbe | None = None,
        complete: bool = False,
    ) -> list[Problem]:
        if isinstance(content, str) and not complete:
            content = f"{content}\n{ROUTE}"
        problems = check(write(content), environ or {}, topics)
        return [each for each in problems if "topics are not checked" not in each.message]

    return check_text

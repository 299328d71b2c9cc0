"""What pages have from the code is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.generate import DOCS, pages

from isthmus.config import load
from isthmus.config.judgement.keys import all_keys
from isthmus.edges.amqp.server import contract
from isthmus.edges.amqp.server.receivers import addresses, filters, record_source
from isthmus.errors import SoftFailure

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_is_as_it_would_be_generated_now(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page], "run `make docs`, or python docs/generate.py"


def test_every_key_is_in_the_reference_once() -> None:
    rows = re.findall(r"^\| `([a-z][^`]*)` \|", PAGES[DOCS / "configuration.md"], re.MULTILINE)
    assert sorted(rows) == sorted(key.name for key in all_keys())
    assert all(key.meaning for key in all_keys())


def test_every_topic_of_the_bridges_own_is_on_the_page_on_operations(tmp_path: Path) -> None:
    file = tmp_path / "bridge.properties"
    file.write_text("bridge.id=ID\n")
    settings = load(file, {})
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    own = (
        settings.journal.topic,
        settings.events_topic,
        settings.clock_topic,
        settings.replays_topic,
        settings.temporary_topic,
        settings.outbox("<system>"),
    )
    for topic in own:
        assert f"| `{topic.replace('.ID.', '.<bridge.id>.')}` |" in page


def test_every_code_of_a_soft_failure_is_in_the_reference() -> None:
    codes = re.findall(r"^\| `(\w+)` \| `\w+` \|", PAGES[DOCS / "reference" / "errors.md"], re.MULTILINE)
    assert sorted(codes) == sorted(_codes(SoftFailure))


def _codes(failure: type[SoftFailure]) -> set[str]:
    inner = {code for each in failure.__subclasses__() for code in _codes(each)}
    return inner | ({failure.code} if hasattr(failure, "code") else set())


def test_every_condition_that_is_not_amqps_own_is_in_the_reference() -> None:
    named = re.findall(r"^\| `(io\.strimzi:[\w-]+)`", PAGES[DOCS / "reference" / "errors.md"], re.MULTILINE)
    constants = (
        value for module in (contract, addresses, filters, record_source) for value in vars(module).values()
    )
    prefix = contract.ERROR_PREFIX
    conditions = {
        value
        for value in constants
        if isinstance(value, str) and value.startswith(prefix) and value != prefix
    }
    assert sorted(named) == sorted(conditions)

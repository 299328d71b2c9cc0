from __future__ import annotations

import pytest
from hypothesis import given
from tests.support import strategies

from isthmus.routing.predicate import Predicate, parse
from isthmus.routing.written import written


@given(strategies.predicates)
def test_what_is_written_reads_as_the_same_predicate(predicate: Predicate) -> None:
    assert parse(written(predicate)) == predicate


@pytest.mark.parametrize(
    "text",
    [
        "msg.address==orders && (msg.header.region==EU || msg.header.amount>=100)",
        'msg.header."odd name" in (1, "1", "a b")',
        "!exists(msg.header.CorrelationId)",
        r'msg.address=~"^\\d+$"',
    ],
)
def test_a_predicate_is_written_as_people_write_it(text: str) -> None:
    assert written(parse(text)) == text

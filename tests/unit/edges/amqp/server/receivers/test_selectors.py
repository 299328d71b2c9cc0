"""JMS selectors."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.codecs.amqp import AmqpMessage, Int, MessageHeader, MessageProperties
from isthmus.edges.amqp.server.receivers.selector import Selector
from isthmus.errors import SelectorError

MESSAGE = AmqpMessage(
    header=MessageHeader(durable=True, priority=7),
    properties=MessageProperties(message_id="ID:1", subject="order", correlation_id="c"),
    application_properties={
        "region": "EU", "amount": Int(15), "price": 2.5, "urgent": True, "raw": b"x", "pct": "10%",
        "it": "it's",
    },
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "region = 'EU'",
        "region <> 'US' AND amount > 10",
        "amount BETWEEN 15 AND 20 and not amount between 16 and 20",
        "amount NOT BETWEEN 1 AND 2",
        "region IN ('US', 'EU') AND region NOT IN ('US')",
        "region LIKE 'E_' AND region like 'E%' AND region NOT LIKE 'U%'",
        "pct LIKE '10!%' ESCAPE '!'",
        "it = 'it''s'",
        "missing IS NULL AND region IS NOT NULL",
        "urgent AND urgent = TRUE AND NOT urgent = FALSE",
        "amount * 2 + 1 = 31 AND -amount = 0 - 15 AND amount / 2 = 7",
        "amount % 4 = 3 AND -amount % 4 = -3 AND amount % -4 = 3 AND 1 + amount % 2 * 3 = 4",
        "price % 1 = 0.5 AND -price % 1 = -0.5",
        "price * 2 = 5 AND price < 3e0 AND price >= 2.5d",
        "amount = 0xF AND amount = 15L",
        "amount = 017 AND amount = 0b1111 AND amount = 0B11_11L AND amount = 1_5 AND amount = 0XfL",
        "price = 0x1.4p1 AND price = 2.5F AND price = .25e1 AND price = 25e-1 AND amount = 15.",
        "amount > -9223372036854775808 AND amount < 0x7fffffffffffffffL AND amount <> 00",
        "JMSPriority > 4 AND JMSDeliveryMode = 'PERSISTENT' AND JMSType = 'order' AND JMSMessageID = 'ID:1'",
        "region = 'US' OR amount = 15 AND urgent",
        "(region = 'US' OR amount = 15) AND urgent",
        "missing = 1 OR urgent",
        "JMS_kafka_partition IS NULL",
    ],
)
def test_what_is_true_is_wanted(text: str) -> None:
    assert Selector(text).wants(MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "region = 'US'",
        "missing = 1",
        "missing <> 1",
        "NOT missing = 1",
        "NOT (missing = 1 AND urgent)",
        "missing BETWEEN 1 AND 2",
        "missing NOT BETWEEN 1 AND 2",
        "missing IN ('a')",
        "missing NOT IN ('a')",
        "missing NOT LIKE 'a'",
        "region = 1",
        "region > 'A'",
        "urgent = 1",
        "amount = '15'",
        "amount / 0 = 1",
        "NOT amount / 0 = 1",
        "amount % 0 = 0",
        "NOT amount % 0 = 0",
        "region % 2 = 0",
        "region + 1 = 2",
        "raw = 'x'",
        "region",
        "amount",
        "pct LIKE '10!%x' ESCAPE '!'",
    ],
)
def test_what_is_false_or_unknown_is_not_wanted(text: str) -> None:
    assert not Selector(text).wants(MESSAGE)


@pytest.mark.parametrize(
    "text",
    ["", "region =", "region = 'EU", "= 1", "a b", "region IN ()", "a = 1 AND", "a LIKE 'b' ESCAPE 'cd'",
     "a LIKE 'b!' ESCAPE '!'", "NOT " * 101 + "a", "a = 1" + " + 1" * 101, "a = 1" + " OR a = 1" * 2000,
     f"a LIKE '{'x' * 600}' OR b LIKE '{'x' * 600}'", f"a LIKE '%{'_' * 33}%' OR a LIKE '%x%{'x_' * 16}%'"],
)  # fmt: skip
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        Selector(text)


def test_words_are_known_in_any_case_and_names_may_begin_like_them() -> None:
    message = AmqpMessage(application_properties={"order_id": 1, "inside": 2, "nothing": 3})
    assert Selector("order_id = 1 aNd inside = 2 And nOt nothing = 4").wants(message)


def wants(pattern: str, text: str) -> bool:
    return Selector(f"a LIKE '{pattern}'").wants(AmqpMessage(application_properties={"a": text}))


@given(st.text("ab_%", max_size=8), st.text("ab", max_size=12))
def test_like_is_what_a_regular_expression_says(pattern: str, text: str) -> None:
    regex = pattern.replace("%", ".*").replace("_", ".")
    assert wants(pattern, text) is (re.fullmatch(regex, text) is not None)


@pytest.mark.parametrize("pattern", ["%a" * 40 + "%b", "%" * 500 + "b", "%a_" * 40 + "%b"])
def test_like_ends_where_a_regular_expression_would_try_for_years(pattern: str) -> None:
    assert not wants(pattern, "a" * 30_000)


def test_like_does_not_look_at_a_text_beyond_its_limit() -> None:
    message = AmqpMessage(application_properties={"a": "x" * 40_000})
    assert not Selector("a LIKE 'x%'").wants(message)
    assert not Selector("a NOT LIKE 'x%'").wants(message)


def test_a_selector_may_be_as_deep_as_it_is_let_in() -> None:
    assert Selector("NOT " * 98 + "a").wants(AmqpMessage(application_properties={"a": True}))


@pytest.mark.parametrize("text", ["n = 09", "n = 9223372036854775809", "n = 1__", "n = 0b2", "n = 0x"])
def test_a_number_that_java_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        Selector(text)

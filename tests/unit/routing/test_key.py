"""The Kafka key: any header of text or numeric type with a letter or digit, else the message id."""

from __future__ import annotations

import pytest
from tests.support.routing import message

from isthmus.errors import KeyFailure
from isthmus.message import OPAQUE_TYPES, Header, HeaderType
from isthmus.routing.key import select_key


def test_without_a_choice_the_key_is_the_message_id() -> None:
    assert select_key(message(CorrelationId="c1"), None) == b"ID:1"


def test_a_chosen_header_is_the_key() -> None:
    assert select_key(message(CorrelationId="Grüße"), "CorrelationId") == "Grüße".encode()


@pytest.mark.parametrize("type", sorted(set(HeaderType) - OPAQUE_TYPES))
def test_a_header_of_text_or_numeric_type_can_be_the_key(type: HeaderType) -> None:
    assert select_key(message(x=Header("7", type)), "x") == b"7"


@pytest.mark.parametrize(
    "header",
    [
        Header.of(True),
        Header.of(False),
        Header.of(b"abc"),
        Header.of(None),
        *[Header("AAAA", type) for type in sorted(OPAQUE_TYPES)],
    ],
)
def test_a_header_that_is_neither_text_nor_a_number_cannot(header: Header) -> None:
    with pytest.raises(KeyFailure, match="header x is neither text nor a number"):
        select_key(message(x=header), "x")


def test_a_missing_header_is_a_key_failure() -> None:
    with pytest.raises(KeyFailure, match="no header CorrelationId"):
        select_key(message(), "CorrelationId")


def test_an_empty_header_is_a_key_failure() -> None:
    with pytest.raises(KeyFailure, match="header x is empty"):
        select_key(message(x=""), "x")


@pytest.mark.parametrize("text", ["customer-7", "7", "-1.5", "  a  ", "日本", "٣", "ª", "NaN", "!!! x ***"])
def test_a_text_with_a_letter_or_digit_of_any_script_can_be_the_key(text: str) -> None:
    assert select_key(message(x=text), "x") == text.encode()


@pytest.mark.parametrize("text", ["!!! ***", " ", "-", "\n", "😀", "…", "\u0301"])
def test_a_text_without_a_letter_or_digit_cannot(text: str) -> None:
    with pytest.raises(KeyFailure, match="header x has no letter or digit"):
        select_key(message(x=text), "x")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("type", [HeaderType.FLOAT, HeaderType.DOUBLE])
def test_a_number_that_is_not_finite_cannot(number: float, type: HeaderType) -> None:
    with pytest.raises(KeyFailure, match="header x is not a finite number"):
        select_key(message(x=Header.of(number, type)), "x")


@pytest.mark.parametrize(
    ("text", "is_key"), [("c7", True), ("customer-7", False), ("c7\n", False), ("ä", False)]
)
def test_a_pattern_is_for_the_whole_key(text: str, is_key: bool) -> None:
    strict = "[A-Za-z0-9]+"
    if is_key:
        assert select_key(message(x=text), "x", strict) == text.encode()
    else:
        with pytest.raises(KeyFailure, match=r"header x does not match conv\.key\.pattern"):
            select_key(message(x=text), "x", strict)


@pytest.mark.parametrize("pattern", ["(?i)abc|d", "a|abc", "^abc$", r"\w{3}"])
def test_a_pattern_may_have_flags_alternatives_and_ends_of_its_own(pattern: str) -> None:
    assert select_key(message(x="abc"), "x", pattern) == b"abc"
    with pytest.raises(KeyFailure):
        select_key(message(x="abcd"), "x", pattern)


def test_no_header_keeps_the_pattern_of_a_key_busy() -> None:
    with pytest.raises(KeyFailure, match="does not match"):
        select_key(message(x="a" * 40_000 + "!"), "x", "([a-z]+-?)+")

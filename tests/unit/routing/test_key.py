"""The Kafka key: any header of text or numeric type, else the message id."""

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

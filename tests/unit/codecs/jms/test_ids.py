"""Ids of four types as text: what Qpid JMS makes of each, and back."""

from __future__ import annotations

from uuid import UUID

import pytest

from isthmus.codecs.amqp import ULong
from isthmus.codecs.jms import correlation_id_text, message_id_text, parse_id
from isthmus.errors import EncodeError

SOME_UUID = UUID("bf2c1b6e-5b5a-4a69-9a5b-3f4c2d1e0f6a")

# Made with AmqpMessageIdHelper of Qpid JMS 2.10.0: the id, as JMSMessageID, as JMSCorrelationID.
FROM_QPID = [
    ("abc", "ID:AMQP_NO_PREFIX:abc", "abc"),
    ("ID:abc", "ID:abc", "ID:abc"),
    ("ID:AMQP_UUID:x", "ID:AMQP_STRING:ID:AMQP_UUID:x", "ID:AMQP_STRING:ID:AMQP_UUID:x"),
    ("ID:AMQP_NO_PREFIX:a", "ID:AMQP_STRING:ID:AMQP_NO_PREFIX:a", "ID:AMQP_STRING:ID:AMQP_NO_PREFIX:a"),
    ("ID:AMQP_STRING:q", "ID:AMQP_STRING:ID:AMQP_STRING:q", "ID:AMQP_STRING:ID:AMQP_STRING:q"),
    ("AMQP_UUID:z", "ID:AMQP_NO_PREFIX:AMQP_UUID:z", "AMQP_UUID:z"),
    ("ID:AMQP_OTHER:1", "ID:AMQP_OTHER:1", "ID:AMQP_OTHER:1"),
    ("", "ID:AMQP_NO_PREFIX:", ""),
    (SOME_UUID, f"ID:AMQP_UUID:{SOME_UUID}", f"ID:AMQP_UUID:{SOME_UUID}"),
    (ULong(2**64 - 1), "ID:AMQP_ULONG:18446744073709551615", "ID:AMQP_ULONG:18446744073709551615"),
    (b"\x00\xff", "ID:AMQP_BINARY:00FF", "ID:AMQP_BINARY:00FF"),
]


@pytest.mark.parametrize(("identity", "as_message_id", "as_correlation_id"), FROM_QPID)
def test_an_id_has_the_text_that_qpid_jms_gives_it(
    identity: str | UUID | int | bytes, as_message_id: str, as_correlation_id: str
) -> None:
    assert message_id_text(identity) == as_message_id
    assert correlation_id_text(identity) == as_correlation_id


@pytest.mark.parametrize(("identity", "as_message_id", "as_correlation_id"), FROM_QPID)
def test_the_text_of_an_id_is_that_id_again(
    identity: object, as_message_id: str, as_correlation_id: str
) -> None:
    assert parse_id(as_message_id) == identity
    assert parse_id(as_correlation_id) == identity
    assert type(parse_id(as_message_id)) is type(identity)


@pytest.mark.parametrize("text", ["ID:AMQP_UUID:bad", "ID:AMQP_ULONG:x", "ID:AMQP_BINARY:0"])
def test_a_text_that_is_not_of_the_type_it_names_is_refused(text: str) -> None:
    with pytest.raises(EncodeError):
        parse_id(text)


def test_hex_may_be_of_either_case() -> None:
    assert parse_id("ID:AMQP_BINARY:ff00") == b"\xff\x00"

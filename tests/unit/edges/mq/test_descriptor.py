"""The MQMD, and the reasons that MQ gives."""

from __future__ import annotations

import pytest

from isthmus.edges.mq.descriptor import DEFAULTS, FIELD_BYTES, FIELDS, Mqmd
from isthmus.edges.mq.port import QueueTarget, TopicTarget, parse_target
from isthmus.edges.mq.reasons import Outcome, mq_error, outcome_of
from isthmus.errors import EncodeError


def test_there_are_28_fields() -> None:
    assert len(FIELDS) == 28


def test_padding_goes_and_leading_zeros_stay() -> None:
    descriptor = Mqmd(MsgId=b"\0a" + b"\0" * 22, Format="MQSTR   ", ReplyToQ="Q\0\0")
    assert (descriptor.MsgId, descriptor.Format, descriptor.ReplyToQ) == (b"\0a", "MQSTR", "Q")


@pytest.mark.parametrize("name", FIELD_BYTES)
def test_a_value_without_room_is_refused(name: str) -> None:
    value = getattr(DEFAULTS, name)
    fits = b"x" * FIELD_BYTES[name] if isinstance(value, bytes) else "x" * FIELD_BYTES[name]
    assert getattr(Mqmd(**{name: fits}), name) == fits
    with pytest.raises(EncodeError, match=name):
        Mqmd(**{name: fits + fits[:1]})


@pytest.mark.parametrize("fields", [{"Report": 2**31}, {"ReplyToQ": "\ud800"}, {"ReplyToQ": "ü" * 25}])
def test_a_value_that_no_field_can_hold_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(EncodeError):
        Mqmd(**fields)


def test_an_error_tells_its_reason() -> None:
    error = mq_error(2033, "MQGET Q")
    assert str(error) == "MQGET Q: MQ reason 2033 (NO_MSG_AVAILABLE)"
    assert outcome_of(error) is Outcome.EMPTY


def test_a_reason_that_is_not_known_is_somebody_s_to_look_at() -> None:
    error = mq_error(2999, "MQPUT Q")
    assert (error.name, outcome_of(error)) == ("unknown to Isthmus", Outcome.REFUSED)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("Q", QueueTarget("Q")),
        ("Q@QM", QueueTarget("Q", "QM")),
        ("topic://a/b", TopicTarget("a/b")),
    ],
)
def test_a_destination_names_a_queue_or_a_topic(text: str, target: QueueTarget | TopicTarget) -> None:
    assert parse_target(text) == target
    assert str(target) == text

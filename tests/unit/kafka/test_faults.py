"""One table says what an error of Kafka's means."""

from __future__ import annotations

import pytest
from aiokafka import errors
from confluent_kafka import KafkaError

from isthmus.kafka.faults import Fault, KafkaRefusal, fault_of_code, kind, raise_for, reason


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (errors.KafkaConnectionError("connection refused"), Fault.RETRIABLE),
        (errors.NodeNotReadyError(), Fault.RETRIABLE),
        (errors.NotCoordinatorForGroupError(), Fault.RETRIABLE),
        (errors.UnknownError(), Fault.RETRIABLE),
        (TimeoutError(), Fault.RETRIABLE),
        (ConnectionResetError(), Fault.RETRIABLE),
        (errors.CommitFailedError(), Fault.FENCED),
        (errors.UnknownMemberIdError(), Fault.FENCED),
        (errors.OutOfOrderSequenceNumber(), Fault.FENCED),
        (errors.TopicAuthorizationFailedError(), Fault.FINAL),
        (errors.MessageSizeTooLargeError(), Fault.FINAL),
        (errors.AuthenticationFailedError(), Fault.FINAL),
        (ValueError("not of Kafka's"), Fault.FINAL),
    ],
)
def test_an_exception_is_retriable_or_fenced_or_final(error: Exception, meaning: Fault) -> None:
    assert kind(error) is meaning


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (110, Fault.FENCED),
        (113, Fault.FENCED),
        (121, Fault.FENCED),
        (122, Fault.FENCED),
        (123, Fault.FENCED),
        (124, Fault.FENCED),
        (133, Fault.RETRIABLE),
        (100, Fault.RETRIABLE),
        (112, Fault.FINAL),
        (9999, Fault.FINAL),
    ],
)
def test_codes_that_aiokafka_does_not_know_have_their_meaning(code: int, meaning: Fault) -> None:
    assert errors.for_code(code) is errors.UnknownError
    assert kind(KafkaRefusal(code)) is meaning


def test_what_happens_inside_librdkafka_is_in_the_table() -> None:
    unreachable = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)
    assert {fault_of_code(code) for code in unreachable} == {Fault.RETRIABLE}
    assert fault_of_code(KafkaError._ASSIGNMENT_LOST) is Fault.FENCED
    assert fault_of_code(KafkaError._INVALID_ARG) is Fault.FINAL


def test_a_refusal_says_its_name_and_the_brokers_own_words() -> None:
    assert str(KafkaRefusal(69)) == "GROUP_ID_NOT_FOUND"
    assert str(KafkaRefusal(40, "no such setting")) == "INVALID_CONFIG: no such setting"
    assert reason(KafkaRefusal(40, "no such setting")) == "INVALID_CONFIG: no such setting"
    assert reason(errors.GroupAuthorizationFailedError()) == "GROUP_AUTHORIZATION_FAILED"
    assert reason(TimeoutError()) == "TimeoutError"


def test_no_error_raises_nothing() -> None:
    raise_for(0)
    with pytest.raises(KafkaRefusal, match="NON_EMPTY_GROUP"):
        raise_for(68)

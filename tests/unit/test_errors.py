"""The exception tree: what is caught by what, and what an error says of itself."""

from __future__ import annotations

import pytest

from isthmus.errors import (
    ConfigError,
    ConversionFailure,
    DecodeError,
    DestinationFailure,
    EncodeError,
    HardFailure,
    IsthmusError,
    KeyFailure,
    OversizeFailure,
    PredicateError,
    RedeliveryFailure,
    RefusedFailure,
    SoftFailure,
)

CODES = {
    KeyFailure: "key",
    ConversionFailure: "conversion",
    OversizeFailure: "oversize",
    DestinationFailure: "destination",
    RedeliveryFailure: "redelivery",
    RefusedFailure: "refused",
    DecodeError: "malformed",
    EncodeError: "unencodable",
}
"""The contract with whoever reads dead letters and metrics: these never change."""


@pytest.mark.parametrize(("failure", "code"), CODES.items())
def test_every_soft_failure_has_the_code_that_dead_letters_carry(
    failure: type[SoftFailure], code: str
) -> None:
    assert failure.code == code
    assert issubclass(failure, SoftFailure)


def test_there_is_no_soft_failure_without_a_code_of_its_own() -> None:
    assert set(SoftFailure.__subclasses__()) == set(CODES)
    assert len(set(CODES.values())) == len(CODES)


@pytest.mark.parametrize("error", [ConfigError, PredicateError, HardFailure, SoftFailure, *CODES])
def test_everything_is_caught_by_the_root(error: type[Exception]) -> None:
    assert issubclass(error, IsthmusError)


def test_a_hard_failure_is_never_taken_for_a_soft_one() -> None:
    assert not issubclass(HardFailure, SoftFailure)
    assert not issubclass(ConfigError, SoftFailure | HardFailure)


def test_a_hard_failure_stops_with_code_3_and_says_what_to_do() -> None:
    failure = HardFailure("the topic is gone", remedy="create it")
    assert failure.exit_code == 3
    assert str(failure) == "the topic is gone"
    assert failure.remedy == "create it"


def test_a_predicate_error_points_at_the_column() -> None:
    error = PredicateError("expected a value", "msg.address==", 13)
    assert str(error).splitlines() == [
        "expected a value",
        "  msg.address==",
        "               ^",
    ]
    assert (error.message, error.text, error.column) == ("expected a value", "msg.address==", 13)
    assert isinstance(error, ConfigError)


def test_a_decode_error_knows_the_byte_at_which_it_shows() -> None:
    assert str(DecodeError("cut short", 12)) == "cut short (at byte 12)"
    assert DecodeError("cut short", 12).position == 12
    assert str(DecodeError("cut short")) == "cut short"
    assert DecodeError("cut short").position is None

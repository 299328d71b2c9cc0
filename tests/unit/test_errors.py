"""The exception tree: what is caught by what, and what an error says of itself."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import pytest

import isthmus
from isthmus import errors
from isthmus.codecs.bridge_message import PropertyType
from isthmus.errors import (
    ConfigError,
    ConfSyntaxError,
    ConversionFailure,
    DecodeError,
    DestinationFailure,
    EncodeError,
    Fault,
    HardFailure,
    IsthmusError,
    KeyFailure,
    MqError,
    NoSuchProperty,
    OversizeFailure,
    PredicateError,
    RedeliveryFailure,
    RefusedFailure,
    SoftFailure,
    WrongPropertyType,
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


def drawn() -> list[tuple[str, str]]:
    """Each error of the drawing, with its parent."""
    found: list[tuple[str, str]] = []
    parents = ["IsthmusError"]
    for stem, name in re.findall(r"^    ([│ ]*)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE):
        depth = len(stem) // 4 + 1
        del parents[depth:]
        found.append((name, parents[-1]))
        parents.append(name)
    return found


def defined() -> list[tuple[str, str]]:
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    tree = [each for each in classes if issubclass(each, Exception) and each is not IsthmusError]
    return [(each.__name__, each.__bases__[0].__name__) for each in tree]


def test_the_tree_is_drawn_whole() -> None:
    assert sorted(drawn()) == sorted(defined())


def every_error(parent: type[Exception] = IsthmusError) -> Iterator[type[Exception]]:
    for each in parent.__subclasses__():
        yield each
        yield from every_error(each)


def test_every_error_is_in_the_tree_but_those_that_never_leave_the_amqp_engine() -> None:
    for module in pkgutil.walk_packages(isthmus.__path__, "isthmus."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    elsewhere = {f"{each.__module__}.{each.__name__}" for each in every_error()}
    elsewhere = {name for name in elsewhere if name.startswith("isthmus.")} - {
        f"isthmus.errors.{name}" for name, _ in defined()
    }
    engine = "isthmus.edges.amqp.protocol.conditions"
    assert elsewhere == {f"{engine}.{name}Fault" for name in ("Connection", "Session", "Link")}


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


def test_a_configuration_of_nats_mq_points_at_line_and_column() -> None:
    error = ConfSyntaxError("unexpected '}'", 3, 7)
    assert str(error) == "line 3, column 7: unexpected '}'"
    assert (error.line, error.column) == (3, 7)


def test_figures_are_fields_too() -> None:
    too_large = OversizeFailure("larger than the topic takes", size=11, limit=10)
    assert (too_large.size, too_large.limit) == (11, 10)
    assert OversizeFailure("too large").limit is None
    assert RedeliveryFailure("delivered 6 times", deliveries=6).deliveries == 6


def test_an_amqp_fault_has_condition_and_description() -> None:
    fault = Fault("amqp:not-found", "there is no such queue")
    assert (fault.condition, fault.description) == ("amqp:not-found", "there is no such queue")
    assert str(fault) == "amqp:not-found: there is no such queue"


def test_an_mq_error_has_the_call_and_the_reason() -> None:
    error = MqError("MQPUT Q", 2053, "Q_FULL")
    assert (error.call, error.reason, error.name) == ("MQPUT Q", 2053, "Q_FULL")
    assert str(error) == "MQPUT Q: MQ reason 2053 (Q_FULL)"


def test_a_property_error_has_the_name_and_the_types() -> None:
    assert NoSuchProperty("p").name == "p"
    error = WrongPropertyType("p", PropertyType.INT8, PropertyType.STRING)
    assert (error.name, error.asked, error.found) == ("p", PropertyType.INT8, PropertyType.STRING)
    assert str(error) == "property 'p' is string, not int8"

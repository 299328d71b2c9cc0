"""Names of headers as names of MQ properties."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.edges.mq.names import (
    ORIGINAL_ID,
    STABLE_ID,
    header_of_property,
    original_name,
    property_name,
    property_of_header,
)
from isthmus.message import STANDARD_HEADERS


@pytest.mark.parametrize("name", ["amount", "a_b", "$x", "folder.name", "Ünicode"[1:], "isthmusx"])
def test_a_name_that_mq_takes_is_its_own(name: str) -> None:
    assert property_name(name) == name
    assert original_name(name) == name


@pytest.mark.parametrize(
    ("name", "property"),
    [
        ("x-opt", "isthmus_x_2dopt"),
        ("JMSXGroupID", "isthmus_JMSXGroupID"),
        ("mq.Foo", "isthmus_mq.Foo"),
        ("usr.Foo", "isthmus_usr.Foo"),
        ("null", "isthmus_null"),
        ("1st", "isthmus_1st"),
        ("ü", "isthmus__c3_bc"),
        ("", "isthmus_"),
        ("isthmus_a", "isthmus_isthmus_5fa"),
        ("a..b", "isthmus_a..b"),
    ],
)
def test_any_other_name_travels_in_a_form_that_mq_takes(name: str, property: str) -> None:
    assert property_name(name) == property
    assert original_name(property) == name


@pytest.mark.parametrize("property", [STABLE_ID, ORIGINAL_ID])
def test_the_bridge_s_own_ids_are_properties_and_nothing_else(property: str) -> None:
    assert original_name(property) == property == property_name(property)
    assert header_of_property(property) == property == property_of_header(property)


@pytest.mark.parametrize("property", ["isthmus_a-b", "isthmus__zz", "isthmus__ff", "isthmus_amount"])
def test_a_property_that_we_did_not_name_keeps_its_name(property: str) -> None:
    assert original_name(property) == property


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_every_name_comes_back_and_is_fit_for_mq(name: str) -> None:
    property = property_name(name)
    assert original_name(property) == name
    assert re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$.]*", property)
    assert not property.startswith("JMS")


@given(st.text("isthmu_0123456789abcdef", max_size=12))
def test_no_two_properties_have_the_same_header(tail: str) -> None:
    property = "isthmus_" + tail
    assert property_name(original_name(property)) in (property, property_name(property))


@pytest.mark.parametrize("name", STANDARD_HEADERS)
def test_a_standard_header_and_a_property_of_its_name_are_two_things(name: str) -> None:
    assert property_of_header(name) == f"isthmus_{name}"
    assert header_of_property(f"isthmus_{name}") == (ORIGINAL_ID if name == "MessageId" else name)
    assert header_of_property(name) == f"property.{name}"
    assert property_of_header(f"property.{name}") == name


@pytest.mark.parametrize("property", ["mq.Format", "isthmus_mq.Format"])
def test_no_property_is_taken_for_a_field_of_the_descriptor(property: str) -> None:
    assert header_of_property(property) == "property.mq.Format"

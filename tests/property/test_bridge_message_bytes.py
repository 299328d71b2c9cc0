"""Generated messages and generated damage. ``python -m tests.fuzz`` does more of it."""

import random
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.bridge_message import HEADER_FIELDS, run, survives

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage, PropertyType, wire
from isthmus.codecs.bridge_message.canonical import (
    bool_at,
    bytes_at,
    find,
    float_at,
    integer_at,
    is_canonical,
    text_at,
    value_end,
)
from isthmus.errors import NoSuchProperty, WrongPropertyType

quick = settings(max_examples=60, deadline=None)

texts = st.text(st.characters(exclude_categories=["Cs"]))

values = {
    PropertyType.STRING: texts,
    PropertyType.INT8: st.integers(-(2**7), 2**7 - 1),
    PropertyType.INT16: st.integers(-(2**15), 2**15 - 1),
    PropertyType.INT32: st.integers(-(2**31), 2**31 - 1),
    PropertyType.INT64: st.integers(-(2**63), 2**63 - 1),
    PropertyType.FLOAT32: st.floats(width=32),
    PropertyType.FLOAT64: st.floats(),
    PropertyType.BOOL: st.booleans(),
    PropertyType.BYTES: st.binary(),
    PropertyType.NULL: st.none(),
}
typed_values = st.sampled_from(PropertyType).flatmap(lambda type: st.tuples(st.just(type), values[type]))
readers = {
    PropertyType.STRING: text_at,
    PropertyType.INT8: integer_at,
    PropertyType.INT16: integer_at,
    PropertyType.INT32: integer_at,
    PropertyType.INT64: integer_at,
    PropertyType.FLOAT32: float_at,
    PropertyType.FLOAT64: float_at,
    PropertyType.BOOL: bool_at,
    PropertyType.BYTES: bytes_at,
}
kinds = {int: values[PropertyType.INT32], str: texts, bytes: st.binary()}
headers = st.fixed_dictionaries(
    {}, optional={field.name: kinds[type(field.default)] for field in HEADER_FIELDS}
)


@st.composite
def messages(draw: st.DrawFn) -> BridgeMessage:
    message = BridgeMessage(draw(st.binary()), BridgeHeader(**draw(headers)))
    for name, (type, value) in draw(st.dictionaries(texts, typed_values)).items():
        message.set_property(name, value, type)
    return message


@quick
@given(messages())
def test_a_message_is_the_same_after_a_round_trip(message: BridgeMessage) -> None:
    decoded = BridgeMessage.decode(message.encode())
    assert decoded == message
    assert decoded.header == message.header
    assert str(decoded.properties) == str(message.properties)


@quick
@given(messages(), texts)
def test_a_property_is_found_among_encoded_ones_as_among_others(message: BridgeMessage, other: str) -> None:
    properties = message.properties
    if not properties:
        return
    encoded = bytes(wire.read(message.encode()).props)
    assert is_canonical(encoded) == (len(properties) <= 15)
    if len(properties) > 15:
        return
    ends = [1]
    for name, (type, value) in ((name, (each.type, each.value)) for name, each in properties.items()):
        for begin in ends:
            assert find(encoded, name, (type + 1) % 9, begin) == 0
            at = find(encoded, name, type, begin)
            if type is PropertyType.NULL or not name.isascii():
                continue
            assert repr(readers[type](encoded, at)) == repr(value)
        if type is not PropertyType.NULL and name.isascii():
            ends.append(value_end(encoded, at))
    if other not in properties:
        assert all(find(encoded, other, PropertyType.STRING, begin) == 0 for begin in ends)


@quick
@given(messages(), st.randoms(use_true_random=False), texts)
def test_getters_give_what_the_message_was_given_in_any_order(
    message: BridgeMessage, rng: random.Random, other: str
) -> None:
    properties = message.properties
    decoded = BridgeMessage.decode(message.encode())
    for name in rng.choices(list(properties), k=2 * len(properties)) if properties else []:
        type, value = properties[name].type, properties[name].value
        if type is not PropertyType.NULL:
            assert repr(getter(decoded, type)(name)) == repr(value)
    for name, property in properties.items():
        with pytest.raises(WrongPropertyType):
            getter(decoded, PropertyType((property.type + 1) % 9))(name)
    if other not in properties:
        with pytest.raises(NoSuchProperty):
            decoded.get_string_property(other)


def getter(message: BridgeMessage, type: PropertyType) -> Callable[[str], object]:
    found: Callable[[str], object] = getattr(message, f"get_{type.name.lower()}_property")
    return found


@quick
@given(st.binary())
@example(b"\x81\xa5props\x81\xa1p\x81\xa5value\x81\x80\xc0")
def test_any_bytes_are_a_message_or_a_decode_error(data: bytes) -> None:
    survives(data)


@quick
@given(messages(), st.integers(0), st.binary(max_size=4), st.integers(0, 4))
def test_a_damaged_message_is_a_message_or_a_decode_error(
    message: BridgeMessage, place: int, inserted: bytes, removed: int
) -> None:
    data = message.encode()
    at = place % len(data)
    survives(data[:at] + inserted + data[at + removed :])


def test_the_fuzzer_finds_nothing_in_a_short_run() -> None:
    taken = run(1_000, seed=random.SystemRandom().getrandbits(32))
    assert taken["sound"] == 250
    assert 0 < taken["right keys"] < 250

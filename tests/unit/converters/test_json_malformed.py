"""A document that is not one is a single error that names the place."""

from __future__ import annotations

import time

import pytest

from isthmus import ReceivedRecord, converters
from isthmus.errors import DecodeError


def problem(text: str | bytes) -> str:
    value = text.encode() if isinstance(text, str) else text
    with pytest.raises(DecodeError) as caught:
        converters.json.to_amqp_message("a", ReceivedRecord("t", 0, 0, None, value))
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"",
            b"hello",
            b"{",
            b'{"body":}',
            b'{"a":"\xff"}',
            b"{}{}",
            b"[1,]",
            b"{'a':1}",
            b"NaN",
            b'{"a":1e999}',
        ),
        *(b'{"a":"\\ud800 alone"}', b'{"a":' + b"1" * 5000 + b"}", b"\xef\xbb\xbf{}", b'{"a":01}'),
    ],
)
def test_what_is_not_json_is_refused(text: bytes) -> None:
    assert problem(text).startswith("the document is not JSON: ")


@pytest.mark.parametrize("text", ["null", "1", '"text"', "[]", "true"])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    assert problem(text) == "the document: must be an object"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"properties":[]}', "/properties: must be an object"),
        ('{"properties":{"subject":1}}', "/properties/subject: must be a string"),
        ('{"properties":{"userId":"?"}}', "/properties/userId: must be bytes in Base64"),
        ('{"properties":{"contentType":"ü"}}', "/properties/contentType: must be ASCII, as symbols are"),
        (
            '{"properties":{"groupSequence":-1}}',
            "/properties/groupSequence: is out of range for uint: 0 to 4294967295",
        ),
        (
            '{"properties":{"creationTime":"now"}}',
            "/properties/creationTime: must be a whole number of type timestamp",
        ),
        ('{"properties":{"messageId":true}}', "/properties/messageId: must be a whole number of type ulong"),
        (
            '{"properties":{"messageId":"x"},"types":{"/properties/messageId":"symbol"}}',
            "/properties/messageId: must be one of string, uuid, ulong, binary",
        ),
        ('{"applicationProperties":[]}', "/applicationProperties: must be an object"),
        (
            '{"applicationProperties":{"a/b":[1]}}',
            "/applicationProperties/a~1b: must be a simple value: no list, no object",
        ),
        ('{"messageAnnotations":1}', "/messageAnnotations: must be an object, or a list of pairs"),
        ('{"messageAnnotations":{"ü":1}}', "/messageAnnotations: has a key that is no symbol: 'ü'"),
        ('{"messageAnnotations":[[1,2]]}', "/messageAnnotations: has a key that is no symbol: '1'"),
        ('{"messageAnnotations":[["a",1],["a",2]]}', "/messageAnnotations/1: is a key for the second time"),
        (
            '{"messageAnnotations":[["a",1],["a",2]],"types":{"/messageAnnotations/0/0":"symbol"}}',
            "/messageAnnotations: has a key twice: 'a'",
        ),
        ('{"body":"text"}', "/body: must be an object"),
        ('{"body":{}}', "/body: must have a section"),
        ('{"body":{"section":1}}', "/body/type: must be data, amqpValue or amqpSequence"),
        ('{"body":{"type":"text","section":""}}', "/body/type: must be data, amqpValue or amqpSequence"),
        ('{"body":{"type":"data","section":1}}', "/body/section: must be bytes in Base64"),
        ('{"body":{"type":"data","section":"QQ"}}', "/body/section: must be bytes in Base64"),
        ('{"body":{"type":"amqpSequence","section":1}}', "/body/section: must be a list"),
        ('{"types":[]}', "/types: must be an object"),
        ('{"types":{"/body":1}}', "/types/~1body: must be the name of a type"),
        ('{"types":{"body":"long"}}', "/types/body: is not a JSON pointer to a value"),
        ('{"types":{"":"long"}}', "/types/: is not a JSON pointer to a value"),
        ('{"types":{"/a~2":"long"}}', "/types/~1a~02: is not a JSON pointer to a value"),
    ],
)
def test_the_error_names_the_place_and_what_must_be_there(text: str, said: str) -> None:
    assert problem(text) == said


@pytest.mark.parametrize(
    ("type", "section", "said"),
    [
        ("ubyte", "256", "is out of range for ubyte: 0 to 255"),
        ("byte", "-129", "is out of range for byte: -128 to 127"),
        ("int", "2147483648", "is out of range for int: -2147483648 to 2147483647"),
        ("long", "1.0", "must be a whole number of type long"),
        ("long", "true", "must be a whole number of type long"),
        ("ulong", '"1"', "must be a whole number of type ulong"),
        ("float", "1e39", "is out of range for float"),
        ("double", "1" + "0" * 400, "is out of range for double"),
        ("double", '"nan"', 'must be a number, "NaN", "Infinity" or "-Infinity"'),
        ("boolean", "1", "must be true or false"),
        ("null", "0", "must be null"),
        ("char", '"ab"', "must be one character"),
        ("char", '""', "must be one character"),
        ("symbol", '"ü"', "must be ASCII, as symbols are"),
        ("uuid", '"{00000000-0000-0000-0000-000000000001}"', "must be a UUID"),
        ("binary", '"ü"', "must be bytes in Base64"),
        ("decimal64", '"AAAA"', "must be 8 bytes in Base64, not 3"),
        ("string", "1", "must be a string"),
        ("map", "1", "must be an object, or a list of pairs"),
        ("list", "{}", "must be a list"),
        ("described", "[1]", "must be a list of a descriptor and a value"),
        ("described array of int", "[1]", "must be a list of descriptors and a list of values"),
        ("array of int", "{}", "must be a list"),
        ("array of song", "[]", "is of a type that is not known: 'array of song'"),
        ("array", "[]", "is of a type that is not known: 'array'"),
        ("Long", "1", "is of a type that is not known: 'Long'"),
    ],
)
def test_a_value_that_its_type_cannot_hold_is_refused(type: str, section: str, said: str) -> None:
    text = f'{{"types":{{"/body/section":"{type}"}},"body":{{"type":"amqpValue","section":{section}}}}}'
    assert problem(text) == f"/body/section: {said}"


def test_a_number_without_a_type_has_at_most_64_bits() -> None:
    text = '{"body":{"type":"amqpValue","section":[9223372036854775808]}}'
    assert problem(text).startswith("/body/section/0: is out of range for long")


def test_an_array_s_elements_are_of_its_type() -> None:
    text = (
        '{"types":{"/body/section":"array of int","/body/section/1":"long"},'
        '"body":{"type":"amqpValue","section":[1,2]}}'
    )
    assert problem(text) == "/body/section/1: must be of type int, as the array"


@pytest.mark.parametrize("depth", [65, 300, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_refused(depth: int, opening: str, closing: str) -> None:
    section = opening * depth + "1" + closing * depth
    said = problem(f'{{"body":{{"type":"amqpValue","section":{section}}}}}')
    assert "nested" in said
    assert len(said) < 400


def test_nesting_as_deep_as_amqp_s_limit_is_read() -> None:
    text = '{"body":{"type":"amqpValue","section":' + "[" * 64 + "]" * 64 + "}}"
    message = converters.json.to_amqp_message("a", ReceivedRecord("t", 0, 0, None, text.encode()))
    assert message.encode()


def test_long_paths_cost_no_more_than_their_length() -> None:
    name = "k" * 200_000
    items = ",".join(["1"] * 50_000)
    text = (
        f'{{"types":{{"/body/section/{name}/0":"long"}},'
        f'"body":{{"type":"amqpValue","section":{{"{name}":[{items}]}}}}}}'
    )
    before = time.process_time()
    converters.json.to_amqp_message("a", ReceivedRecord("t", 0, 0, None, text.encode()))
    assert time.process_time() - before < 2

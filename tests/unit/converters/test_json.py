"""The text of a JSON document, and the documents that are read beyond those that we write."""

from __future__ import annotations

from base64 import b64encode
from uuid import UUID

import pytest

from isthmus import AmqpMessage, AmqpSequence, AmqpValue, Data, MessageProperties, ReceivedRecord, converters
from isthmus.codecs.amqp import Array, Int, Pairs, Symbol, ULong
from isthmus.converters.json import JsonConverter
from isthmus.converters.json_writing import MAX_TYPES_CHARS, quote
from isthmus.errors import ConversionFailure


def document(**sections: object) -> str:
    value = converters.json.to_kafka_record(AmqpMessage(**sections)).value  # type: ignore[arg-type]
    assert value is not None
    return value.decode()


def read(text: str, converter: JsonConverter | None = None) -> AmqpMessage:
    record = ReceivedRecord("t", 0, 0, None, text.encode())
    return (converter or JsonConverter()).to_amqp_message("a", record)


# --- writing --------------------------------------------------------------------------------------------


def test_members_are_in_a_fixed_order_and_absent_ones_left_out() -> None:
    assert document() == "{}"
    assert (
        document(
            body=AmqpValue(7),
            message_annotations={"x": "y"},
            application_properties={},
            properties=MessageProperties(),
        )
        == '{"properties":{},"applicationProperties":{},"messageAnnotations":{"x":"y"},'
        '"types":{"/body/section":"long"},"body":{"type":"amqpValue","section":7}}'
    )


def test_properties_are_in_the_order_of_the_specification() -> None:
    properties = MessageProperties(
        message_id=UUID(int=1),
        user_id=b"u",
        to="to",
        subject="s",
        reply_to="r",
        correlation_id=b"\x00",
        content_type="text/plain",
        content_encoding="gzip",
        absolute_expiry_time=1,
        creation_time=2,
        group_id="g",
        group_sequence=3,
        reply_to_group_id="h",
    )
    assert document(properties=properties) == (
        '{"properties":{"messageId":"00000000-0000-0000-0000-000000000001","userId":"dQ==","to":"to",'
        '"subject":"s","replyTo":"r","correlationId":"AA==","contentType":"text/plain",'
        '"contentEncoding":"gzip","absoluteExpiryTime":1,"creationTime":2,"groupId":"g","groupSequence":3,'
        '"replyToGroupId":"h"},"types":{"/properties/messageId":"uuid","/properties/correlationId":"binary"}}'
    )


def test_a_pointer_escapes_what_means_something_in_it() -> None:
    assert '"types":{"/applicationProperties/a~1b~0c\\"":"ulong"}' in document(
        application_properties={'a/b~c"': ULong(1)}
    )


def test_data_is_base64_once_and_joined() -> None:
    assert document(body=Data((b"\xff", b"\x00"))) == '{"body":{"type":"data","section":"/wA="}}'


def test_several_sequences_can_be_told_from_one_of_lists() -> None:
    two, one = AmqpSequence((["a"], ["b"])), AmqpSequence(([["a"], ["b"]],))
    assert document(body=two) == (
        '{"types":{"/body/section":"sequences"},"body":{"type":"amqpSequence","section":[["a"],["b"]]}}'
    )
    assert document(body=one) == '{"body":{"type":"amqpSequence","section":[["a"],["b"]]}}'
    assert read(document(body=two)).body == two
    assert read(document(body=one)).body == one


def test_strings_are_escaped_as_jackson_does() -> None:
    assert quote('"\\/\b\f\n\r\t') == r'"\"\\/\b\f\n\r\t"'
    assert quote("\x00\x0b\x1f") == r'"\u0000\u000B\u001F"'
    assert quote("\x7f\x80\u2028ü世🚀") == '"\x7f\x80\u2028ü世🚀"'
    assert quote("\\u001f") == r'"\\u001f"'
    assert quote('\x1f"\\u001f\n') == r'"\u001F\"\\u001f\n"'


def test_annotations_with_reserved_keys_are_a_list_of_pairs() -> None:
    text = document(message_annotations={ULong(1): "a", "x": "b"})
    assert text.startswith('{"messageAnnotations":[[1,"a"],["x","b"]],"types":{"/messageAnnotations":"map",')
    annotations = read(text).message_annotations or {}
    assert {type(key): value for key, value in list(annotations.items())[:2]} == {ULong: "a", Symbol: "b"}


def test_keys_that_only_amqp_tells_apart_come_back() -> None:
    body = AmqpValue(Pairs([(Int(1), "a"), (1, "b"), ([], "c")]))
    back = read(document(body=body)).body
    assert AmqpMessage(body=back) == AmqpMessage(body=body)


def test_many_numbers_as_keys_come_back_without_a_dict() -> None:
    body = AmqpValue(Pairs([(key, "a") for key in range(100)]))
    assert read(document(body=body)).body == body


def test_arrays_of_arrays_come_back() -> None:
    body = AmqpValue(Array("array", [Array("int", [1]), Array("string", ["a"])]))
    back = read(document(body=body)).body
    assert AmqpMessage(body=back) == AmqpMessage(body=body)


def test_types_that_would_outgrow_the_message_many_times_are_refused() -> None:
    costly = {"k" * 100_000: [1] * (MAX_TYPES_CHARS // 100_000 + 1)}
    with pytest.raises(ConversionFailure, match=f"need more than {MAX_TYPES_CHARS} characters"):
        document(body=AmqpValue(costly))
    assert converters.default.to_kafka_record(AmqpMessage(body=AmqpValue(costly))).value


# --- reading --------------------------------------------------------------------------------------------


def test_what_is_not_known_is_ignored() -> None:
    message = read(
        '{"future":[1],"properties":{"colour":"red","subject":"s"},"types":{"/future/0":"quaternion",'
        '"/applicationProperties/gone":"long"},"body":{"type":"amqpValue","section":1,"size":2}}'
    )
    assert message.properties == MessageProperties(to="a", subject="s")
    assert message.body == AmqpValue(Int(1))


def test_a_null_is_an_absent_member() -> None:
    text = (
        '{"properties":null,"applicationProperties":null,"messageAnnotations":null,"types":null,"body":null}'
    )
    assert read(text) == read("{}")
    assert read('{"properties":{"subject":null}}').properties == MessageProperties(to="a")


def test_a_number_as_an_id_is_a_ulong() -> None:
    properties = read('{"properties":{"messageId":7}}').properties
    assert properties is not None
    assert type(properties.message_id) is ULong


def test_a_float_may_be_written_as_a_whole_number() -> None:
    body = read('{"types":{"/body/section":"double"},"body":{"type":"amqpValue","section":7}}').body
    assert isinstance(body, AmqpValue)
    assert body.value == 7.0
    assert type(body.value) is float


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\x00", b"a" * 100_000])
def test_an_earlier_bridge_s_double_base64_is_read_on_request(content: bytes) -> None:
    old = f'{{"body":{{"type":"data","section":"{b64encode(b64encode(content)).decode()}"}}}}'
    assert read(old, JsonConverter(compat=True)).body == Data((content,))
    assert read(old).body == Data((b64encode(content),))


def test_data_that_is_encoded_once_is_read_with_compatibility_too() -> None:
    text = document(body=Data((b"\xff no Base64",)))
    assert read(text, JsonConverter(compat=True)).body == Data((b"\xff no Base64",))

from __future__ import annotations

import pytest

from isthmus.codecs.amqp import Array, Described, Symbol, UInt, ULong, decode_value, encode_value
from isthmus.edges.amqp.protocol.composite import Composite, interpret
from isthmus.edges.amqp.protocol.conditions import DECODE_ERROR, INVALID_FIELD, ConnectionFault
from isthmus.edges.amqp.protocol.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from isthmus.edges.amqp.protocol.terms import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    DeleteOnClose,
    Discharge,
    Error,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)

EVERY_KIND = [
    Open("c", "h", 1024, 7, 500, ("en",), ("en",), ("A", "B"), ("C",), {Symbol("k"): "v"}),
    Open("c"),
    Begin(remote_channel=0, next_outgoing_id=1, incoming_window=2, outgoing_window=3, handle_max=4),
    Attach(
        "n",
        3,
        True,
        1,
        1,
        Source("a", 2, "never", 9, True, {}, "copy", {}, Released(), ("x",), ("queue", "topic")),
        Target("b", 1, "link-detach", 1, False, {Symbol("lifetime-policy"): 1}, ("queue",)),
        initial_delivery_count=5,
        max_message_size=2**40,
    ),
    Attach("n", 3, False, target=Coordinator(("amqp:local-transactions",)), initial_delivery_count=0),
    Flow(incoming_window=1, next_outgoing_id=2, outgoing_window=3, handle=0, link_credit=0, drain=True),
    Transfer(1, 2, b"t", 0, True, True, 0, Accepted(), False, True, True),
    Disposition(True, 1, 2, True, Rejected(Error("amqp:not-found", "why", {Symbol("k"): 1}))),
    Disposition(False, 0, state=TransactionalState(b"x", Accepted())),
    Disposition(True, 0, state=Modified(True, True, {Symbol("k"): 1})),
    Disposition(True, 0, state=Received(1, 2)),
    Disposition(True, 0, state=Declared(b"id")),
    Detach(0, True, Error("amqp:link:detach-forced")),
    End(Error("amqp:internal-error")),
    Close(),
    Declare(),
    Discharge(b"id", True),
    DeleteOnClose(),
    SaslMechanisms(("PLAIN", "ANONYMOUS")),
    SaslInit("PLAIN", b"\0u\0p", "h"),
    SaslChallenge(b"c"),
    SaslResponse(b"r"),
    SaslOutcome(0, b"d"),
]


@pytest.mark.parametrize("composite", EVERY_KIND, ids=lambda each: type(each).__name__)
def test_every_composite_comes_back_as_it_was_written(composite: Composite) -> None:
    assert interpret(decode_value(encode_value(composite.described()))) == composite


def test_a_composite_may_be_described_by_its_symbol() -> None:
    assert interpret(Described(Symbol("amqp:accepted:list"), [])) == Accepted()


def test_one_symbol_stands_for_an_array_of_one() -> None:
    assert Coordinator.of([Symbol("x")]) == Coordinator.of([Array("symbol", [Symbol("x")])])


def test_an_unknown_described_value_stays_as_it_is() -> None:
    unknown = Described(ULong(0x9999), [1])
    assert interpret(unknown) is unknown


@pytest.mark.parametrize(
    ("cls", "fields", "condition"),
    [
        (Open, [], INVALID_FIELD),
        (Open, [1], INVALID_FIELD),
        (Open, [None, "host"], INVALID_FIELD),
        (Begin, [None, UInt(0), UInt(0)], INVALID_FIELD),
        (Flow, [None, 1, UInt(0), UInt(0)], INVALID_FIELD),
        (Close, [None, None], DECODE_ERROR),
        (Close, [Described(ULong(0x24), [])], INVALID_FIELD),
        (Detach, [UInt(0), UInt(1)], INVALID_FIELD),
        (Coordinator, [Array("string", ["x"])], INVALID_FIELD),
        (Source, ["a", UInt(0), "symbol"], INVALID_FIELD),
    ],
)
def test_a_field_that_is_missing_wrong_or_too_many_is_refused(
    cls: type[Composite], fields: list[object], condition: str
) -> None:
    with pytest.raises(ConnectionFault) as caught:
        cls.of(fields)
    assert caught.value.condition == condition


def test_fields_that_have_their_default_are_left_out_at_the_end() -> None:
    assert encode_value(Open("c").described()) == b"\x00\x53\x10\xc0\x04\x01\xa1\x01c"

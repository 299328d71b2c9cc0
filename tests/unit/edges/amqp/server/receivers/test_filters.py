"""The partition and offset filters of a receiver."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from isthmus.codecs.amqp import Described, Int, Symbol, UInt, ULong
from isthmus.converters import converter
from isthmus.edges.amqp.protocol.terms import Source
from isthmus.edges.amqp.server.receivers import outgoing_links
from isthmus.edges.amqp.server.receivers.filters import SELECTOR, Filters, Position, filters_of
from isthmus.errors import Refused
from isthmus.kafka.options import Kafka

PARTITION = Symbol("io.strimzi:partition-filter:int")
OFFSET = Symbol("io.strimzi:offset-filter:long")


@pytest.mark.parametrize("none", [None, {}, {Symbol("else"): 3}, {PARTITION: None}])
def test_without_filters_the_group_decides(none: dict[Any, Any] | None) -> None:
    assert filters_of(none) == Filters()


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ("io.strimzi:partition-filter:int", "io.strimzi:offset-filter:long"),
        ("io.strimzi:partition-filter:uint", "io.strimzi:offset-filter:ulong"),
        ("isthmus:partition-filter:int", "isthmus:offset-filter:long"),
        ("isthmus:partition-filter:uint", "isthmus:offset-filter:ulong"),
    ],
)
def test_every_spelling_is_understood(partition: str, offset: str) -> None:
    given = {Symbol(partition): UInt(3), Symbol(offset): Int(7)}
    assert filters_of(given) == Filters(Position(3, 7), honoured=given)


def test_a_filter_may_be_a_described_value() -> None:
    given = {PARTITION: Described(PARTITION, Int(2)), OFFSET: Described(OFFSET, ULong(9))}
    assert filters_of(given).position == Position(2, 9)


def test_filters_that_nobody_knows_are_not_granted() -> None:
    assert filters_of({PARTITION: Int(1), Symbol("else"): 3}).honoured == {PARTITION: Int(1)}


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        ({PARTITION: "1", OFFSET: "2"}, "io.strimzi:wrong-partition-filter"),
        ({PARTITION: True}, "io.strimzi:wrong-partition-filter"),
        ({PARTITION: Int(-1), OFFSET: "2"}, "io.strimzi:wrong-offset-filter"),
        ({OFFSET: "2"}, "io.strimzi:wrong-offset-filter"),
        ({OFFSET: Int(-2)}, "io.strimzi:no-partition-filter"),
        ({PARTITION: Int(-1)}, "io.strimzi:wrong-filter"),
        ({PARTITION: Int(1), OFFSET: Int(-2)}, "io.strimzi:wrong-filter"),
    ],
)
def test_wrong_filters_are_refused_in_a_fixed_order(given: dict[Any, Any], condition: str) -> None:
    with pytest.raises(Refused) as refused:
        filters_of(given)
    assert refused.value.condition == condition


def test_a_selector_is_granted_as_it_came() -> None:
    given = {Symbol("jms-selector"): Described(Symbol("apache.org:selector-filter:string"), "a = 1")}
    filters = filters_of(given)
    assert filters.selector is not None
    assert filters.honoured == given


@pytest.mark.parametrize(
    ("descriptor", "value", "condition"),
    [
        (ULong(0x0000468C00000004), "a =", "amqp:invalid-field"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(descriptor: object, value: object, condition: str) -> None:
    with pytest.raises(Refused) as refused:
        filters_of({Symbol("any"): Described(descriptor, value)})
    assert refused.value.condition == condition


def test_no_local_is_known_by_its_name_and_by_its_number() -> None:
    for name, value in (
        (Symbol("apache.org:no-local-filter:list"), []),
        (Symbol("no-local"), Described(ULong(0x0000_468C_0000_0003), [])),
    ):
        assert filters_of({name: value}) == Filters(no_local=True, honoured={name: value})


@pytest.mark.parametrize(("length", "aside"), [(200, False), (4000, True)])
def test_a_long_selector_is_not_read_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, length: int, aside: bool
) -> None:
    threads: list[threading.Thread] = []

    def read(filters: Mapping[Any, Any] | None) -> Filters:
        threads.append(threading.current_thread())
        return filters_of(filters)

    monkeypatch.setattr(outgoing_links, "filters_of", read)
    selector = Described(ULong(SELECTOR[1]), "a = 1".ljust(length))

    async def read_it() -> Filters:
        links = outgoing_links.KafkaOutgoingLinks(Kafka("nowhere:1"), converter, temporary_topic="t")
        filters = await links._filters_of(Source("q", filter={Symbol("jms-selector"): selector}))
        await links.close()
        return filters

    filters = asyncio.run(read_it())
    assert filters.selector is not None
    assert [thread is not threading.main_thread() for thread in threads] == [aside]

"""Sample messages and what is expected of them: tests of a bridge's routes, in YAML.

In: the text of a file and the plan. Out: for each sample what is different from what it expects; nothing if
it is as expected. No Kafka and no Spark are needed: `isthmus.routing.explain` has the say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from isthmus.codecs.jms import to_message
from isthmus.errors import ConfigError, EncodeError, SoftFailure
from isthmus.journal.layout import AddressTopic, Record, encode_headers
from isthmus.message import (
    STANDARD_HEADERS,
    STANDARD_TYPES,
    Header,
    HeaderType,
    canonical_header_name,
    property_header_name,
)
from isthmus.routing.explain import Explanation, Result, Term, explain, journaled, sample
from isthmus.routing.plan import Outcome, RoutingPlan

Value = str | bool | int | float | None | dict[str, str | bool | int | float | None]
"""A header's: its type is the natural one, or given as in ``{long: 5}``."""

_MAX_BITS: Final = 1024  # a double's range; much longer ones Python does not even write out


class SampleMessage(Struct, forbid_unknown_fields=True, kw_only=True):
    """A message as it is sent to an address, a captured one, or a record of a source topic."""

    address: str | None = None
    headers: dict[str, Value] = {}
    body: str | None = None
    amqp: str | None = None
    """A file with an encoded AMQP message, beside the file of samples."""
    source: str | None = None
    """The source topic whose record it is."""
    key: str | None = None
    """That record's key."""


class Expected(Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to become of it; what is not said is not compared."""

    outcome: Outcome | UnsetType = UNSET
    route: str | UnsetType | None = UNSET
    topic: str | UnsetType | None = UNSET
    partition: int | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    value: str | UnsetType | None = UNSET
    headers: dict[str, str | None] | UnsetType = UNSET
    """Those that must be there; others may be."""
    code: str | UnsetType | None = UNSET


class Sample(Struct, forbid_unknown_fields=True, kw_only=True):
    """A message, and what is expected of it: once, or for each record that it becomes."""

    name: str
    message: SampleMessage
    expect: Expected | list[Expected]


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that is not as expected."""

    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.field}: expected {self.expected}, is {self.found}"


@dataclass(frozen=True, slots=True)
class SampleReport:
    """What came of a sample."""

    name: str
    differences: tuple[Difference, ...]
    explanation: Explanation
    hints: tuple[str, ...] = ()
    """Why the route that was expected does not take it."""

    @property
    def ok(self) -> bool:
        """Whether all is as expected."""
        return not self.differences


def read_samples(text: bytes, name: str) -> list[Sample]:
    """The samples of a file. Raises `ConfigError` that says where it is wrong."""
    try:
        samples: list[Sample] = from_yaml(text, list[Sample])
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    if not samples:
        raise ConfigError(f"{name}: there is no sample in it")
    return samples


def from_yaml(text: bytes, kind: Any) -> Any:
    """What a text in YAML stands for, of that type. Raises `ConfigError` that says what is wrong with it."""
    try:
        return msgspec.yaml.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise ConfigError(str(error)) from None
    except Exception as error:  # what PyYAML trips over in a date or number is passed on as it is
        raise ConfigError(f"a value cannot be read; if it is text, quote it: {error!r}") from None


def run_sample(
    each: Sample,
    plan: RoutingPlan,
    folder: Path,
    *,
    json: bool,
    topic_of: Callable[[str], AddressTopic | None],
    now_ms: int,
) -> SampleReport:
    """Try a sample. ``topic_of`` says which topic an address has. Raises `ConfigError` for a message that
    nobody could send."""
    try:
        record, topic = sample_record(each.message, plan, folder, json=json, topic_of=topic_of)
    except SoftFailure as error:
        raise ConfigError(f"sample {each.name!r}: the bridge refuses such a message: {error}") from None
    except OSError as error:
        raise ConfigError(f"sample {each.name!r}: {error.filename}: {error.strerror}") from None
    position = None if topic == plan.journal_topic else (topic, 0, 0)
    explanation = explain(plan, record, now_ms=now_ms, position=position)
    expected = each.expect if isinstance(each.expect, list) else [each.expect]
    differences: list[Difference] = []
    if isinstance(each.expect, list) and len(expected) != len(explanation.results):
        differences.append(Difference("records", str(len(expected)), str(len(explanation.results))))
    for want, result in zip(expected, explanation.results, strict=False):
        differences += _differences(want, result)
    return SampleReport(each.name, tuple(differences), explanation, tuple(_hints(expected, explanation)))


def sample_record(
    message: SampleMessage,
    plan: RoutingPlan,
    folder: Path,
    *,
    json: bool,
    topic_of: Callable[[str], AddressTopic | None],
) -> tuple[Record, str]:
    """The record of a message, and the topic that it is in. Raises `SoftFailure` for what an edge refuses."""
    if (message.address is None and message.amqp is None) == (message.source is None):
        raise EncodeError("a message has an address, or amqp, or source")
    headers = dict(_header(name, value) for name, value in message.headers.items())
    content = None if message.body is None else message.body.encode()
    if message.source is not None:
        if message.source not in plan.source_topics:
            raise EncodeError(f"{message.source} is not one of routing.source.topics")
        key = None if message.key is None else message.key.encode()
        return Record(key, content, encode_headers(headers)), message.source
    if message.amqp is not None:
        data = (folder / message.amqp).read_bytes()
        captured = to_message(data, target=message.address or "", fallback_id="ID:sample", session="sample")
        return journaled(captured, json=json, topic=topic_of(captured.address)), plan.journal_topic
    address = message.address or ""
    return sample(address, headers, content, json=json, topic=topic_of(address)), plan.journal_topic


def _header(name: str, value: Value) -> tuple[str, Header]:
    for each in value.values() if isinstance(value, dict) else (value,):
        if isinstance(each, int) and each.bit_length() > _MAX_BITS:
            raise EncodeError(f"header {name}: no type has such large numbers; if it is text, quote it")
    canonical = canonical_header_name(name)
    if canonical in STANDARD_HEADERS and not isinstance(value, dict):
        type = STANDARD_TYPES.get(canonical, HeaderType.STRING)
        return canonical, Header.of(str(value) if type is HeaderType.STRING else value, type)
    if not isinstance(value, dict):
        return property_header_name(name), Header.of(value)
    if len(value) != 1 or next(iter(value)) not in {*HeaderType}:
        raise EncodeError(f"header {name}: a type and a value, such as {{long: 5}}")
    ((type_name, given),) = value.items()
    return property_header_name(name), Header.of(given, HeaderType(type_name))


def _differences(expected: Expected, result: Result) -> list[Difference]:
    found: Mapping[str, str | int | None] = {
        "outcome": result.outcome.value,
        "route": result.route,
        "topic": result.topic,
        "partition": result.partition,
        "key": _text(result.key),
        "value": _text(result.value),
        "code": result.code,
    }
    differences = []
    for field, value in found.items():
        wanted = getattr(expected, field)
        if wanted is not UNSET and wanted != value:
            differences.append(Difference(field, _shown(wanted), _shown(value)))
    if isinstance(expected.headers, dict):
        headers = {name: _text(value) for name, value in result.headers}
        for name, text in expected.headers.items():
            if name not in headers or headers[name] != text:
                is_ = _shown(headers[name]) if name in headers else "not there"
                differences.append(Difference(f"header {name}", _shown(text), is_))
    if differences and result.reason is not None and expected.code is UNSET:
        differences.append(Difference("failure", "none", f"{result.reason} (code {result.code})"))
    return differences


def _hints(expected: Sequence[Expected], explanation: Explanation) -> list[str]:
    """Of the routes that were expected and tried: the terms that fail."""
    wanted = {each.route for each in expected if isinstance(each.route, str)}
    hints = []
    for route in explanation.routes:
        if route.name in wanted and not route.takes:
            hints += [f"{route.name}: {text}" for text in _failing(route.term)]
        elif route.takes and wanted and route.name not in wanted:
            hints.append(f"{route.name} takes it: {route.predicate}")
    return hints


def _failing(term: Term) -> list[str]:
    if term.holds:
        return []
    inner = [text for each in term.terms for text in _failing(each)]
    if inner:
        return inner
    found = "" if term.field is None else f", and {term.field} is {_shown(term.found)}"
    return [f"{term.text} does not hold{found}"]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _shown(value: str | int | None) -> str:
    return "null" if value is None else repr(value) if value == "" else str(value)

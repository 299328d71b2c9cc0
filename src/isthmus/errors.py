"""Every error that Isthmus raises on purpose.

::

    IsthmusError
    ├── ConfigError             a configuration that cannot be used; nothing was started
    │   ├── PredicateError      a route's predicate that does not parse; knows the column
    │   ├── SettingsError       values that a section of the settings does not take; knows each
    │   └── ConfSyntaxError     a file of NATS-MQ's that does not parse; knows line and column
    ├── HardFailure             the bridge cannot go on; it stops with exit code 3 and says what to do
    │   ├── AlreadyRunning      another process runs this bridge; knows which
    │   ├── NotReady            several things keep it from starting; knows each
    │   └── Outage              a system that it needs is unavailable: at work it waits for that
    ├── SoftFailure             one message cannot be handled; `routing.on-error` decides what follows
    │   ├── KeyFailure          no usable Kafka key in the message
    │   ├── ConversionFailure   the message has no form that the destination takes
    │   ├── OversizeFailure     the record is larger than its destination takes; knows both sizes
    │   ├── DestinationFailure  the message asks for a topic or partition that is not there
    │   ├── RedeliveryFailure   the message was redelivered too often; knows how often
    │   ├── RefusedFailure      the other system does not take this message
    │   ├── DecodeError         bytes that are not what they claim to be; knows the position
    │   └── EncodeError         a value that the format cannot carry
    ├── Unreachable             another system is unavailable; nothing was settled
    │   └── LoginRefused        it does not take the bridge's login, or is not who it should be
    ├── Fault                   AMQP: a condition and a description for the peer, or of the peer's
    │   └── Refused             a link or message that one side does not take
    ├── MqError                 a call that MQ did not complete: its reason code, and the call
    ├── SelectorError           a receiver's selector that does not parse
    └── PropertyError           a property of a bridge message that cannot be had as it was asked for
        ├── NoSuchProperty      there is none of that name
        └── WrongPropertyType   it has another type

A soft failure has a ``code``: the text that dead letters carry in ``isthmus.error.code`` and that
metrics are labelled with. Codes are part of the product's contract and do not change.

Only what never leaves its package is defined elsewhere: the AMQP engine's own faults, which say whether they
end the link, the session or the connection (`isthmus.edges.amqp.protocol.conditions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar, NamedTuple


class IsthmusError(Exception):
    """The root of the tree: catch this to catch everything that Isthmus raises on purpose."""


class ConfigError(IsthmusError):
    """A configuration that cannot be used. Raised before anything is started."""


class PredicateError(ConfigError):
    """A predicate that does not parse: what is wrong, and at which column (from 0) of the text."""

    def __init__(self, message: str, text: str, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.column = column

    def __str__(self) -> str:
        return f"{self.message}\n  {self.text}\n  {' ' * self.column}^"


class Refusal(NamedTuple):
    """A value that a section of the settings does not take."""

    path: tuple[str, ...]
    """Where it is: sections, then its key in the last. Short of the key where values do not go together."""
    reason: ValueError | None
    """Why; None where a value is missing."""

    @property
    def message(self) -> str:
        """What is wrong, without the value, which may be a secret."""
        return "missing" if self.reason is None else str(self.reason)


class SettingsError(ConfigError):
    """Values that a section of the settings does not take: ``refusals``, never empty."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(
            "; ".join(": ".join(filter(None, (".".join(each.path), each.message))) for each in refusals)
        )
        self.refusals = tuple(refusals)


class ConfSyntaxError(ConfigError):
    """A configuration of the NATS-MQ bridge that does not parse. Line and column count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


class HardFailure(IsthmusError):
    """The bridge cannot go on. ``remedy`` tells the operator what to do about it.

    ``in_doubt`` is true of a write whose answer never came: it may have been done all the same.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, remedy: str, in_doubt: bool = False) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.in_doubt = in_doubt


class AlreadyRunning(HardFailure):
    """Another process runs this bridge: its ``holder``, and the ``setting`` that both have in common."""

    def __init__(self, message: str, *, holder: str, setting: str) -> None:
        super().__init__(
            f"{message}: {holder}", remedy=f"stop that one, or give this bridge a {setting} of its own"
        )
        self.holder = holder
        self.setting = setting


class NotReady(HardFailure):
    """Several things keep the bridge from starting: ``failures``, each with what to do about it."""

    def __init__(self, failures: Sequence[IsthmusError]) -> None:
        super().__init__(
            "\n".join(
                [f"{len(failures)} things keep the bridge from starting", *map(_with_remedy, failures)]
            ),
            remedy="mend each of them; `isthmus doctor` tries all of it again",
        )
        self.failures = tuple(failures)


def _with_remedy(failure: IsthmusError) -> str:
    return f"  {failure}" + (f": {failure.remedy}" if isinstance(failure, HardFailure) else "")


class Outage(HardFailure):
    """A system that the bridge needs is unavailable. It may come back: only a start fails for that."""


class SoftFailure(IsthmusError):
    """One message cannot be handled. The error policy decides: stop, skip or dead-letter."""

    code: ClassVar[str]


class KeyFailure(SoftFailure):
    """The header that the route takes its key from is missing, empty, neither text nor a finite number,
    without a letter or digit, or not what ``conv.key.pattern`` asks for."""

    code = "key"


class ConversionFailure(SoftFailure):
    """The message has no form that the converter or the destination takes."""

    code = "conversion"


class OversizeFailure(SoftFailure):
    """The record is larger than its destination takes: its ``size``, and the ``limit``, where known."""

    code = "oversize"

    def __init__(self, message: str, *, size: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class DestinationFailure(SoftFailure):
    """The message asks for a topic or partition that does not exist, or whose topic is gone."""

    code = "destination"


class RedeliveryFailure(SoftFailure):
    """The message was delivered as often as it may be and never settled: ``deliveries`` times, if known."""

    code = "redelivery"

    def __init__(self, message: str, *, deliveries: int | None = None) -> None:
        super().__init__(message)
        self.deliveries = deliveries


class RefusedFailure(SoftFailure):
    """The system that the message goes to does not take it."""

    code = "refused"


class DecodeError(SoftFailure):
    """Bytes or a journal record that are not what they claim to be; ``position`` is where that shows."""

    code = "malformed"

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message if position is None else f"{message} (at byte {position})")
        self.position = position


class EncodeError(SoftFailure):
    """A value that the format cannot carry: out of range for its type, or of no known type."""

    code = "unencodable"


class Unreachable(IsthmusError):
    """A system that messages come from or go to is unavailable. Nothing was settled: try again later."""


class LoginRefused(Unreachable):
    """The system, or its certificate, is not what the settings expect: waiting does not help."""


class Fault(IsthmusError):
    """Something that AMQP forbids, or that a peer refuses. ``condition`` is a symbol of AMQP's."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


class Refused(Fault):
    """A link or message that is not taken: by the bridge of a client, or by a broker of the bridge."""


class MqError(IsthmusError):
    """A call that MQ did not complete: the ``call``, the ``reason`` code and its ``name``."""

    def __init__(self, call: str, reason: int, name: str) -> None:
        super().__init__(f"{call}: MQ reason {reason} ({name})")
        self.call = call
        self.reason = reason
        self.name = name


class SelectorError(IsthmusError):
    """A selector that does not parse."""


class PropertyError(IsthmusError):
    """A property of a bridge message that cannot be had as it was asked for."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class NoSuchProperty(PropertyError):
    """The message has no property of that name; one that is null is there."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"there is no property {name!r}")


class WrongPropertyType(PropertyError):
    """The property is there and has another type (``found``) than it was ``asked`` for as."""

    def __init__(self, name: str, asked: IntEnum, found: IntEnum) -> None:
        super().__init__(name, f"property {name!r} is {found.name.lower()}, not {asked.name.lower()}")
        self.asked = asked
        self.found = found

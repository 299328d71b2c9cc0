"""Every error that Isthmus raises on purpose.

::

    IsthmusError
    ├── ConfigError          a configuration that cannot be used; nothing was started
    │   └── PredicateError   a route's predicate that does not parse; knows the place
    ├── HardFailure          the bridge cannot go on; it stops with exit code 3 and says what to do
    │   └── Outage           a system that it needs is away, and may come back: at work it waits for that
    └── SoftFailure          one message cannot be handled; `routing.on-error` decides what follows
        ├── KeyFailure       no usable Kafka key in the message
        ├── ConversionFailure  the message has no form that the destination takes
        ├── OversizeFailure  the record is larger than its destination takes
        ├── DestinationFailure  the message asks for a topic or partition that is not there
        ├── RedeliveryFailure  the message came again and again, and was never settled
        ├── RefusedFailure   the other system does not take this message
        ├── DecodeError      bytes that are not what they claim to be
        └── EncodeError      a value that the format cannot carry

A soft failure has a ``code``: the text that dead letters carry in ``isthmus.error.code`` and that
metrics are labelled with. Codes are part of the product's contract and do not change.
"""

from __future__ import annotations

from typing import ClassVar


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


class HardFailure(IsthmusError):
    """The bridge cannot go on. ``remedy`` tells the operator what to do about it."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class Outage(HardFailure):
    """A system that the bridge needs is away. It may come back: only a start fails for that."""


class Unreachable(IsthmusError):
    """A system that messages come from or go to is unavailable. Nothing was settled: try again later."""


class SoftFailure(IsthmusError):
    """One message cannot be handled. The error policy decides: stop, skip or dead-letter."""

    code: ClassVar[str]


class KeyFailure(SoftFailure):
    """The header chosen as Kafka key is missing, empty, or neither text nor a number."""

    code = "key"


class ConversionFailure(SoftFailure):
    """The message has no form that the converter or the destination takes."""

    code = "conversion"


class OversizeFailure(SoftFailure):
    """The record is larger than its destination topic takes."""

    code = "oversize"


class DestinationFailure(SoftFailure):
    """The message asks for a topic or partition that does not exist."""

    code = "destination"


class RedeliveryFailure(SoftFailure):
    """The message came from its system as often as it may, and was never settled."""

    code = "redelivery"


class RefusedFailure(SoftFailure):
    """The system that the message goes to does not take it."""

    code = "refused"


class DecodeError(SoftFailure):
    """Bytes that are not what they claim to be. ``position`` is the offset at which that shows."""

    code = "malformed"

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message if position is None else f"{message} (at byte {position})")
        self.position = position


class EncodeError(SoftFailure):
    """A value that the format cannot carry: out of range for its type, or of no known type."""

    code = "unencodable"

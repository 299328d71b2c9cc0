"""The filters of a receiver's source: the partition and offset to read from, JMS's selector and no-local.

Their names are ``io.strimzi:partition-filter:int`` and ``io.strimzi:offset-filter:long``. Any integer type is
taken, the unsigned spellings of the names, and ``isthmus:`` in place of the prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from isthmus.codecs.amqp import Described
from isthmus.edges.amqp.protocol.conditions import INVALID_FIELD
from isthmus.edges.amqp.server.contract import ERROR_PREFIX
from isthmus.edges.amqp.server.receivers.selector import Selector
from isthmus.errors import Refused, SelectorError

_PREFIXES: Final = (ERROR_PREFIX, "isthmus:")
_PARTITION: Final = tuple(
    f"{prefix}partition-filter:{kind}" for prefix in _PREFIXES for kind in ("int", "uint")
)
_OFFSET: Final = tuple(f"{prefix}offset-filter:{kind}" for prefix in _PREFIXES for kind in ("long", "ulong"))

WRONG_PARTITION_FILTER: Final = f"{ERROR_PREFIX}wrong-partition-filter"
WRONG_OFFSET_FILTER: Final = f"{ERROR_PREFIX}wrong-offset-filter"
NO_PARTITION_FILTER: Final = f"{ERROR_PREFIX}no-partition-filter"
WRONG_FILTER: Final = f"{ERROR_PREFIX}wrong-filter"

SHORT: Final = 256
"""How many characters of a selector are read in a millisecond or two."""
SELECTOR: Final = ("apache.org:selector-filter:string", 0x0000_468C_0000_0004)
NO_LOCAL: Final = ("apache.org:no-local-filter:list", 0x0000_468C_0000_0003)


class Position(NamedTuple):
    """Where to read: a partition, and the offset to begin with. None: as the group has it."""

    partition: int | None = None
    offset: int | None = None


class Filters(NamedTuple):
    """What a source's filters ask for."""

    position: Position = Position()
    selector: Selector | None = None
    no_local: bool = False
    """Whether what the receiver's own client sends is left out."""
    honoured: dict[Any, Any] | None = None
    """Those that are obeyed, as they came: what the client is answered."""


def filters_of(filters: Mapping[Any, Any] | None) -> Filters:
    """What the filters ask for; those that nobody knows are left out. Raises `Refused`."""
    if not filters:
        return Filters()
    partition, offset = _find(filters, _PARTITION), _find(filters, _OFFSET)
    _check(None if partition is None else filters[partition], None if offset is None else filters[offset])
    no_local = next((name for name, value in filters.items() if _is(NO_LOCAL, name, value)), None)
    selector = next((name for name, value in filters.items() if _is(SELECTOR, name, value)), None)
    position = Position(
        None if partition is None else int(_bare(filters[partition])),
        None if offset is None else int(_bare(filters[offset])),
    )
    known = (partition, offset, selector, no_local)
    honoured = {name: filters[name] for name in known if name is not None}
    selects = None if selector is None else _select(filters[selector])
    return Filters(position, selects, no_local is not None, honoured or None)


def takes_long(filters: Mapping[Any, Any] | None) -> bool:
    """Whether `filters_of` takes so long that it is not to be called on the event loop."""
    texts = [text for text in map(_bare, (filters or {}).values()) if isinstance(text, str)]
    return any(len(text) > SHORT for text in texts)


def _select(text: object) -> Selector:
    try:
        return Selector(str(_bare(text)))
    except SelectorError as error:
        raise Refused(INVALID_FIELD, str(error)) from None


def _check(partition: object, offset: object) -> None:
    partition, offset = _bare(partition), _bare(offset)
    if partition is not None and not _is_integer(partition):
        raise Refused(WRONG_PARTITION_FILTER, "Wrong partition filter")
    if offset is not None and not _is_integer(offset):
        raise Refused(WRONG_OFFSET_FILTER, "Wrong offset filter")
    if offset is not None and partition is None:
        raise Refused(NO_PARTITION_FILTER, "No partition filter specified")
    if any(isinstance(each, int) and each < 0 for each in (partition, offset)):
        raise Refused(WRONG_FILTER, "Wrong filter: a negative partition or offset")


def _find(filters: Mapping[Any, Any], names: tuple[str, ...]) -> Any:
    return next((name for name in filters if str(name) in names and filters[name] is not None), None)


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, Described) else value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is(known: tuple[str, int], name: object, value: object) -> bool:
    descriptor = value.descriptor if isinstance(value, Described) else name
    return descriptor == known[1] or str(descriptor) == known[0]

"""Where each section of a message lies. Compiled with mypyc where there is a C compiler.

In come the bytes of a message; out comes a `Section` for each of its sections, in order. Nothing is decoded:
a section's value is checked for its type and skipped by its size. A message is (part 3, 3.2)::

    [header] [delivery-annotations] [message-annotations] [properties] [application-properties]
    data … | amqp-sequence … | amqp-value
    [footer]

each as ``00 descriptor value``, with a descriptor of 0x70 to 0x78 or the symbol of the same meaning. A
section that is unknown, out of order, twice there, of the wrong type or longer than the bytes raises
`DecodeError`. A message without a body, which the specification does not allow but peers send, passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from isthmus.codecs.amqp.constructors import CONSTRUCTORS, TYPES, type_name
from isthmus.codecs.amqp.reader import Reader, malformed
from isthmus.codecs.amqp.values import SECTION_VALUES, Symbol, ULong
from isthmus.errors import DecodeError

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word in the compiled form; never imported

_NAMES: Final = {
    0x70: "header",
    0x71: "delivery-annotations",
    0x72: "message-annotations",
    0x73: "properties",
    0x74: "application-properties",
    0x75: "data",
    0x76: "amqp-sequence",
    0x77: "amqp-value",
    0x78: "footer",
}

_TYPES: Final = ["list", "map", "map", "list", "map", "binary", "list", "*", "map"]

_DUE: Final = [CONSTRUCTORS[type][-1] if type != "*" else 0xFF for type in _TYPES]
_VALUE_TYPES: Final = bytes(0x70) + bytes(_DUE) + bytes(0x100 - 0x79)
"""By section: the type of its value, as its widest constructor; 0 for what is no section."""

_SYMBOLS: Final[dict[object, int]] = {
    f"amqp:{name}:{type}": code for (code, name), type in zip(_NAMES.items(), _TYPES, strict=True)
}


class Section:
    """One section: what it is, and where."""

    def __init__(self, code: i64, offset: i64, value_offset: i64, end: i64) -> None:
        self.code: i64 = code
        self.offset: i64 = offset
        self.value_offset: i64 = value_offset
        self.end: i64 = end

    @property
    def name(self) -> str:
        """The specification's name of it."""
        return _NAMES[self.code]

    @property
    def length(self) -> int:
        """How many bytes it has, its descriptor among them."""
        return self.end - self.offset

    def __repr__(self) -> str:
        return f"Section({self.name}, offset={self.offset}, length={self.length})"


def boundaries(data: bytes) -> list[Section]:
    """The sections of a message, in order. Raises `DecodeError` where they are not a message's."""
    reader = Reader(data)
    sections: list[Section] = []
    code: i64 = 0
    size: i64 = len(data)
    try:
        while reader.pos < size:
            offset = reader.pos
            code = next_section(reader, code)
            value_offset = reader.pos
            reader.skip()
            sections.append(Section(code, offset, value_offset, reader.pos))
    except (IndexError, UnicodeDecodeError) as error:
        raise malformed(error, reader) from None
    return sections


def next_section(reader: Reader, previous: i64) -> i64:
    """Read the descriptor of the next section, and check that it may follow the previous one (0 at first).

    The reader then stands at the section's value, whose type is the right one.
    """
    buf = reader.buf
    pos = reader.pos
    descriptor: i64 = buf[pos + 1]
    code: i64
    if buf[pos] != 0:
        raise DecodeError("a section does not begin with a descriptor", pos)
    if descriptor == 0x53:
        code = buf[pos + 2]
        reader.pos = pos + 3
    else:
        reader.pos = pos + 1
        code = _section_code(reader.value(), pos)
    due: i64 = _VALUE_TYPES[code]
    if code <= previous or previous >= 0x75 or due == 0:
        _check_place(code, previous, pos)
        reader.count(SECTION_VALUES)
    kind: i64 = buf[reader.pos]
    if TYPES[kind] != due and code != 0x77:
        raise DecodeError(f"{_NAMES[code]} is of type {type_name(kind)}", reader.pos)
    return code


def _check_place(code: i64, previous: i64, pos: i64) -> None:
    """Check a section that is unknown, does not come after one of a lower code, or comes after the body."""
    if code not in _NAMES:
        raise DecodeError(f"0x{code:02x} is not a section of a message", pos)
    if code < previous or (code == previous and not 0x75 <= code <= 0x76):
        raise DecodeError(f"{_NAMES[code]} comes after {_NAMES[previous]}", pos)
    if code != previous and code != 0x78:
        raise DecodeError(f"a body of {_NAMES[previous]} goes on with {_NAMES[code]}", pos)


def _section_code(descriptor: object, pos: i64) -> i64:
    if isinstance(descriptor, ULong) and descriptor < 256:
        return int(descriptor)
    if isinstance(descriptor, Symbol):
        return _SYMBOLS.get(descriptor, 0)
    raise DecodeError(f"{descriptor!r} is not the descriptor of a section", pos)

"""Feeds `BridgeMessage.decode` with what it should refuse, and with what it should not.

Inputs are of four kinds: any bytes, messages with damage, maps with the right keys and any values, and sound
messages. The checks are here too: what is decoded can be read and written and has the same meaning as to the
tolerant reader; everything else is a `DecodeError`.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import msgspec

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage, PropertyType, tolerant
from isthmus.codecs.bridge_message.wire import Wire
from isthmus.errors import DecodeError

HEADER_FIELDS = msgspec.structs.fields(BridgeHeader)
KEYS = ["body", "header", "props", "type", "value", "p", "appl_orig", *[f.encode_name for f in HEADER_FIELDS]]
INTEGERS = [
    0,
    1,
    -1,
    -32,
    -33,
    127,
    128,
    255,
    256,
    -128,
    -129,
    2**15,
    2**16,
    2**31,
    2**32,
    -(2**31),
    2**63 - 1,
]
FLOATS = [0.0, -0.0, 1.5, 0.1, 1e300, 5e-324, float("inf"), float("-inf"), float("nan")]
BITS = {PropertyType.INT8: 8, PropertyType.INT16: 16, PropertyType.INT32: 32, PropertyType.INT64: 64}


def survives(data: bytes) -> bool:
    """Whether the bytes are a message. Fails if decoding does anything but return a whole one or refuse."""
    try:
        message = BridgeMessage.decode(data)
    except DecodeError:
        assert not readable_by_tolerance(data), f"refused, but the tolerant reader takes it: {data.hex()}"
        return False
    assert repr(message)
    assert len(message.properties) >= 0
    assert BridgeMessage.decode(message.encode()) == message, data.hex()
    assert BridgeMessage(_wire=Wire(*tolerant.read(data))) == message, data.hex()
    return True


def readable_by_tolerance(data: bytes) -> bool:
    try:
        tolerant.read(data)
    except DecodeError:
        return False
    return True


def any_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(40))


def sound_message(rng: random.Random) -> BridgeMessage:
    message = BridgeMessage(rng.randbytes(rng.choice([0, 5, 300])))
    for field in rng.sample(HEADER_FIELDS, rng.randrange(6)):
        kinds = {int: rng.randrange(-(2**31), 2**31), str: text(rng), bytes: rng.randbytes(24)}
        setattr(message.header, field.name, kinds[type(field.default)])
    for _ in range(rng.choice([0, 1, 2, 5, 17])):
        declared = rng.choice(list(PropertyType))
        message.set_property(text(rng), value_of_type(rng, declared), declared)
    return message


def value_of_type(rng: random.Random, type: PropertyType) -> str | int | float | bool | bytes | None:
    if bits := BITS.get(type):
        return rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) >> rng.randrange(bits)
    match type:
        case PropertyType.STRING:
            return text(rng)
        case PropertyType.FLOAT32:
            return struct.unpack(">f", rng.randbytes(4))[0]
        case PropertyType.FLOAT64:
            return rng.choice(FLOATS)
        case PropertyType.BOOL:
            return rng.random() < 0.5
        case PropertyType.BYTES:
            return rng.randbytes(rng.choice([0, 3, 300]))
    return None


def text(rng: random.Random) -> str:
    return "".join(rng.choices("abcdeé漢😀\x00", k=rng.choice([0, 1, 3, 10, 40])))


def damaged(rng: random.Random, data: bytes) -> bytes:
    """A message with some of its bytes changed, cut out, doubled or put in."""
    octets = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(octets) + 1)
        to = min(at + rng.randrange(8), len(octets))
        octets[at:to] = rng.choice(
            [
                b"",
                rng.randbytes(1),
                rng.randbytes(to - at),
                octets[at:to] * 2,
                bytes([rng.randrange(0xC0, 0xE0)]),
            ]
        )
    return bytes(octets)


def right_keys(rng: random.Random) -> bytes:
    """A map of the right shape whose values are anything, in forms that msgspec would not choose."""
    properties = {
        text(rng) or "p": packed(rng, {"type": any_value(rng, 1), "value": any_value(rng, 2)})
        for _ in range(2)
    }
    header = {rng.choice(KEYS): any_value(rng, 1) for _ in range(rng.randrange(4))}
    parts = {"body": any_value(rng, 2), "header": packed(rng, header), "props": packed(rng, properties)}
    return packed(rng, dict(rng.sample(sorted(parts.items()), rng.randrange(1, 4))))


def packed(rng: random.Random, entries: dict[str, bytes]) -> bytes:
    count = len(entries)
    opening = rng.choice(
        [bytes([0x80 + count]), b"\xde" + struct.pack(">H", count), b"\xdf" + struct.pack(">I", count)]
    )
    return opening + b"".join(msgspec.msgpack.encode(key) + value for key, value in entries.items())


def any_value(rng: random.Random, depth: int) -> bytes:
    encode = msgspec.msgpack.encode
    number = rng.choice(INTEGERS)
    choices: list[Callable[[], bytes]] = [
        lambda: bytes([rng.randrange(12)]),
        lambda: encode(number),
        lambda: b"\xd3" + struct.pack(">q", number),
        lambda: encode(rng.choice(FLOATS)),
        lambda: b"\xca" + rng.randbytes(4),
        lambda: rng.choice([b"\xc0", b"\xc2", b"\xc3"]),
        lambda: encode(text(rng)),
        lambda: encode(rng.randbytes(3)),
        lambda: b"\xa3" + rng.randbytes(3),
        lambda: b"\xd4" + rng.randbytes(2),
        lambda: b"\x92" + any_value(rng, depth - 1) * 2 if depth else b"\x90",
        lambda: b"\x81" + any_value(rng, depth - 1) * 2 if depth else b"\x80",
    ]
    return rng.choice(choices)()


def run(count: int, seed: int) -> dict[str, int]:
    """Make and check that many inputs; how many of each kind were messages."""
    rng = random.Random(seed)
    taken = {"any bytes": 0, "damaged": 0, "right keys": 0, "sound": 0}
    for number in range(count):
        match number % 4:
            case 0:
                taken["any bytes"] += survives(any_bytes(rng))
            case 1:
                taken["damaged"] += survives(damaged(rng, sound_message(rng).encode()))
            case 2:
                taken["right keys"] += survives(right_keys(rng))
            case 3:
                message = sound_message(rng)
                assert survives(message.encode())
                assert BridgeMessage.decode(message.encode()) == message
                taken["sound"] += 1
    return taken

"""Damaged AMQP messages, and what must hold of reading them.

Inputs are random bytes, captured messages with damage, and messages spliced from several. Each is read in
every way; anything but `DecodeError`, or an input that takes longer than its length allows, ends the run with
the input in hex and the seed that finds it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from isthmus.codecs.amqp import AmqpMessage, boundaries, decode_value, index
from isthmus.codecs.jms import to_message
from isthmus.errors import DecodeError

GOLDEN = Path(__file__).parents[1] / "golden" / "amqp"

# Bytes that mean something: constructors, descriptors, small and extreme sizes.
TELLING = bytes.fromhex(
    "00 01 02 04 40 41 42 43 44 45 50 53 56 60 70 71 72 73 74 75 76 77 78 7f 80 83 94 98 a0 a1 a3 b0 b1 b3"
    "c0 c1 d0 d1 e0 f0 fe ff"
)

SECONDS_BASE = 0.25
SECONDS_PER_BYTE = 0.0005
"""Some hundred times what an input takes: far from noise, and far below what a quadratic one would need."""


WAYS: tuple[Callable[[bytes], object], ...] = (
    boundaries,
    index,
    AmqpMessage.decode,
    decode_value,
    lambda data: to_message(data, target="target"),
)
"""How bytes are read, at every depth."""


def read_every_way(data: bytes) -> int:
    """Read bytes at every depth and return how many of the ways succeeded. Only `DecodeError` may come."""
    passed = 0
    for read in WAYS:
        try:
            read(data)
        except DecodeError:
            continue
        passed += 1
        if read is AmqpMessage.decode:
            message = AmqpMessage.decode(data)
            assert AmqpMessage.decode(message.encode()) == message
    return passed


def mutations(data: bytes, random: Random) -> bytes:
    """The bytes with some damage: changed, lost, added, repeated, or cut off."""
    damaged = bytearray(data)
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(damaged) + 1)
        match random.randrange(6):
            case 0 if place < len(damaged):
                damaged[place] = random.choice(TELLING)
            case 1 if place < len(damaged):
                damaged[place] ^= 1 << random.randrange(8)
            case 2:
                damaged[place:place] = bytes(random.choices(TELLING, k=random.randint(1, 5)))
            case 3:
                del damaged[place : place + random.randint(1, 8)]
            case 4:
                end = min(len(damaged), place + random.randint(1, 40))
                damaged[end:end] = damaged[place:end]
            case _:
                del damaged[place + random.randrange(200) :]
    return bytes(damaged)


def inputs(random: Random, golden: list[bytes]) -> bytes:
    """One input."""
    match random.randrange(10):
        case 0:
            return random.randbytes(random.randrange(100))
        case 1:
            return bytes(random.choices(TELLING, k=random.randrange(100)))
        case 2:
            one, other = random.choice(golden), random.choice(golden)
            return one[: random.randrange(len(one))] + other[random.randrange(len(other)) :]
        case _:
            return mutations(random.choice(golden), random)


def fuzz(count: int, seed: int) -> float:
    """Read that many inputs and return the longest time that one took, in seconds."""
    golden = [path.read_bytes() for path in sorted(GOLDEN.glob("*.amqp"))]
    passed, slowest = 0, 0.0
    for number in range(count):
        data = inputs(Random(f"{seed}/{number}"), golden)
        before = time.process_time()
        try:
            passed += read_every_way(data) > 0
        except Exception as error:
            raise AssertionError(f"seed {seed}, input {number}, {data.hex()}") from error
        seconds = time.process_time() - before
        slowest = max(slowest, seconds)
        if seconds > SECONDS_BASE + SECONDS_PER_BYTE * len(data):
            raise AssertionError(f"seed {seed}, input {number} took {seconds:.3f} s, {data.hex()}")
        if number % 20_000 == 19_999:
            print(f"{number + 1:,} inputs, {passed:,} of them read in some way", flush=True)
    return slowest

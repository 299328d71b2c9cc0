"""What a door is to the fuzzer, and how sound text is damaged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, NamedTuple


class Door(NamedTuple):
    """A way in."""

    name: str
    make: Callable[[Random], Any]
    """An input, by what the random numbers say."""
    take: Callable[[Any], Awaitable[bool]]
    """Feed it. True if it is taken, False if it is refused as promised. Raises whatever else happens."""


Opening = Callable[[], AbstractAsyncContextManager[Door]]


def damaged_text(sound: Sequence[str], telling: Sequence[str], random: Random) -> str:
    """Text with some damage: pieces changed, lost, repeated, added, spliced from two, or very many of one."""
    text = random.choice(sound)
    for _ in range(random.randint(0, 4)):
        at = random.randrange(len(text) + 1)
        match random.randrange(7):
            case 0:
                text = text[:at] + random.choice(telling) + text[at:]
            case 1:
                text = text[:at] + text[at + random.randint(1, 8) :]
            case 2:
                text = (
                    text[:at]
                    + chr(random.choice((0, 9, 10, 34, 39, 92, 127, 233, 0x2028, 0x1F600)))
                    + text[at:]
                )
            case 3:
                end = min(len(text), at + random.randint(1, 40))
                text = text[:end] + text[at:end] + text[end:]
            case 4:
                other = random.choice(sound)
                text = text[:at] + other[random.randrange(len(other) + 1) :]
            case 5:
                text = text[:at] + random.choice(telling) * random.choice((10, 100, 1000)) + text[at:]
            case _:
                text = text[:at]
    return text

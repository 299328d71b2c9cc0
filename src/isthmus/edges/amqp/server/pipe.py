"""What a worker of the AMQP server and its owner write to each other: frames, of any length.

A frame is its length in eight bytes, and its content. Lines would not do: what a worker has to tell grows
with its clients, and a reader of lines has a limit.
"""

from __future__ import annotations

from asyncio import IncompleteReadError, StreamReader
from typing import BinaryIO, Final

_LENGTH: Final = 8


def framed(content: bytes) -> bytes:
    """The content as a frame."""
    return len(content).to_bytes(_LENGTH, "big") + content


def first_frame(pipe: BinaryIO) -> bytes:
    """The content of the first frame, before there is a loop."""
    return pipe.read(int.from_bytes(pipe.read(_LENGTH), "big"))


async def read_frame(pipe: StreamReader) -> bytes | None:
    """The content of the next frame; None when the other side has ended."""
    try:
        return await pipe.readexactly(int.from_bytes(await pipe.readexactly(_LENGTH), "big"))
    except IncompleteReadError:
        return None

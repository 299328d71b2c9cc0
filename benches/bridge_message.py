"""How fast messages are encoded and decoded, next to the real Go codec in the same run.

``python -m benches.bridge_message`` builds a Go program around the ugorji codec, as the NATS-MQ bridge's own
Go helper uses it, and has it and Isthmus take turns, so that what else the machine does meets both alike. One
message, with 22 header fields and 9 properties (one of each type that has a value), and a body of 256 bytes
or 10 KiB.

What a turn measures:

- encode: ``message.encode()`` of a message that was built before; of its parts only the float32 is held in
  encoded form.
- decode: ``BridgeMessage.decode(data)``. Body and header are Python objects then. The properties have all
  been checked, and each becomes a Python object when it is asked for. Go's are values then, unchecked.
- read: decode, and then every property by the getter of its type, in the order in which they stand: a getter
  finds the one after the last at once, and goes past all between for another. It is set against Go's decode,
  after which reading costs Go next to nothing.

A ratio is Go's time by ours, from the medians of all turns. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benches.harness import finish, options_of
from isthmus.codecs.bridge_message import COMPILED, BridgeHeader, BridgeMessage, PropertyType

GO_MODULE = Path(__file__).parent.parent / "tests" / "interop" / "bridge_message" / "go"
BODY_SIZES = (256, 10 * 1024)
TURNS = 60
GO_COUNT, OUR_COUNT = 2_000, 6_000  # a turn takes each of them about 10 ms

Work = Callable[[int], int]
"""Does something that many times, and returns the nanoseconds it took."""


def message_of(body_size: int) -> BridgeMessage:
    header = BridgeHeader(
        version=2,
        report=0x0700,
        msg_type=1,
        expiry=3000,
        encoding=546,
        coded_char_set_id=1208,
        format="MQSTR",
        priority=4,
        persistence=1,
        msg_id=bytes(range(24)),
        correl_id=bytes(range(24, 48)),
        reply_to_q="DEV.REPLY.1",
        reply_to_q_mgr="QM1",
        user_identifier="app",
        accounting_token=bytes(range(32)),
        put_appl_type=28,
        put_appl_name="orders-service",
        put_date="20260731",
        put_time="12345678",
        group_id=bytes(range(48, 72)),
        msg_flags=24,
        original_length=-1,
    )
    message = BridgeMessage(bytes(range(256)) * (body_size // 256), header)
    message.set_property("region", "EMEA-north")
    message.set_property("attempt", 9, PropertyType.INT8)
    message.set_property("port", 259, PropertyType.INT16)
    message.set_property("customer", 222_222_222, PropertyType.INT32)
    message.set_property("sequence", 222_222_222_222_222_222, PropertyType.INT64)
    message.set_property("ratio", 3.14, PropertyType.FLOAT32)
    message.set_property("amount", 6.4999)
    message.set_property("urgent", True)
    message.set_property("digest", bytes(range(18)))
    return message


def read(data: bytes) -> None:
    message = BridgeMessage.decode(data)
    message.get_string_property("region")
    message.get_int8_property("attempt")
    message.get_int16_property("port")
    message.get_int32_property("customer")
    message.get_int64_property("sequence")
    message.get_float32_property("ratio")
    message.get_float64_property("amount")
    message.get_bool_property("urgent")
    message.get_bytes_property("digest")


def ours(call: Callable[..., object], *arguments: object) -> Work:
    def work(count: int) -> int:
        started = time.perf_counter_ns()
        for _ in range(count):
            call(*arguments)
        return time.perf_counter_ns() - started

    return work


@contextmanager
def go_program(folder: Path, data: bytes) -> Iterator[Callable[[str], Work]]:
    """The Go program with a message: gives the work of one name."""
    process = subprocess.Popen([folder / "timing"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    to_go, from_go = process.stdin, process.stdout

    def named(name: str) -> Work:
        def work(count: int) -> int:
            to_go.write(f"{name} {count}\n")
            to_go.flush()
            return int(from_go.readline())

        return work

    try:
        to_go.write(data.hex() + "\n")
        yield named
    finally:
        to_go.close()
        process.wait(timeout=10)


def measure(folder: Path, body_size: int, turns: int) -> dict[str, float]:
    """The medians in nanoseconds, by what was measured."""
    message = message_of(body_size)
    data = message.encode()
    assert BridgeMessage.decode(data) == message
    with go_program(folder, data) as go:
        works = {
            "go encode": (go("encode"), GO_COUNT),
            "encode": (ours(message.encode), OUR_COUNT),
            "go decode": (go("decode"), GO_COUNT),
            "decode": (ours(BridgeMessage.decode, data), OUR_COUNT),
            "read": (ours(read, data), OUR_COUNT // 3),
        }
        taken_ns: dict[str, list[float]] = {name: [] for name in works}
        for turn in range(-3, turns):
            for name, (work, count) in works.items():
                gc.collect()
                taken = work(count) / count
                if turn >= 0:  # those before warm both up
                    taken_ns[name].append(taken)
    return {name: statistics.median(taken) for name, taken in taken_ns.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.bridge_message", description="beside Go's codec")
    parser.add_argument("--turns", type=int, default=TURNS)
    options = options_of(parser, arguments, turns=1)
    if shutil.which("go") is None:
        sys.exit("This benchmark compares with Go, and there is no Go toolchain (go) on this machine.")
    if not COMPILED:
        print("Isthmus was built without a C compiler: decoding takes several times as long as it could.")
    with tempfile.TemporaryDirectory() as folder:
        print("building the Go program …", flush=True)
        build = ["go", "build", "-buildvcs=false", "-o", f"{folder}/timing", "./timing"]
        subprocess.run(build, cwd=GO_MODULE, check=True)
        found: dict[int, dict[str, float]] = {}
        for body_size in BODY_SIZES:
            print(f"body of {body_size} bytes: {options.turns} turns …", flush=True)
            found[body_size] = measure(Path(folder), body_size, options.turns)
            for name, nanoseconds in found[body_size].items():
                print(f"  {name:<10} {nanoseconds / 1000:7.2f} µs")
    ratios = {
        f"{name}_ratio": {size: found[size][f"go {by}"] / found[size][name] for size in BODY_SIZES}
        for name, by in (("encode", "encode"), ("decode", "decode"), ("read", "decode"))
    }
    result: dict[str, object] = {"compiled": COMPILED}
    for name, by_size in ratios.items():
        result[name] = round(min(by_size.values()), 2)
    for name, by_size in ratios.items():
        result[f"{name}_by_body_size"] = {str(size): round(ratio, 2) for size, ratio in by_size.items()}
    finish("bridge_message", result)


if __name__ == "__main__":
    main()

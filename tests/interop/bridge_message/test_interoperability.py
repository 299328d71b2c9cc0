"""Messages pass between Isthmus and the real Go and Java codecs, both ways, with nothing lost.

Go programs (the ugorji codec, and our helper) and Java programs (Jackson with msgpack, and our helper) are
built and asked to write and to read messages that are described to them in JSON. On a machine without either
toolchain its tests are skipped.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from isthmus.codecs.bridge_message import BridgeHeader, BridgeMessage, PropertyType
from isthmus.embedded import jars
from isthmus.errors import HardFailure

HERE = Path(__file__).parent
HELPERS = HERE.parents[2] / "helpers"
CLASSPATH_VARIABLE = "ISTHMUS_MSGPACK_CLASSPATH"
JARS_CONF = "msgpack"
HANGS_S = 3600
"""A program that takes longer than this does not end. The first build fetches and compiles the codec."""

Peer = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]

TEXTS = ["", "text", "ünï漢😀\x00\n", "x" * 31, "x" * 32, "x" * 255, "é" * 200, "x" * 70_000]
OCTETS = [b"", b"\x00\x01\xff", b"\xff" * 31, b"\xff" * 32, b"\xff" * 255, b"\xfe" * 256, bytes(70_000)]
NAN = struct.unpack(">d", bytes.fromhex("7ff8000000000000"))[0]
FLOATS = [1.5, -0.0, 0.0, math.inf, -math.inf, NAN]
MIDDLE_INTEGERS = [0, 1, -1, 127, 128, -32, -33, -128]

VALUES: dict[PropertyType, list[Any]] = {
    PropertyType.STRING: TEXTS,
    PropertyType.INT8: [0, 1, -1, 31, -32, -33, 127, -128],
    PropertyType.INT16: [*MIDDLE_INTEGERS, 255, 256, -129, 2**15 - 1, -(2**15)],
    PropertyType.INT32: [*MIDDLE_INTEGERS, 65535, 65536, -(2**15) - 1, 2**31 - 1, -(2**31)],
    PropertyType.INT64: [*MIDDLE_INTEGERS, 2**32 - 1, 2**32, -(2**31) - 1, 2**63 - 1, -(2**63)],
    PropertyType.FLOAT32: [*FLOATS, 2**-149, 3.4028234663852886e38],
    PropertyType.FLOAT64: [*FLOATS, 5e-324, 0.1, 1.7976931348623157e308],
    PropertyType.BOOL: [False, True],
    PropertyType.BYTES: OCTETS,
    PropertyType.NULL: [None],
}

GO_READERS = ["helper", "old", "unsigned"]
GO_WRITERS = ["helper", "old", "unsigned", "wide", "empties", "sorted"]
JAVA_WRITERS = ["helper", "plain", "sparse"]


def messages() -> dict[str, BridgeMessage]:
    """One message for each thing that could go wrong."""
    found = {"empty": BridgeMessage(), "body": BridgeMessage(b"\x00\xff body")}
    for size in (255, 256, 65535, 65536):
        found[f"body of {size}"] = BridgeMessage(b"\xfe" * size)
    edges = {"report": [2**31 - 1, -(2**31), 128], "format": TEXTS, "msg_id": OCTETS}
    for name, values in edges.items():
        for number, value in enumerate(values):
            found[f"header {name} {number}"] = BridgeMessage(b"", BridgeHeader(**{name: value}))
    for number, field in enumerate(msgspec.structs.fields(BridgeHeader)):
        value = {int: number + 1, str: field.name, bytes: b"\x00" + field.name.encode()}[type(field.default)]
        found[f"header {field.name}"] = BridgeMessage(b"", BridgeHeader(**{field.name: value}))
    for type_, values in VALUES.items():
        for number, value in enumerate(values):
            message = BridgeMessage()
            message.set_property("p", value, type_)
            found[f"{type_.name} {number}"] = message
    for count in (15, 16, 65536):
        message = BridgeMessage()
        for number in range(count):
            message.set_property(f"p{number}", number, PropertyType.INT32)
        found[f"{count} properties"] = message
    everything = BridgeMessage(b"body", BridgeHeader(version=2, msg_id=bytes(24), format="MQSTR"))
    for type_, values in VALUES.items():
        everything.set_property(f"ü {type_.name}", values[-1], type_)
    return found | {"everything": everything}


MESSAGES = messages()


def described(message: BridgeMessage) -> dict[str, Any]:
    """The message in the words in which the programs speak of it: all values as text, bytes as hex digits."""
    fields = {
        field.encode_name: as_text(getattr(message.header, field.name))
        for field in msgspec.structs.fields(BridgeHeader)
        if getattr(message.header, field.name)
    }
    properties = {
        name: {"type": int(property.type), "value": as_text(property.value, property.type)}
        for name, property in message.properties.items()
    }
    return {"body": message.body.hex(), "header": fields, "props": properties}


def as_text(value: object, type_: PropertyType | None = None) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case float():
            return struct.pack(">f" if type_ is PropertyType.FLOAT32 else ">d", value).hex()
    return str(value)


def run_program(command: list[str]) -> Peer:
    def exchange(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        lines = "\n".join(map(json.dumps, requests)) + "\n"
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=HANGS_S, check=False
        )
        assert done.returncode == 0, done.stderr
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(replies) == len(requests)
        return replies

    return exchange


def go_program(folder: Path, package: str) -> Peer:
    """One of the Go programs, built now; Go keeps the codec in its own cache."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go toolchain (go) on this machine")
    program = folder / package
    go_run("build", "-buildvcs=false", "-o", str(program), f"./{package}", folder=HERE / "go")
    return run_program([str(program)])


def go_run(*arguments: str, folder: Path) -> None:
    done = subprocess.run(
        ["go", *arguments], cwd=folder, capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    if done.returncode and "dial tcp" in done.stderr:
        pytest.skip("Go's module proxy cannot be reached")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    return go_program(tmp_path_factory.mktemp("go"), "interop")


@pytest.fixture(scope="module")
def go_helper(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    return go_program(tmp_path_factory.mktemp("go"), "helper")


@pytest.fixture(scope="module")
def java_classpath() -> str:
    """jackson-dataformat-msgpack and what it needs."""
    if given := os.environ.get(CLASSPATH_VARIABLE):
        return given
    if JARS_CONF not in jars.confs():
        pytest.skip(f"no jars for msgpack: neither {CLASSPATH_VARIABLE} nor ivy.xml names them")
    try:
        return jars.classpath(JARS_CONF)
    except HardFailure as failure:
        pytest.skip(f"the jars for msgpack cannot be fetched: {failure}")


@pytest.fixture(scope="module")
def java_programs(tmp_path_factory: pytest.TempPathFactory, java_classpath: str) -> Callable[[str], Peer]:
    """The Java programs, compiled now together with the helper."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler (javac) on this machine")
    classes = tmp_path_factory.mktemp("java")
    sources = [*(HERE / "java").glob("*.java"), *(HELPERS / "java" / "src" / "main").rglob("*.java")]
    compile_command = ["javac", "-encoding", "UTF-8", "-cp", java_classpath, "-d", str(classes)]
    compiled = subprocess.run(
        [*compile_command, *map(str, sources)], capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert compiled.returncode == 0, compiled.stderr
    classpath = os.pathsep.join([str(classes), java_classpath])
    return lambda name: run_program(["java", "-XX:TieredStopAtLevel=1", "-cp", classpath, name])


@pytest.fixture(scope="module")
def java(java_programs: Callable[[str], Peer]) -> Peer:
    return java_programs("Interop")


@pytest.fixture(scope="module")
def java_helper(java_programs: Callable[[str], Peer]) -> Peer:
    return java_programs("Helper")


def sample(dialect: str) -> dict[str, BridgeMessage]:
    """All messages; the longest one only once a peer, because describing it takes seconds."""
    left_out = set() if dialect == "helper" else {"65536 properties"}
    if dialect == "empties":  # Go takes a negative zero for nothing, and so does not write it
        left_out |= {f"{type_} {FLOATS.index(-0.0)}" for type_ in ("FLOAT32", "FLOAT64")}
    return {name: message for name, message in MESSAGES.items() if name not in left_out}


def check_reading(peer: Peer, dialect: str) -> None:
    """What Isthmus writes is read by the peer as the same message."""
    sent = sample(dialect)
    requests = [{"dialect": dialect, "data": message.encode().hex()} for message in sent.values()]
    for (name, message), reply in zip(sent.items(), peer(requests), strict=True):
        assert "error" not in reply, (name, reply)
        assert reply["message"] == described(message), name


def check_writing(peer: Peer, dialect: str) -> None:
    """What the peer writes is read by Isthmus as the same message."""
    sent = sample(dialect)
    requests = [{"dialect": dialect, "message": described(message)} for message in sent.values()]
    for (name, message), reply in zip(sent.items(), peer(requests), strict=True):
        assert "error" not in reply, (name, reply)
        decoded = BridgeMessage.decode(bytes.fromhex(reply["data"]))
        assert decoded == message, name
        assert described(decoded) == described(message), name


@pytest.mark.parametrize("dialect", GO_READERS)
def test_go_reads_what_isthmus_writes(go: Peer, dialect: str) -> None:
    check_reading(go, dialect)


@pytest.mark.parametrize("dialect", GO_WRITERS)
def test_isthmus_reads_what_go_writes(go: Peer, dialect: str) -> None:
    check_writing(go, dialect)


def test_java_reads_what_isthmus_writes(java: Peer) -> None:
    check_reading(java, "helper")


@pytest.mark.parametrize("dialect", JAVA_WRITERS)
def test_isthmus_reads_what_java_writes(java: Peer, dialect: str) -> None:
    check_writing(java, dialect)


def test_the_go_helper_reads_and_writes_what_isthmus_does(go_helper: Peer) -> None:
    check_reading(go_helper, "helper")
    check_writing(go_helper, "helper")


def test_the_java_helper_reads_and_writes_what_isthmus_does(java_helper: Peer) -> None:
    check_reading(java_helper, "helper")
    check_writing(java_helper, "helper")


@pytest.mark.parametrize("writer", ["go", "go_helper", "java", "java_helper"])
@pytest.mark.parametrize("reader", ["go_helper", "java_helper"])
def test_a_helper_reads_what_every_other_writes(
    request: pytest.FixtureRequest, writer: str, reader: str
) -> None:
    sent = sample("other")
    write, read = request.getfixturevalue(writer), request.getfixturevalue(reader)
    written = write([{"dialect": "helper", "message": described(each)} for each in sent.values()])
    found = read([{"dialect": "helper", "data": each["data"]} for each in written])
    for (name, message), reply in zip(sent.items(), found, strict=True):
        assert reply.get("message") == described(message), (name, reply)


def test_the_go_helper_builds_and_passes_its_tests() -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no Go toolchain (go) on this machine")
    go_run("build", "-buildvcs=false", "./...", folder=HELPERS / "go")
    go_run("vet", "./...", folder=HELPERS / "go")
    go_run("test", "-buildvcs=false", "./...", folder=HELPERS / "go")


def test_the_java_helper_builds_with_maven_and_passes_its_tests(tmp_path: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("there is no Maven (mvn) on this machine")
    folder = Path(shutil.copytree(HELPERS / "java", tmp_path / "java"))  # it builds into the folder
    done = subprocess.run(
        ["mvn", "-q", "-B", "package"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    if done.returncode and re.search("Could not transfer|offline mode", done.stdout):
        pytest.skip("Maven's repository cannot be reached")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((folder / "target").glob("mqbridge-*.jar"))

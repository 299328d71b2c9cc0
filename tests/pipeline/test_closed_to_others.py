"""Other users of the machine see no secret of the pipeline, and can call it nowhere."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from tests.support.pipeline.ledger_bridge import LedgerBridge, bodies, transaction
from tests.support.processes import children_of

SECRET = "hunter2 with blanks = and #"

SESSION = """
import sys
from pathlib import Path
from isthmus.config.model.settings import PipelineSettings
from isthmus.pipeline.session import start_session

secret = {"spark.isthmus.password": sys.argv[2]}
settings = PipelineSettings(master="local[1]", spark=secret)
session = start_session("test", settings, tasks=1, log_dir=Path(sys.argv[1]))
print(session.sparkContext.getConf().get("spark.isthmus.password"), flush=True)
sys.stdin.readline()
session.stop()
"""


def test_secrets_among_the_options_are_in_no_command_line_and_in_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder with blanks"
    with subprocess.Popen(
        [sys.executable, "-c", SESSION, str(folder), SECRET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline().strip() == SECRET
        lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in _descendants(process.pid)]
        assert any("SparkSubmit" in line for line in lines)
        assert not [line for line in lines if "hunter2" in line]
        assert not [path for path in folder.iterdir() if "hunter2" in path.read_text(errors="replace")]
        process.stdin.write("\n")


def test_no_call_passes_at_any_port_without_a_token(
    spark: SparkSession, kafka_servers: str, tmp_path: Path
) -> None:
    ledger = LedgerBridge(kafka_servers, tmp_path, spark)
    ledger.write(*transaction("t", ["a", "b"]))
    ledger.run()
    assert bodies(ledger.added()) == ["a", "b"]
    ports = [port for pid in (os.getpid(), ledger.jvm) for port in _listening(pid)]
    assert ports
    for port in ports:
        for call in ("c\nnobody\nrun\ne\n", "c\nz:java.lang.System\ncurrentTimeMillis\ne\n"):
            said = _answer(port, call)
            assert not re.match(r"!y|.*unknown", said, re.IGNORECASE), (port, call, said)


def _descendants(pid: int) -> list[int]:
    found = children_of(pid)
    for each in found:
        found += children_of(each)
    return found


def _listening(pid: int) -> Iterator[int]:
    """The TCP ports at which a process listens."""
    links = (link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink())
    sockets = {
        link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")
    }
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                yield int(fields[1].rpartition(":")[2], 16)


def _answer(port: int, call: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(call.encode())
        connection.settimeout(1)
        try:
            return connection.recv(1000).decode(errors="replace")
        except OSError:  # it says nothing, or closes the connection
            return ""

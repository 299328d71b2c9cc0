"""A real single-node Kafka (KRaft: broker and controller in one) on this machine, in a data folder.

::

    with EmbeddedKafka(Path(".isthmus/kafka"), secured=True) as kafka:
        Producer(kafka.cluster.python_options())

What it guarantees:

- it ends with its owner, even after kill -9 of the owner;
- topics survive a restart, and so does the port as long as nobody else has taken it;
- one broker at a time in a data folder; other processes of the owner find it with `find_running`;
- the data folder is its owner's alone, and a secured broker is, too: see `password.py`;
- messages of 16 MiB go through.

In the data folder: `topics/` (Kafka's own), `server.properties`, `kafka.log` (rotated), `kafka.out` (what
Java itself prints), `client.properties` (the password), and the two files of `claim.py`.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import javaproperties

from isthmus.embedded import jars
from isthmus.embedded.claim import Claim, answers, running_in
from isthmus.embedded.class_archive import ClassArchive
from isthmus.embedded.guarded import Guarded
from isthmus.embedded.java import java_command
from isthmus.embedded.password import LISTENER, Password, client_options, forget_password
from isthmus.errors import HardFailure
from isthmus.kafka.options import Kafka
from isthmus.private import UMASK, write_private

MAX_MESSAGE_BYTES = 16 * 2**20
_ROOM_BYTES = 2**20  # for what goes with a message of the maximum size: key, headers, the batch around it

_HOST = "127.0.0.1"
# Below the ports that systems give to outgoing connections: a client that keeps trying to reconnect to a
# port of that range can be given that very port, and then talks to itself.
_PORTS = range(20_000, 32_000)

_START_TIMEOUT_S = 180.0  # it takes 2 s on an idle machine; 9 s more after kill -9 of the broker
_POLL_S = 0.02
_COMPLAINT = re.compile(r"\S+ \S+ (ERROR|FATAL) |(Caused by: )?[\w.$]+(Exception|Error)\b|Error|Unrecognized")
_LOG_CONFIG = Path(__file__).with_name("log4j2.properties")

_SERVER_JAVA = (
    "-Xms256m",
    "-Xmx512m",
    "-XX:+UseG1GC",  # shorter pauses than ParallelGC; throughput is the same
    "-XX:+ExitOnOutOfMemoryError",  # a broker that lost a thread to it would hang
    "-Djdk.nio.maxCachedBufferSize=1048576",  # else every thread keeps a direct buffer of its largest message
)
_FORMAT_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # runs for half a second

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "topics",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(MAX_MESSAGE_BYTES + _ROOM_BYTES),
    "replica.fetch.max.bytes": str(MAX_MESSAGE_BYTES + _ROOM_BYTES),
    # Requests that wait are held in memory: without a limit, a burst of large messages ends the broker.
    "queued.max.request.bytes": str(128 * 2**20),
    "log.cleaner.dedupe.buffer.size": str(32 * 2**20),  # taken from the heap at start; 128 MiB by default
    "group.initial.rebalance.delay.ms": "0",
    # So often the controller writes a record that says nothing while nothing happens: each 500 ms by default.
    "metadata.max.idle.interval.ms": "10000",
    # One node, and few clients: with the usual 50 partitions, these topics are some 900 files.
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # A receiver of a JMS queue learns with its second heartbeat what it may read: five seconds by default.
    # Client ids of a process that died are free again after that time.
    "group.consumer.min.session.timeout.ms": "10000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class EmbeddedKafka:
    """One broker in one data folder. `overrides` are Kafka's own settings, `listeners` excepted.

    Unless it is `secured`, every user of the machine can use it. With `joins` it is a further broker of
    that one's cluster, which is not secured, and needs a `node.id` of its own.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        secured: bool = False,
        overrides: Mapping[str, str] = MappingProxyType({}),
        joins: EmbeddedKafka | None = None,
    ) -> None:
        self._folder = data_dir.absolute()
        self._secured = secured
        self._overrides = overrides
        self._password: Password | None = None
        self._joins = joins
        self._claim: Claim | None = None
        self._archive: ClassArchive | None = None
        self._server: Guarded | None = None
        self._address: str | None = None
        self._controller = ""

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect. Known once it has been started, and the same after `stop`."""
        if self._address is None:
            raise RuntimeError("the embedded Kafka has not been started")
        return self._address

    @property
    def cluster(self) -> Kafka:
        """How clients connect. Known once it has been started."""
        return Kafka(self.bootstrap_servers, self._password.options if self._password else {})

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that its data belong to. Known once it has been started."""
        text = (self._folder / "topics" / "meta.properties").read_text()
        return javaproperties.loads(text)["cluster.id"]

    @property
    def alive(self) -> bool:
        """Whether the broker's process is there."""
        return self._server is not None and self._server.exit_code is None

    def start(self) -> None:
        """Start the broker and wait until it answers. `HardFailure` if it does not, or one runs already."""
        java, classpath = java_command(), jars.files("broker")
        if self._claim is not None and not self.alive:
            self.stop()  # it ended by itself: let go of what it had
        claim = Claim(self._folder, what="embedded Kafka")
        self._claim = claim
        try:
            self._archive = archive = ClassArchive(java, classpath, self._folder)
            self._password = Password(self._folder) if self._secured else None
            self._address = self._configure()
            already_logged_bytes = log.stat().st_size if (log := self._folder / "kafka.log").exists() else 0
            if not (self._folder / "topics" / "meta.properties").exists():  # formatting writes it last
                self._format(_java(java, classpath, *_FORMAT_JAVA, *archive.reading()))
            options = [*_SERVER_JAVA, *shlex.split(os.environ.get("KAFKA_OPTS", ""))]
            command = _java(java, classpath, *options, *archive.reading_or_recording())
            self._server = Guarded(
                [*command, "kafka.Kafka", "server.properties"],
                folder=self._folder,
                output=self._folder / "kafka.out",
                hold=claim.descriptor,
                grace_s=10.0 if archive.is_recorded else 30.0,
            )
            if problem := _wait_until_it_answers(self._server, self.cluster, self._password):
                raise self._failure(problem, already_logged_bytes)
            claim.announce(self._address, self._server.pid)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the broker in good order, within a bounded time. May be called again, and before `start`."""
        claim, archive, server = self._claim, self._archive, self._server
        self._claim = self._archive = self._server = None
        if claim is None:
            return
        claim.withdraw()
        exit_code = None if server is None else server.stop()
        claim.release()
        if archive is not None and exit_code is not None:
            archive.keep(exit_code)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _configure(self) -> str:
        """Write `server.properties`, with the ports of the last time if they are free."""
        file = self._folder / "server.properties"
        last = re.findall(rf"//{_HOST}\\?:(\d+)", file.read_text()) if file.exists() else []
        broker, controller = _free_ports(*map(int, last[:2]))
        address, listener = f"{_HOST}:{broker}", LISTENER if self._password else "PLAINTEXT"
        listeners = f"{listener}://{address}"
        if self._joins is None:
            listeners += f",CONTROLLER://{_HOST}:{controller}"
            self._controller = f"{_HOST}:{controller}"
        else:
            self._controller = self._joins._controller
        settings = {
            "listeners": listeners,  # first, because the next start looks for the ports here
            "controller.quorum.bootstrap.servers": self._controller,
            **_SETTINGS,
            **({"process.roles": "broker"} if self._joins else {}),
            **(self._password.server_settings() if self._password else {}),
            **self._overrides,
        }
        write_private(file, javaproperties.dumps(settings, timestamp=False))
        if self._password is not None:
            self._password.keep(self._folder, address)
        else:
            forget_password(self._folder)
        return address

    def _format(self, java: list[str]) -> None:
        kind = "--no-initial-controllers" if self._joins else "--standalone"
        tool = ["kafka.tools.StorageTool", "format", kind, "--config", "server.properties"]
        run = subprocess.run(
            [*java, *tool, f"--cluster-id={self._joins.cluster_id if self._joins else _cluster_id()}"],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            umask=UMASK,
        )
        if run.returncode != 0:
            raise HardFailure(
                f"{self._folder} cannot be made a data folder of Kafka.\n{run.stdout}",
                remedy="See to what the lines above complain of, or choose another folder.",
            )

    def _failure(self, problem: str, already_logged_bytes: int) -> HardFailure:
        log, output = self._folder / "kafka.log", self._folder / "kafka.out"
        said = output.read_text(errors="replace").splitlines()
        if log.exists():
            said += log.read_bytes()[already_logged_bytes:].decode(errors="replace").splitlines()
        complaints = [line for line in said if _COMPLAINT.match(line)]
        return HardFailure(
            "\n".join([f"The embedded Kafka in {self._folder} {problem}.", *(complaints[:12] or said[-12:])]),
            remedy=f"See to what it complains of. All that it said is in {log} and {output}.",
        )


def find_running(data_dir: Path) -> Kafka | None:
    """The embedded Kafka that some process runs in this folder now, if any. Raises `HardFailure`."""
    try:
        address = running_in(data_dir)
        return None if address is None else Kafka(address, client_options(data_dir))
    except PermissionError:
        raise HardFailure(
            f"the embedded Kafka in {data_dir} is another user's",
            remedy="ask its owner, or use a Kafka of your own",
        ) from None


def _wait_until_it_answers(server: Guarded, kafka: Kafka, password: Password | None) -> str | None:
    """Wait for the group coordinator, which is the last to be ready. Returns what is wrong if it is not.

    The first request to the coordinator makes the broker create its topic. A consumer whose request that is
    gets an early refusal, upon which its library waits 3 s.
    """
    from confluent_kafka import KafkaException  # here: those who only look for a broker do without it

    from isthmus.kafka.blocking import admin_client

    deadline = time.monotonic() + _START_TIMEOUT_S
    admin = None
    while time.monotonic() < deadline:
        if server.exit_code is not None:
            return f"ended with exit code {server.exit_code}"
        if admin is None and answers(kafka.servers):  # not earlier: it would complain on stderr
            try:
                if password is not None:
                    password.set(kafka.servers)
                admin = admin_client(kafka)
            except KafkaException:
                pass  # the controller is not ready
        if admin is not None:
            try:
                admin.describe_consumer_groups(["isthmus"], request_timeout=5.0)["isthmus"].result()
                return None
            except KafkaException:
                pass  # the topic is being created, or read
        time.sleep(_POLL_S)
    return f"did not answer at {kafka.servers} within {_START_TIMEOUT_S:.0f} s"


def _java(command: Path, classpath: Sequence[Path], *options: str) -> list[str]:
    jars_in_order = os.pathsep.join(map(str, classpath))
    return [str(command), *options, f"-Dlog4j2.configurationFile={_LOG_CONFIG}", "-cp", jars_in_order]


def _free_ports(*wanted: int) -> tuple[int, int]:
    """Two ports: the wanted ones as far as they are free, else random ones that are."""
    candidates = dict.fromkeys((*wanted, *random.sample(_PORTS, 100)))
    free = (port for port in candidates if _is_free(port))
    try:
        return next(free), next(free)
    except StopIteration:
        raise HardFailure(f"All ports of {_HOST} are taken.", remedy="See by whom: ss -ltnp") from None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Java does: connections of the last broker that linger must not count as "taken".
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
        return True


def _cluster_id() -> str:
    """As `StorageTool random-uuid` makes it: 16 bytes in base64 for URLs, without padding."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

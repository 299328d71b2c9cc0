"""What a bridge needs of its machine and of other systems, tried before anything is started.

In: the settings. Out: one `Probe` for each port, file, folder and login; `attempt_all` tries them, all at
once. ``isthmus run`` does so before a JVM starts, ``isthmus check --connect`` and ``isthmus doctor`` for
people. What was not tried is never said to be well.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from isthmus.cli.bridge import kafka_folder
from isthmus.config import Settings
from isthmus.errors import ConfigError, HardFailure, IsthmusError, MqError, NotReady, Outage, Unreachable
from isthmus.extras import missing_extra
from isthmus.pipeline.state_lock import running_in

if TYPE_CHECKING:
    from isthmus.config.model.mq import MqSettings
    from isthmus.kafka.options import Kafka

ROOM_BYTES: Final = 256 * 2**20
"""What must be free for checkpoints, logs and an embedded Kafka: its segments alone are allocated ahead."""


class NotTried(str):
    """Why nothing could be tried, in place of what was found."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that a bridge needs."""

    what: str
    """The kind of thing: ``nats``, ``amqp.port``."""
    where: str
    """Which one, for people."""
    attempt: Callable[[], str]
    """Try it: returns what was found, or `NotTried`. Raises `IsthmusError`."""
    key: str | None = None
    """The setting that it hangs on."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a probe: ``said`` is what was found, or what is wrong."""

    probe: Probe
    said: str
    failure: IsthmusError | None = None

    @property
    def tried(self) -> bool:
        """Whether there is anything to go by."""
        return not isinstance(self.said, NotTried)

    @property
    def may_pass(self) -> bool:
        """Whether a running bridge would wait for it: for a system that does not answer, beside Kafka."""
        return isinstance(self.failure, Unreachable)

    @property
    def remedy(self) -> str | None:
        """What to do about a failure."""
        return self.failure.remedy if isinstance(self.failure, HardFailure) else None


def attempt_all(probes: Sequence[Probe]) -> list[Finding]:
    """Try all of them, each in a thread: it takes as long as the slowest one."""
    if not probes:
        return []
    with ThreadPoolExecutor(len(probes), thread_name_prefix="probe") as threads:
        return list(threads.map(_attempt, probes))


def _attempt(probe: Probe) -> Finding:
    try:
        return Finding(probe, probe.attempt())
    except ImportError as error:
        if (failure := missing_extra(error)) is None:
            raise
        return Finding(probe, str(failure), failure)
    except IsthmusError as failure:
        return Finding(probe, str(failure), failure)


def require(probes: Sequence[Probe]) -> list[Finding]:
    """Try all of them for a start; returns those that did not answer, but may later.

    Raises what keeps the bridge from starting: the one mistake, or `NotReady` with all of them.
    """
    failed = [each for each in attempt_all(probes) if each.failure is not None]
    final = [each.failure for each in failed if each.failure is not None and not each.may_pass]
    if len(final) > 1:
        raise NotReady(final)
    for failure in final:
        raise failure
    return failed


def probes(
    settings: Settings, *, pipeline: bool = True, edges: bool = True, holder: str | None = None
) -> list[Probe]:
    """Everything that a bridge with these settings needs, or these parts of it.

    ``holder`` is the process that runs this bridge already, if any: the ports are its own.
    """
    found = [_state(settings), *_ports(settings, edges=edges, holder=holder)]
    if edges:
        found += _files(settings)
    if pipeline:
        found.append(Probe("java", "Java", _java))
    found.append(_kafka(settings))
    if edges:
        found += [*_nats(settings), *_queue_managers(settings), *_brokers(settings)]
    return found


def probes_here(settings: Settings) -> list[Probe]:
    """All of it, for people who ask whether a bridge could start here, while one may run already."""
    return probes(settings, holder=running_in(settings.local_state_dir))


# This machine


def _state(settings: Settings) -> Probe:
    folder = settings.local_state_dir
    return Probe("state.dir", f"state.dir {folder}", partial(try_folder, folder), "state.dir")


def try_folder(folder: Path, room_bytes: int = ROOM_BYTES) -> str:
    """Write a file where the folder is, or is to be made. Raises `HardFailure`."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"isthmus")
        if existing == folder and folder.stat().st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
            raise PermissionError(0, "it belongs to another user")
        free = shutil.disk_usage(existing).free
    except OSError as error:
        raise HardFailure(
            f"state.dir {folder} cannot be written: {error.strerror}",
            remedy="set state.dir to a folder of your own that can be written",
        ) from None
    if free < room_bytes:
        raise HardFailure(
            f"state.dir {folder}: {free >> 20} MiB are free, and a bridge needs {room_bytes >> 20}",
            remedy="make room on its disk, or set state.dir to a folder on another one",
        )
    return f"{folder} can be written, {free / 2**30:.1f} GiB free"


def _ports(settings: Settings, *, edges: bool, holder: str | None) -> Iterator[Probe]:
    amqp, amqps = settings.amqp, settings.amqps
    wanted: list[tuple[str, str, int | None]] = [
        ("monitor.port", settings.monitor.host, settings.monitor.port)
    ]
    if edges and settings.listens_to_amqp:
        wanted.append(("amqp.port", amqp.host, amqp.port if amqp.enabled else None))
        wanted.append(("amqp.ws.port", amqp.host, amqp.ws_port))
        wanted.append(("amqps.port", amqp.host, amqps.port))
        wanted.append(("amqps.ws.port", amqp.host, amqps.ws_port))
    taken: dict[int, str] = {}
    for key, host, port in wanted:
        if port is not None:
            same = taken.get(port) if port else None
            taken.setdefault(port, key)
            attempt = partial(try_port, key, host, port, same_as=same, holder=holder)
            yield Probe(key, f"{key} {host}:{port}", attempt, key)


def try_port(key: str, host: str, port: int, *, same_as: str | None = None, holder: str | None = None) -> str:
    """Bind a port, and let go of it. Raises `HardFailure`; one that this bridge has already is its own."""
    remedy = f"set {key} to another port (0 takes any that is free), or see who has it: ss -ltnp"
    if same_as is not None:
        raise HardFailure(f"{key} is {port}, and so is {same_as}", remedy=f"set {key} to another port")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
    except OSError as error:
        if holder is not None:
            return NotTried(f"{host}:{port} is in use; this bridge runs already: {holder}")
        raise HardFailure(f"cannot listen on {host}:{port}: {error.strerror}", remedy=remedy) from None
    return f"{host}:{port} is free" if port else f"{host}: any port"


def _files(settings: Settings) -> Iterator[Probe]:
    users, amqps = settings.amqp.users_file, settings.amqps
    if settings.listens_to_amqp and users is not None:
        yield Probe("users", users, partial(_read_users, Path(users)), "amqp.users.file")
    if amqps.enabled:

        def load() -> str:
            amqps.context()
            return f"{amqps.certificate} can be used"

        yield Probe("amqps", str(amqps.certificate), load, "amqps.certificate")


def _read_users(path: Path) -> str:
    from isthmus.edges.amqp.server.users import Users

    return f"{path} has {len(list(Users.read(path)))} users"


def _java() -> str:
    from isthmus.embedded.java import java_command, java_version

    java = java_command()
    try:
        return f"{java_version(java).splitlines()[0]} ({java})"
    except OSError as error:
        raise HardFailure(
            f"{java} cannot be run: {error}", remedy="install Java 17, or set JAVA_HOME"
        ) from None


# Other systems


def _kafka(settings: Settings) -> Probe:
    where = "Kafka, embedded" if settings.kafka.embedded else f"Kafka at {settings.kafka.bootstrap_servers!r}"
    return Probe("kafka", where, partial(_try_kafka, settings), "kafka.bootstrap.servers")


def _try_kafka(settings: Settings) -> str:
    from isthmus.embedded.kafka import find_running
    from isthmus.kafka.options import Kafka

    if settings.kafka.embedded:
        running = find_running(kafka_folder(settings))
        if running is None:
            return NotTried("embedded: `isthmus run` starts it")
        kafka = running
    else:
        kafka = Kafka(settings.kafka.bootstrap_servers, settings.kafka.client)
    return asyncio.run(_ask_kafka(kafka, queues=settings.listens_to_amqp))


async def _ask_kafka(kafka: Kafka, *, queues: bool) -> str:
    from aiokafka.errors import AuthenticationFailedError, KafkaError, SaslAuthenticationFailed

    from isthmus.kafka.client import ResilientClient
    from isthmus.kafka.faults import reason
    from isthmus.kafka.share_requests import missing_for_queues

    client = ResilientClient(kafka)
    try:
        lacks = missing_for_queues(await client.versions())
    except (AuthenticationFailedError, SaslAuthenticationFailed) as error:
        raise HardFailure(
            f"Kafka at {kafka.servers!r} refuses the bridge: {reason(error)}",
            remedy="check the user and password in kafka.sasl.jaas.config, and kafka.sasl.mechanism",
        ) from None
    except (KafkaError, OSError) as error:
        raise Outage(
            f"Kafka at {kafka.servers!r} does not answer: {reason(error)}",
            remedy="check kafka.bootstrap.servers, the kafka.* security options, and that the brokers are up",
        ) from None
    finally:
        await client.close()
    return f"{kafka.servers} answers" + (f"; {lacks}" if lacks and queues else "")


def _nats(settings: Settings) -> Iterator[Probe]:
    from isthmus.edges.needs import uses_nats

    nats = settings.nats
    if not nats.servers:
        return

    def attempt() -> str:
        if not uses_nats(settings):
            return NotTried("nothing is taken from it, and no route goes there")
        from isthmus.edges.nats.client import NatsClient
        from isthmus.embedded.nats import server_program

        if nats.embedded:
            return NotTried(f"embedded: `isthmus run` starts {server_program()}")

        async def reach() -> str:
            return await NatsClient(nats, name=f"{settings.bridge_id} doctor").reach()

        return asyncio.run(reach())

    yield Probe("nats", f"NATS at {nats.shown_servers}", attempt, "nats.servers")


def _queue_managers(settings: Settings) -> Iterator[Probe]:
    from isthmus.edges.mq.client import queue_manager
    from isthmus.edges.needs import queue_managers

    for each in queue_managers(settings):
        yield Probe("mq", queue_manager(each).description, partial(_try_queue_manager, each), "mq.client")


def _try_queue_manager(settings: MqSettings) -> str:
    from isthmus.edges.mq.client import queue_manager, refused
    from isthmus.edges.mq.reasons import Outcome, outcome_of

    manager = queue_manager(settings)
    if settings.client == "memory":
        return NotTried(f"mq.client=memory: {manager.description}")
    try:
        manager.connect().disconnect()
    except MqError as error:
        if outcome_of(error) in (Outcome.GONE, Outcome.LATER):
            raise Unreachable(f"{manager.description}: {error}") from None
        raise refused(manager, error) from None
    return f"{manager.description} answers"


def _brokers(settings: Settings) -> Iterator[Probe]:
    for name in settings.amqp_brokers:
        yield Probe(
            "amqp", f"broker {name}", partial(_try_broker, settings, name), f"amqp.connect.{name}.url"
        )


def _try_broker(settings: Settings, name: str) -> str:
    from isthmus.edges.amqp.client.client import reach

    try:
        return f"{name}: {reach(settings.amqp_brokers[name], name, settings.bridge_id)}"
    except Unreachable as error:
        raise Unreachable(f"{name}: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"amqp.connect.{name}.{error}") from None

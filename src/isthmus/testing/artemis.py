"""A real Apache Artemis on this machine, as a user's broker would be: AMQP 1.0, and its own journal.

::

    with Artemis(tmp_path) as artemis:
        JmsConnectionFactory(artemis.url)

What it guarantees:

- it ends with its owner, even after kill -9 of the owner;
- after `stop`, `start` begins with the messages and at the port of the last time;
- everyone may send to and receive from every address; queues are made when they are first used.

All that is not set here is as Artemis has it, the journal's kind and its waiting times in particular. In the
folder: `etc/broker.xml`, `data/`, `artemis.log`. The jars come by the conf ``artemis``; the first start
fetches them.
"""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from isthmus.embedded import jars
from isthmus.embedded.claim import answers
from isthmus.embedded.guarded import Guarded
from isthmus.embedded.java import java_command
from isthmus.embedded.ports import HOST, free_port
from isthmus.errors import HardFailure

_MAIN = "org.apache.activemq.artemis.core.server.embedded.Main"
_JAVA = ("-Xms512m", "-Xmx2g", "-XX:+UseParallelGC")  # as in the profile that Artemis makes for an instance
_START_TIMEOUT_S = 180.0  # it takes 2 s on an idle machine
_POLL_S = 0.02

_BROKER_XML = """\
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <persistence-enabled>true</persistence-enabled>
    <security-enabled>false</security-enabled>
    <max-disk-usage>-1</max-disk-usage>
    <acceptors>
      <acceptor name="amqp">tcp://{host}:{port}?protocols=AMQP</acceptor>
{acceptors}
    </acceptors>
    <address-settings>
      <address-setting match="#">
        <default-address-routing-type>ANYCAST</default-address-routing-type>
        <default-queue-routing-type>ANYCAST</default-queue-routing-type>
        <auto-delete-queues>false</auto-delete-queues>
        <auto-delete-addresses>false</auto-delete-addresses>
{addresses}
      </address-setting>
    </address-settings>
{more}
  </core>
</configuration>
"""


class Artemis:
    """One broker in one folder.

    ``acceptors``, ``addresses`` and ``more`` are more of Artemis' own configuration: elements of
    ``acceptors``, of the ``address-setting`` for all addresses, and of ``core``.
    """

    def __init__(self, folder: Path, *, acceptors: str = "", addresses: str = "", more: str = "") -> None:
        self._folder = folder.absolute()
        self._acceptors = acceptors
        self._addresses = addresses
        self._more = more
        self._port: int | None = None
        self._server: Guarded | None = None

    @property
    def port(self) -> int:
        """Where clients connect. Known once it has been started, and the same after `stop`."""
        if self._port is None:
            raise RuntimeError("Artemis has not been started")
        return self._port

    @property
    def url(self) -> str:
        """Where clients connect, as Qpid JMS takes it."""
        return f"amqp://{HOST}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether the broker's process is there."""
        return self._server is not None and self._server.exit_code is None

    @property
    def version(self) -> str:
        """The version of the jars."""
        [server] = (jar for jar in jars.files("artemis") if jar.name.startswith("artemis-server-"))
        return server.stem.removeprefix("artemis-server-")

    def start(self) -> None:
        """Start the broker and wait until it answers. `HardFailure` if it does not."""
        java = [str(java_command()), *_JAVA, *shlex.split(os.environ.get("JAVA_ARGS", ""))]
        command = [*java, "-cp", jars.classpath("artemis"), _MAIN, str(self._folder)]
        self.stop()
        # Another one would confuse clients that reconnect, so it had better be free still.
        self._port = self._port or free_port()
        settings = self._folder / "etc" / "broker.xml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(
            _BROKER_XML.format(
                host=HOST,
                port=self._port,
                acceptors=self._acceptors,
                addresses=self._addresses,
                more=self._more,
            )
        )
        log = self._folder / "artemis.log"
        self._server = Guarded(command, folder=self._folder, output=log)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not answers(f"{HOST}:{self._port}"):
            if not self.alive or time.monotonic() > deadline:
                self.stop()
                said = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
                raise HardFailure(f"Artemis does not answer.\n{said}", remedy=f"See {log}.")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop the broker in good order. May be called again, and before `start`."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

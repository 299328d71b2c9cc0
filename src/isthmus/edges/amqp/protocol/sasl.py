"""SASL, as server and as client (part 5, 5.3): which mechanism, and who it is that connects. No sockets.

Each side is a machine that takes one SASL frame and returns those to send. It ends with an `Identity`, or
without one when the peer is not who it says it is. Passwords are compared in constant time, and an unknown
user takes as long, and looks on the wire the same, as one with a wrong password. A password that a client
shows is hashed by whoever drives the engine, since that takes long: see `PasswordCheck`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from scramp import ScramClient, ScramException, ScramMechanism  # type: ignore[import-untyped]
from scramp.core import ScramServer  # type: ignore[import-untyped]

from isthmus.edges.amqp.protocol.composite import Composite
from isthmus.edges.amqp.protocol.conditions import NOT_ALLOWED, ConnectionFault
from isthmus.edges.amqp.protocol.performatives import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)

ANONYMOUS: Final = "ANONYMOUS"
PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"

OK: Final = 0
AUTH_FAILED: Final = 1

SCRAM_HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
ITERATIONS: Final = 15_000
"""How often a password is hashed: some milliseconds, four times what SCRAM asks for at the least."""
SALT_BYTES: Final = 32
MAX_CREDENTIAL_BYTES: Final = 1024
"""How long a user's name with its password may be. What is longer is wrong."""


class Identity(NamedTuple):
    """Who a peer is, and how it proved that."""

    user: str
    mechanism: str


class ScramSecret(NamedTuple):
    """What a server keeps of a password: not enough to log in elsewhere."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of(cls, password: str, mechanism: str, *, iterations: int = ITERATIONS) -> ScramSecret:
        """The secret of a password, with a salt of its own."""
        salt, stored_key, server_key, count = ScramMechanism(mechanism).make_auth_info(
            password, iteration_count=iterations, salt=os.urandom(SALT_BYTES)
        )
        return cls(salt, stored_key, server_key, count)

    def fits(self, password: str, mechanism: str) -> bool:
        """Whether this is the secret of that password."""
        try:
            made = ScramMechanism(mechanism).make_auth_info(password, self.iterations, self.salt)
        except ScramException:  # text that no password may have
            return False
        return hmac.compare_digest(made[1], self.stored_key)


class Directory(Protocol):
    """Who may connect."""

    def secret(self, user: str, mechanism: str) -> ScramSecret | None:
        """What is kept of a user's password for a SCRAM mechanism; None if there is no such user."""
        ...

    @property
    def decoy_key(self) -> bytes:
        """What the secrets of users are made from that do not exist.

        Nobody outside can know it, and it lasts as long as the secrets of those who do: a salt that changes
        with every start, or from process to process, would tell that there is no such user.
        """
        ...


class PasswordCheck(NamedTuple):
    """A password that a client showed."""

    secret: ScramSecret
    password: str

    def fits(self) -> bool:
        """Whether the secret was made from it. To tell takes milliseconds, which are not the event loop's."""
        return self.secret.fits(self.password, SCRAM_SHA_256)


def _decoy(user: str, mechanism: str, key: bytes) -> ScramSecret:
    """A secret that nobody has the password of: the same for a user however often it is asked for."""

    def noise(purpose: str) -> bytes:
        return hmac.digest(key, f"{purpose}\0{mechanism}\0{user}".encode(errors="replace"), "sha512")

    size = hashlib.new(SCRAM_HASHES[mechanism]).digest_size
    salt = noise("salt")[:SALT_BYTES]
    return ScramSecret(salt, noise("stored")[:size], noise("server")[:size], ITERATIONS)


class SaslServer:
    """The server's half. ``external`` is the name that a client's certificate gives it, if it showed one."""

    def __init__(
        self, mechanisms: Sequence[str], directory: Directory | None = None, external: str | None = None
    ) -> None:
        self.mechanisms = tuple(mechanisms)
        self.identity: Identity | None = None
        self.done = False
        self.check: PasswordCheck | None = None
        """A password that has to be checked before anything else: `checked` is to be told the result."""
        self._directory = directory
        self._external = external
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._user: str | None = None
        """Who the client says that it is; None for one whom nobody knows."""
        self._proven = False

    def start(self) -> list[Composite]:
        """What the server says first."""
        return [SaslMechanisms(self.mechanisms)]

    def receive(self, frame: Composite) -> list[Composite]:
        """Take a frame and return the answers. Raises `ConnectionFault` for one that is out of turn."""
        if isinstance(frame, SaslInit) and not self._mechanism:
            self._mechanism = str(frame.mechanism)
            if self._mechanism not in self.mechanisms:
                return self._outcome(None)
            response = frame.initial_response
            if response is None and self._mechanism != ANONYMOUS:
                return [SaslChallenge(b"")]
            return self._respond(response or b"")
        if isinstance(frame, SaslResponse) and self._mechanism and not self.done:
            return self._respond(frame.response)
        raise ConnectionFault(NOT_ALLOWED, f"{frame.SYMBOL} is out of turn")

    def checked(self, fits: bool) -> list[Composite]:
        """Take the result of `check`, and return the answers."""
        self.check = None
        return self._outcome(self._user if fits else None)

    def _respond(self, response: bytes) -> list[Composite]:
        try:
            if self._mechanism == ANONYMOUS:
                return self._outcome("anonymous")
            if self._mechanism == EXTERNAL:
                wanted = response.decode()
                return self._outcome(self._external if wanted in ("", self._external) else None)
            if self._mechanism == PLAIN:
                return self._ask_for_check(response)
            return self._answer_scram(response.decode())
        except UnicodeDecodeError:
            return self._outcome(None)

    def _ask_for_check(self, response: bytes) -> list[Composite]:
        authorize, _, rest = response.decode().partition("\0")
        user, separator, password = rest.partition("\0")
        if not separator or authorize not in ("", user) or len(response) > MAX_CREDENTIAL_BYTES:
            return self._outcome(None)
        self.check = PasswordCheck(self._secret(user, SCRAM_SHA_256), password)
        return []

    def _answer_scram(self, text: str) -> list[Composite]:
        try:
            if self._scram is None:
                self._scram = ScramMechanism(self._mechanism).make_server(self._scram_secret)
                self._scram.set_client_first(text)
                return [SaslChallenge(self._scram.get_server_first().encode())]
            if not self._proven:
                self._scram.set_client_final(text)
                self._proven = True
                return [SaslChallenge(self._scram.get_server_final().encode())]
            return self._outcome(self._user)  # the client's empty answer to our own proof
        except (ScramException, ValueError, LookupError):
            return self._outcome(None)

    def _scram_secret(self, user: str) -> ScramSecret:
        return self._secret(user, self._mechanism)

    def _secret(self, user: str, mechanism: str) -> ScramSecret:
        directory = self._directory
        known = None if directory is None else directory.secret(user, mechanism)
        self._user = None if known is None else user
        return known or _decoy(user, mechanism, b"" if directory is None else directory.decoy_key)

    def _outcome(self, user: str | None) -> list[Composite]:
        self.done = True
        if user is None:
            return [SaslOutcome(AUTH_FAILED)]
        self.identity = Identity(user, self._mechanism)
        return [SaslOutcome(OK)]


class SaslClient:
    """The client's half. It takes the strongest mechanism that both sides have."""

    def __init__(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        mechanisms: Sequence[str] | None = None,
        hostname: str | None = None,
        external: bool = False,
    ) -> None:
        with_password = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN) if user is not None else ()
        preferred = (*((EXTERNAL,) if external else ()), *(with_password or (ANONYMOUS,)))
        self.mechanisms = tuple(mechanisms) if mechanisms is not None else preferred
        self.identity: Identity | None = None
        self.done = False
        self._user = user or ""
        self._password = password or ""
        self._hostname = hostname
        self._mechanism = ""
        self._scram: ScramClient | None = None
        self._step = 0

    def start(self) -> list[Composite]:
        """The client waits for the server's mechanisms."""
        return []

    def receive(self, frame: Composite) -> list[Composite]:
        """Take a frame and return the answers. Raises `ConnectionFault` for one that is out of turn."""
        if isinstance(frame, SaslMechanisms) and not self._mechanism:
            return [self._init(frame.mechanisms)]
        if isinstance(frame, SaslChallenge) and self._scram is not None:
            return [SaslResponse(self._answer(frame.challenge))]
        if isinstance(frame, SaslOutcome) and self._mechanism and not self.done:
            self.done = True
            if frame.code == OK:
                self._finish(frame.additional_data)
                self.identity = Identity(self._user or "anonymous", self._mechanism)
            return []
        raise ConnectionFault(NOT_ALLOWED, f"{frame.SYMBOL} is out of turn")

    def _init(self, offered: tuple[str, ...]) -> SaslInit:
        chosen = next((each for each in self.mechanisms if each in offered), None)
        if chosen is None:
            raise ConnectionFault(NOT_ALLOWED, f"the server offers none of {', '.join(self.mechanisms)}")
        self._mechanism = chosen
        response = b""
        if chosen == PLAIN:
            response = f"\0{self._user}\0{self._password}".encode()
        elif chosen in SCRAM_HASHES:
            try:
                self._scram = ScramClient([chosen], self._user, self._password)
            except ScramException as error:
                raise ConnectionFault(NOT_ALLOWED, f"no user or password of SCRAM: {error}") from None
            response = self._scram.get_client_first().encode()
        elif chosen == ANONYMOUS:
            response = b"anonymous"
        return SaslInit(chosen, response, self._hostname)

    def _answer(self, challenge: bytes) -> bytes:
        assert self._scram is not None
        self._step += 1
        try:
            if self._step == 1:
                self._scram.set_server_first(challenge.decode())
                final: str = self._scram.get_client_final()
                return final.encode()
            if self._step == 2:
                self._scram.set_server_final(challenge.decode())
                return b""
        except (ScramException, ValueError, LookupError) as error:
            raise ConnectionFault(NOT_ALLOWED, f"the server does not know the password: {error}") from None
        raise ConnectionFault(NOT_ALLOWED, "the server asks more than SCRAM does")

    def _finish(self, proof: bytes | None) -> None:
        """With SCRAM the server has to prove itself too; it may do so with the outcome."""
        if self._scram is not None and self._step < 2:
            if self._step != 1 or proof is None:
                raise ConnectionFault(NOT_ALLOWED, "the server did not prove that it knows the password")
            self._answer(proof)

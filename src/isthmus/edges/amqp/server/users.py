"""Who may connect, and what each may do: a file with one user per line, as JSON::

    {"user": "alice", "send": ["orders.*"], "receive": ["*"],
     "SCRAM-SHA-256": {"salt": …, "stored-key": …, "server-key": …, "iterations": 15000}, "SCRAM-SHA-512": …}

Passwords are not in it, only salted hashes that are of no use anywhere else. A pattern is an address with
``*`` for any text, but that of a reserved topic, which must be named. A user without a password can only come
with a certificate of that name.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from scramp import ScramException  # type: ignore[import-untyped]

from isthmus.edges.amqp.protocol.sasl import SCRAM_HASHES, ScramSecret
from isthmus.errors import ConfigError
from isthmus.private import write_private
from isthmus.routing.reserved import ReservedTopics
from isthmus.routing.route import topic_of_address

ANYTHING: Final = ("*",)


@dataclass(frozen=True, slots=True)
class User:
    """One user."""

    name: str
    send: tuple[str, ...] = ANYTHING
    receive: tuple[str, ...] = ANYTHING
    secrets: Mapping[str, ScramSecret] = field(default_factory=dict, repr=False)

    def may_send(self, address: str, reserved: ReservedTopics) -> bool:
        """Whether the user may send to an address."""
        return _includes(self.send, address, reserved)

    def may_receive(self, address: str, reserved: ReservedTopics) -> bool:
        """Whether the user may receive from an address."""
        return _includes(self.receive, address, reserved)


class Users:
    """The users of a file; without a file, none. As `Directory`, what SASL asks."""

    def __init__(self, users: Mapping[str, User] | None = None) -> None:
        self._users = dict(users or {})

    @classmethod
    def read(cls, path: Path) -> Users:
        """The users in a file. Raises `ConfigError` for one that cannot be read."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ConfigError(f"the users file {path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"the users file {path} is not UTF-8 text") from None
        users = {}
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    user = _user(json.loads(line))
                except (ValueError, KeyError, TypeError):
                    raise ConfigError(f"the users file {path}: line {number} is not a user") from None
                users[user.name] = user
        return cls(users)

    def secret(self, user: str, mechanism: str) -> ScramSecret | None:
        """What is kept of a user's password."""
        known = self._users.get(user)
        return None if known is None else known.secrets.get(mechanism)

    @cached_property
    def decoy_key(self) -> bytes:
        """What the secrets of users are made from that are not in the file. It seldom changes with it."""
        keys = (secret.server_key for user in self._users.values() for secret in user.secrets.values())
        return hashlib.sha256(min(keys, default=b"")).digest()

    def find(self, name: str) -> User | None:
        """The user of a name."""
        return self._users.get(name)

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())


def set_user(
    path: Path,
    name: str,
    password: str | None,
    *,
    send: Sequence[str] = ANYTHING,
    receive: Sequence[str] = ANYTHING,
) -> None:
    """Add a user to a file, or replace one. Raises `ConfigError` for a name or password that cannot be."""
    try:
        secrets = {} if password is None else {each: ScramSecret.of(password, each) for each in SCRAM_HASHES}
    except ScramException as error:
        raise ConfigError(f"this cannot be a password: {error}") from None
    if not name or any(ord(character) < 32 for character in name):
        raise ConfigError(f"{name!r:.100} cannot be the name of a user")
    others = [] if not path.exists() else [user for user in Users.read(path) if user.name != name]
    _write(path, [*others, User(name, tuple(send), tuple(receive), secrets)])


def remove_user(path: Path, name: str) -> None:
    """Take a user out of a file. Raises `ConfigError` if there is none of that name."""
    users = Users.read(path)
    if users.find(name) is None:
        raise ConfigError(f"the users file {path} has no user {name!r:.100}")
    _write(path, [user for user in users if user.name != name])


def _write(path: Path, users: Sequence[User]) -> None:
    try:
        write_private(path, "".join(f"{json.dumps(_document(user))}\n" for user in users))
    except OSError as error:
        raise ConfigError(f"the users file {path} cannot be written: {error.strerror}") from None


def _includes(patterns: Sequence[str], address: str, reserved: ReservedTopics) -> bool:
    if address in reserved:
        return topic_of_address(address) in patterns
    return any(fnmatchcase(address, pattern) for pattern in patterns)


def _document(user: User) -> dict[str, Any]:
    secrets = {
        mechanism: {
            "salt": base64.b64encode(secret.salt).decode(),
            "stored-key": base64.b64encode(secret.stored_key).decode(),
            "server-key": base64.b64encode(secret.server_key).decode(),
            "iterations": secret.iterations,
        }
        for mechanism, secret in user.secrets.items()
    }
    return {"user": user.name, "send": list(user.send), "receive": list(user.receive), **secrets}


def _user(document: dict[str, Any]) -> User:
    secrets = {
        mechanism: ScramSecret(
            base64.b64decode(document[mechanism]["salt"], validate=True),
            base64.b64decode(document[mechanism]["stored-key"], validate=True),
            base64.b64decode(document[mechanism]["server-key"], validate=True),
            int(document[mechanism]["iterations"]),
        )
        for mechanism in SCRAM_HASHES
        if mechanism in document
    }
    name = document["user"]
    if not isinstance(name, str) or not name:
        raise ValueError("a user has a name")
    return User(name, _patterns(document["send"]), _patterns(document["receive"]), secrets)


def _patterns(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise ValueError("patterns are a list of texts")

"""What a nats-server in operator mode needs: keys, JWTs and a credentials file, as nsc makes them.

A JWT of NATS is ``header.claims.signature`` in Base64 without padding; the signature is the issuer's ed25519
key's. The operator signs itself and the account, the account signs the user.
"""

from __future__ import annotations

import base64
import json
import os
import time
from typing import Any

import nkeys

UNLIMITED = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)


class Key:
    """A new key pair of an operator, an account or a user."""

    def __init__(self, prefix: int) -> None:
        self.seed = nkeys.encode_seed(os.urandom(32), prefix)
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public: str = self._pair.public_key.decode()

    def jwt(self, subject: Key, name: str, nats: dict[str, Any]) -> str:
        """What this key certifies of another."""
        claims = {
            "jti": os.urandom(8).hex(),
            "iat": int(time.time()),
            "iss": self.public,
            "sub": subject.public,
            "name": name,
            "nats": {**nats, "version": 2},
        }
        signed = f"{_base64({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_base64(claims)}"
        return f"{signed}.{_unpadded(self._pair.sign(signed.encode()))}"


class Operator:
    """An operator with an account: the server's ``config``, and credentials for users of the account."""

    def __init__(self) -> None:
        operator = Key(nkeys.PREFIX_BYTE_OPERATOR)
        own = operator.jwt(operator, "operator", {"type": "operator"})
        system, self._account = Key(nkeys.PREFIX_BYTE_ACCOUNT), Key(nkeys.PREFIX_BYTE_ACCOUNT)
        accounts = "".join(
            f"  {each.public}: {operator.jwt(each, name, {'type': 'account', 'limits': UNLIMITED})}\n"
            for each, name in ((system, "system"), (self._account, "bridges"))
        )
        self.config = (
            f"operator: {own}\nsystem_account: {system.public}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{accounts}}}\n"
        )

    def credentials(self, name: str) -> str:
        """The content of a credentials file for a new user."""
        user = Key(nkeys.PREFIX_BYTE_USER)
        limits = {"subs": -1, "data": -1, "payload": -1}
        jwt = self._account.jwt(user, name, {"type": "user", "pub": {}, "sub": {}, **limits})
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
        )


def _base64(document: dict[str, Any]) -> str:
    return _unpadded(json.dumps(document, separators=(",", ":")).encode())


def _unpadded(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")

"""Who may ask the monitor, and for what.

With a token, everything asks for that: as a bearer token, or as the password that a browser asks people for.
Without one the monitor answers to its own names alone, so that no page of the web can read it by way of a
browser on this machine, and it shows figures only: other users of the machine reach it too, and must neither
read messages nor act.

A browser sends its password along with whatever a page of the web makes it send. So whatever is posted needs
the key of this process too, which only a page of this origin can have read.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEY_HEADER: Final = "X-Isthmus-Key"
_OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SECURITY_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Access:
    """Who is let in, and what for."""

    def __init__(self, host: str, token: str | None) -> None:
        """``host`` is the name that the monitor listens under."""
        self._names = _OWN_NAMES | {host.lower()}
        self._token = token
        self.key: Final = secrets.token_urlsafe(24)
        """What whoever posts has to show in `KEY_HEADER`."""

    @property
    def to_messages(self) -> bool:
        """Whether whoever is let in may see messages, and act."""
        return self._token is not None

    def refusal(self, scope: Scope) -> PlainTextResponse | None:
        """The answer to a request that is not to be; None for any other."""
        headers = Headers(scope=scope)
        if self._token is not None:
            if not _shows(headers, self._token):
                return PlainTextResponse(
                    "the token is missing or wrong\n",
                    HTTPStatus.UNAUTHORIZED,
                    {"WWW-Authenticate": 'Basic realm="isthmus"'},
                )
        elif _host(headers) not in self._names:
            return PlainTextResponse("that is not the name of this server\n", HTTPStatus.MISDIRECTED_REQUEST)
        if scope["method"] not in ("GET", "HEAD") and not self._is_of_this_page(headers):
            return PlainTextResponse("only the monitor's own page may post\n", HTTPStatus.FORBIDDEN)
        return None

    def _is_of_this_page(self, headers: Headers) -> bool:
        if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            return False
        origin = headers.get("Origin")
        if origin is not None and not _is_at(origin, headers.get("Host")):
            return False
        return hmac.compare_digest(headers.get(KEY_HEADER, "").encode(), self.key.encode())


class Guard:
    """Stands before an application: refuses who may not ask, and adds the security headers to all answers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the application do so."""

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_SECURITY_HEADERS)
            await send(message)

        answer = self._access.refusal(scope) or self._app
        await answer(scope, receive, send_secured)


def _host(headers: Headers) -> str | None:
    """The name that the client knows this server by, without the port."""
    given = headers.getlist("Host")
    if len(given) != 1:
        return None
    name, colon, port = given[0].rpartition(":")
    return (name if colon and port.isdecimal() else given[0]).lower()


def _is_at(origin: str, host: str | None) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:  # it is no URL: ``http://[``
        return False


def _shows(headers: Headers, token: str) -> bool:
    kind, _, given = headers.get("Authorization", "").partition(" ")
    shown = given.strip().encode(errors="replace")
    if kind.lower() == "basic":
        try:
            shown = base64.b64decode(shown, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(shown, token.encode())

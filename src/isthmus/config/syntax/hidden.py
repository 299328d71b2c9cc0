"""Text that is used but never shown.

A configuration value is secret when it came out of a ``${env:…}`` or ``${file:…}`` reference, when its key
says so (``password``, ``token``, …) or when it is a URL with a password in it. Such a value is a `Hidden`: a
string like any other for those who connect with it, whose repr is what may be shown instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Self

MASK = "********"
"""Of one length, whatever it covers."""

_SECRET_KEY = re.compile(
    r"passw|pwd|passphrase|secret|token|credential|jaas|user\.info|ssl\.key|keystore\.key"
    r"|(api|access|account|private|shared|encryption|encoded)[._-]?key",
    re.IGNORECASE,
)
_PUBLIC_KEY = re.compile(r"\.(location|type)$", re.IGNORECASE)  # ssl.keystore.location is a path
_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


class Hidden(str):
    """A secret. ``shown`` stands for it wherever people look: a reference as it was written, or a mask."""

    __slots__ = ("shown",)
    shown: str

    def __new__(cls, text: str, shown: str = MASK) -> Self:
        """The text, and what is shown in its place."""
        hidden = super().__new__(cls, text)
        hidden.shown = shown
        return hidden

    def __repr__(self) -> str:
        return repr(self.shown)

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str has one of one
        return str.__str__(self), self.shown


def shown(text: str) -> str:
    """What people may see of a value."""
    return text.shown if isinstance(text, Hidden) else text


def alike(original: str, text: str) -> str:
    """``text``, which was made of ``original``: as secret as that."""
    return Hidden(text, original.shown) if isinstance(original, Hidden) else text


def looks_secret(key: str, value: str) -> bool:
    """Whether a value is to be masked although it stands in the file in plain text."""
    if _URL_WITH_PASSWORD.search(value):
        return True
    # A route may be called anything, token-route too, and has no secrets of its own.
    public = key.startswith("routes.") or _PUBLIC_KEY.search(key)
    return bool(value and not public and _SECRET_KEY.search(key))


def hide(key: str, value: str) -> str:
    """The value, hidden if it looks secret."""
    return Hidden(value) if not isinstance(value, Hidden) and looks_secret(key, value) else value


def scrub(text: str, values: Iterable[str]) -> str:
    """A text of somebody else's, such as a client library's error, without the secrets among the values."""
    for value in values:
        # Anything shorter would tear words apart, and gives nothing away by standing in one.
        if isinstance(value, Hidden) and len(value) >= 4:
            text = text.replace(value, value.shown)
    return text


class Options(Mapping[str, str]):
    """The options of somebody else's software, by name: immutable, in the order of the file."""

    __slots__ = ("_options",)

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._options = dict(options or {})

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __repr__(self) -> str:
        return repr(self._options)

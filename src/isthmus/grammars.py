"""Parsers made from grammars, kept in the user's cache: to make one takes a third of a command's time."""

from __future__ import annotations

import os
from typing import Any

from lark import Lark

from isthmus.errors import HardFailure
from isthmus.private import cache_folder, private_folder


def parser(name: str, grammar: str, **options: Any) -> Lark:
    """An LALR parser. What is kept under its name is used if it was made from the same grammar."""
    return Lark(grammar, parser="lalr", cache=_file(name) or False, **options)


def _file(name: str) -> str | None:
    """None where it would not be this user's alone: whoever writes there runs code here."""
    try:
        folder = cache_folder() / "grammars"
        private_folder(folder)
        own = folder.stat().st_uid == os.geteuid()  # and not that of a user who became root
    except (HardFailure, OSError, RuntimeError):  # it cannot be written, or there is no home
        return None
    return str(folder / name) if own else None

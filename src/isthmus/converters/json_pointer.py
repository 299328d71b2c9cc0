"""Places in a JSON document: as pointers (RFC 6901), and the types that a document gives to its places.

A document's ``types`` map a pointer to the name of an AMQP type: ``{"/body/section/0": "long"}``. They are
read into a tree that is walked along with the document, so that the work stays linear however long a path is.
"""

from __future__ import annotations

import re
from typing import Final

from isthmus.errors import DecodeError

Place = tuple["Place", str | int] | None
"""The way to a value, the last step first: a member's name or an item's number; None is the document."""

_BAD_ESCAPE: Final = re.compile("~(?![01])")


def pointer(place: Place) -> str:
    """The pointer to a place."""
    steps = []
    while place is not None:
        place, step = place
        steps.append(str(step).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{step}" for step in reversed(steps))


def malformed(place: Place, problem: str) -> DecodeError:
    """The error for a document that is not one at that place."""
    where = pointer(place)
    if len(where) > 200:
        where = f"{where[:100]}…{where[-100:]}"
    return DecodeError(f"{where or 'the document'}: {problem}")


class TypeTree:
    """The type that a document gives to a place, and to the places inside it."""

    __slots__ = ("children", "name")

    def __init__(self) -> None:
        self.name: str | None = None
        self.children: dict[str, TypeTree] = {}

    def at(self, step: str | int) -> TypeTree:
        """The types of what lies one step further in."""
        return self.children.get(str(step), _NO_TYPES) if self.children else _NO_TYPES


_NO_TYPES: Final = TypeTree()


def type_tree(types: object) -> TypeTree:
    """The tree of a document's ``types``. Types of places that are not there do no harm."""
    place: Place = (None, "types")
    if types is None:
        return _NO_TYPES
    if not isinstance(types, dict):
        raise malformed(place, "must be an object")
    root = TypeTree()
    for path, name in types.items():
        if not isinstance(name, str):
            raise malformed((place, path), "must be the name of a type")
        first, *steps = path.split("/")
        if first or not steps or _BAD_ESCAPE.search(path):
            raise malformed((place, path), "is not a JSON pointer to a value")
        tree = root
        for step in steps:
            name_of_step = step.replace("~1", "/").replace("~0", "~")
            tree = tree.children.setdefault(name_of_step, TypeTree())
        tree.name = name
    return root

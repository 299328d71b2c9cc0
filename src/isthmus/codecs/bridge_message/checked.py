"""Struct types that hold only what can be written.

msgspec checks a struct's fields when it decodes one, and not when Python code makes or changes one. So that
every instance is fit for the wire, and encoding needs no check of its own, a type with this metaclass sends
the fields that its caller names through its ``__setattr__``, which checks them. Decoding does not come by
here.
"""

from __future__ import annotations

from typing import Any

import msgspec


class CheckedStruct(msgspec.StructMeta):
    """The metaclass of structs that check their fields in ``__setattr__``, also those given in a call."""

    def __call__(self, *args: Any, **fields: Any) -> Any:
        """A new instance, with the given fields checked."""
        instance = super().__call__(*args, **fields)
        for name in (*self.__struct_fields__[: len(args)], *fields):
            setattr(instance, name, getattr(instance, name))
        return instance

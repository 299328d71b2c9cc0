"""Struct types that hold only what can be written.

msgspec checks a struct's fields when it decodes one, and not when Python code makes or changes one. A
subclass of `CheckedStruct` says with `fit` what a field takes, and every value that a caller gives goes
through it. So every instance is fit for the wire, and encoding needs no check of its own. Decoding does not
come by here.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _ChecksCalls(msgspec.StructMeta):
    def __call__(self, *args: Any, **fields: Any) -> Any:
        instance = super().__call__(*args, **fields)
        for name in (*self.__struct_fields__[: len(args)], *fields):
            setattr(instance, name, getattr(instance, name))
        return instance


class CheckedStruct(msgspec.Struct, metaclass=_ChecksCalls):
    """A struct whose fields take only what `fit` lets through, in a call and when they are set."""

    @staticmethod
    def fit(name: str, value: Any) -> Any:
        """The value as the field of that name holds it. Raises `EncodeError` if it cannot be written."""
        raise NotImplementedError

    def __setattr__(self, name: str, value: Any) -> None:
        msgspec.Struct.__setattr__(self, name, self.fit(name, value))

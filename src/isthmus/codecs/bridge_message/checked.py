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
        fit = self.fit  # type: ignore[attr-defined]  # only types that have it are made by this
        values = [fit(name, value) for name, value in zip(self.__struct_fields__, args, strict=False)]
        named = {name: fit(name, value) for name, value in fields.items()}
        return super().__call__(*values, *args[len(values) :], **named)


class CheckedStruct(msgspec.Struct, metaclass=_ChecksCalls):
    """A struct whose fields take only what `fit` lets through, in a call and when they are set."""

    @staticmethod
    def fit(name: str, value: Any) -> Any:
        """The value as the field of that name holds it. Raises `EncodeError` if it cannot be written."""
        raise NotImplementedError

    def __setattr__(self, name: str, value: Any) -> None:
        msgspec.Struct.__setattr__(self, name, self.fit(name, value))

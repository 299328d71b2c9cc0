"""What is wrong with a configuration, where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rich.cells import cell_len


class Severity(StrEnum):
    """Only an error keeps a bridge from starting."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. It holds no secret and no control character, so it can be printed anywhere."""

    severity: Severity
    message: str
    file: str | None = None
    """The configuration file, or ``$NAME`` for an environment variable."""
    line: int | None = None
    key: str | None = None
    hint: str | None = None
    text: str | None = None
    """The text in which the problem has a place: a predicate."""
    column: int | None = None
    """That place, counted from 0."""

    def __post_init__(self) -> None:
        for name in ("message", "file", "key", "hint"):
            value = getattr(self, name)
            object.__setattr__(self, name, value and printable(value))
        if self.text is not None:
            # One character for one, so that the column stays true.
            plain = "".join(each if each.isprintable() else " " for each in self.text)
            object.__setattr__(self, "text", plain)

    @property
    def place(self) -> str:
        """Where it is, in the form that editors and terminals make clickable."""
        return ":".join(str(each) for each in (self.file, self.line) if each is not None)

    @property
    def caret_lines(self) -> tuple[str, ...]:
        """The text and a caret under the place, if it has one."""
        if self.text is None or self.column is None:
            return ()
        return (self.text, " " * cell_len(self.text[: self.column]) + "^")

    @property
    def described(self) -> str:
        """The whole of it but for how severe it is, for whoever says that already."""
        return self._described("")

    def __str__(self) -> str:
        return self._described(f"{self.severity}: ")

    def _described(self, severity: str) -> str:
        where = f"{self.place}: " if self.place else ""
        what = f"{self.key}: {self.message}" if self.key else self.message
        lines = [f"{where}{severity}{what}", *(f"    {line}" for line in self.caret_lines)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def printable(text: str) -> str:
    """The text with everything that a terminal would act on, or could not encode, spelled out."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)

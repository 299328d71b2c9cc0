"""What settings are made of: sections of typed, checked and immutable fields.

Each field that a user can set says so in place: its key, its default and its meaning. Fields can be given by
name, as typed values, or by key, as text. No repr, dump or error shows a `Hidden` value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_serializer,
    model_validator,
)

from isthmus.config.syntax.hidden import Hidden, Options
from isthmus.routing.route import Route


def setting(
    key: str, default: Any, meaning: str, *, default_text: str | None = None, validate_default: bool = False
) -> Any:
    """A field that users set: its key within the section, its default and what it means."""
    return Field(
        default,
        validation_alias=key,
        description=meaning,
        validate_default=validate_default,
        json_schema_extra={"default_text": default_text},
    )


class Section(BaseModel):
    """Settings that belong together. Equal to others with the same values, however they were written."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )
    _shown: dict[str, str] = PrivateAttr(default_factory=dict)
    """What stands for the fields that were given as `Hidden`: a number, say, cannot hide itself."""

    @model_validator(mode="wrap")
    @classmethod
    def _remember_what_is_hidden(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        section = handler(data)
        if isinstance(data, Mapping):
            for name, field in cls.model_fields.items():
                given = data.get(field.validation_alias, data.get(name))
                if isinstance(given, Hidden):
                    section._shown[name] = given.shown
        return section

    @model_serializer(mode="plain")
    def _serialize_what_is_shown(self) -> dict[str, Any]:
        return {name: visible(value) for name, value in self.__repr_args__() if name}

    def shown_field(self, name: str) -> Any:
        """The value of a field, or what stands for it if it is secret."""
        return self._shown.get(name, getattr(self, name))

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [(name, self.shown_field(name)) for name in type(self).model_fields]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))


Each = TypeVar("Each", bound=Section)


class Group(Mapping[str, Each], Generic[Each]):
    """Sections of one kind by the names that users give them: immutable, in the order of the file."""

    __slots__ = ("_sections",)

    def __init__(self, sections: Mapping[str, Each] | None = None) -> None:
        self._sections = dict(sections or {})

    def __getitem__(self, name: str) -> Each:
        return self._sections[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)

    def __hash__(self) -> int:
        return hash(tuple(self._sections.items()))

    def __repr__(self) -> str:
        return repr(self._sections)


def visible(value: Any) -> Any:
    """A value as it may leave the process: without secrets, and without types of our own."""
    match value:
        case Hidden():
            return value.shown
        case Options():
            return {name: visible(option) for name, option in value.items()}
        case Group():
            return dict(value)
        case tuple():
            return [visible(each) for each in value]
        case Route():
            fields = {
                name: visible(getattr(value, name))
                for name in (
                    "name",
                    "topic",
                    "destination",
                    "key",
                    "key_pattern",
                    "convert",
                    "no_body",
                    "on_error",
                )
            }
            return {**fields, "predicate": visible(value.written)}
        case _:
            return value

"""What settings are made of: sections of typed, checked and immutable fields.

Each field that a user can set says so in place: its key, its default and its meaning; its annotation has the
function that reads it. Fields can be given by name, as typed values, or by key, as text. No repr or error
shows a `Hidden` value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, dataclass_transform, get_args, get_origin

from isthmus.config.syntax.hidden import Hidden
from isthmus.errors import Refusal, SettingsError


class Field:
    """A field of a section, as its class declares it."""

    __slots__ = ("_validates_default", "default", "default_text", "is_optional", "key", "meaning", "read")

    def __init__(
        self,
        default: Any,
        key: str | None = None,
        meaning: str = "",
        default_text: str | None = None,
        validates_default: bool = False,
    ) -> None:
        """``...`` as a default means that there is none. A field without a key is no user's to set."""
        self.default = default
        self.key = key
        self.meaning = meaning
        self.default_text = default_text
        self.read: Callable[[Any], Any]
        self.is_optional = False
        self._validates_default = validates_default

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is ...

    @property
    def section(self) -> type[Section] | None:
        """The section that it is, if it is one."""
        return self.read if isinstance(self.read, type) and issubclass(self.read, Section) else None

    def annotate(self, annotation: Any) -> None:
        """Take what reads it from ``Annotated[type, function]``, with ``| None`` or without."""
        if get_origin(annotation) is not Annotated and (parts := get_args(annotation)):
            annotation = next(each for each in parts if each is not type(None))
            self.is_optional = True
        self.read = get_args(annotation)[1] if get_origin(annotation) is Annotated else annotation

    def value_of_default(self) -> Any:
        """What it is where nothing was given."""
        return self.read(self.default) if self._validates_default else self.default

    def value_of(self, given: Any) -> Any:
        """What it is where this was given. Raises `ValueError`, or `SettingsError` if it is a section."""
        if given is None and self.is_optional:
            return None
        if (section := self.section) is not None:
            return given if isinstance(given, section) else section.of(given)
        return self.read(given)


def setting(
    key: str, default: Any, meaning: str, *, default_text: str | None = None, validate_default: bool = False
) -> Any:
    """A field that users set: its key within the section, its default and what it means."""
    return Field(default, key, meaning, default_text, validate_default)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Section:
    """Settings that belong together. Equal to others with the same values, however they were written."""

    fields: ClassVar[dict[str, Field]] = {}
    """Those of its class, by name."""
    given: frozenset[str]
    """The names of the fields that are not left at their defaults."""
    _shown: dict[str, str]
    """What stands for the fields that were given as `Hidden`: a number, say, cannot hide itself."""

    def __init_subclass__(cls) -> None:
        cls.fields = {}
        for name, annotation in inspect.get_annotations(cls, eval_str=True).items():
            declared = cls.__dict__[name]
            cls.fields[name] = declared if isinstance(declared, Field) else Field(declared)
            cls.fields[name].annotate(annotation)
            delattr(cls, name)

    def __init__(self, **given: Any) -> None:
        """Of values by key, or by the names of the fields. Raises `SettingsError` with all that is wrong."""
        self.__dict__.update(self._read(given))
        try:
            self._check_together()
        except ValueError as error:
            raise SettingsError([Refusal((), error)]) from None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The same, where the keys are no names in Python."""
        return cls(**given)

    def replace(self, **values: Any) -> Self:
        """A copy with other values, by the names of the fields, which are taken as they are."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **values, given=self.given | values.keys())
        return copy

    def shown_field(self, name: str) -> Any:
        """The value of a field, or what stands for it if it is secret."""
        return self._shown.get(name, getattr(self, name))

    def _check_together(self) -> None:
        """Raise `ValueError` for values that are right one by one, but not together."""

    @classmethod
    def _read(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        rest = dict(given)
        read: dict[str, Any] = {}
        shown: dict[str, str] = {}
        names = []
        refusals = []
        for name, field in cls.fields.items():
            key = field.key or name
            key_or_name = key if key in rest else name
            try:
                if key_or_name in rest:
                    value = rest.pop(key_or_name)
                    names.append(name)
                    if isinstance(value, Hidden):
                        shown[name] = value.shown
                    read[name] = field.value_of(value)
                elif field.is_required:
                    refusals.append(Refusal((key,), None))
                else:
                    read[name] = field.value_of_default()
            except SettingsError as error:
                refusals += [each._replace(path=(name, *each.path)) for each in error.refusals]
            except ValueError as error:
                refusals.append(Refusal((key,), error))
        refusals += [Refusal((key,), ValueError("unknown")) for key in rest]
        if refusals:
            raise SettingsError(refusals)
        return {**read, "given": frozenset(names), "_shown": shown}

    def _values(self) -> tuple[Any, ...]:
        return tuple(self.__dict__[name] for name in self.fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings are frozen: {name} cannot be set")

    def __repr__(self) -> str:
        fields = (f"{name}={self.shown_field(name)!r}" for name in self.fields)
        return f"{type(self).__name__}({', '.join(fields)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Section) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))


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

"""Settings: frozen dataclasses whose fields carry their meaning, range and option name.

A task, an architecture and a training recipe are each a `Settings`. One declaration serves the Python constructor,
`config.json`, the command line's options and `--help`; all of them reject a value out of range in the same sentence.
Values are plain scalars, so that a configuration can be hashed and compared.

A setting that is added later says `since=`. While it has the value that stands for the behaviour before it existed, it
is left out of every identity, so that earlier runs keep theirs. A default may change; that value may not.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

S = TypeVar("S", bound="Settings")


class BadInput(ValueError):
    """The user asked for something impossible; the message is one sentence that says what to do instead."""


def setting(
    default: Any,
    help: str,
    *,
    flag: str | None = None,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] | None = None,
    since: str | None = None,
    before: Any = dataclasses.MISSING,
) -> Any:
    """A dataclass field that a user can set.

    Args:
        default: its value unless the user gives one; the field's annotation is its type.
        help: one phrase, with unit and source; shown by `--help`.
        flag: the option's name, unless it follows from the field's (a leading `n_` is dropped: `n_hops` is `--hops`).
        low: the least value allowed.
        high: the greatest value allowed.
        choices: the allowed strings, if they are few.
        since: the version that added the setting.
        before: the value that stands for the behaviour before that version, if not the default. It must never change.
    """
    about = {"help": help, "flag": flag, "low": low, "high": high, "choices": choices, "since": since}
    about["before"] = default if before is dataclasses.MISSING else before
    return dataclasses.field(default=default, metadata=about)


def guess(name: object, known: Iterable[str]) -> str:
    """The end of a sentence that suggests the nearest known name; empty where none is near."""
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def flag_of(field: dataclasses.Field[Any]) -> str:
    """A field's command-line option without its dashes: `hops` for `n_hops`, `d-model` for `d_model`."""
    return field.metadata.get("flag") or field.name.removeprefix("n_").replace("_", "-")


def types_of(field_type: Any) -> tuple[type, ...]:
    """The plain types that an annotation such as `int | None` allows."""
    if get_origin(field_type) in (Union, UnionType):
        return get_args(field_type)
    return (field_type,)


#: The resolved annotations of a class, cached.
hints_of: Callable[[type], dict[str, Any]] = functools.cache(get_type_hints)


@functools.cache
def checks_of(kind: type) -> list[tuple[str, str, tuple[type, ...], Mapping[str, Any]]]:
    """Each field's name, option, types and rules; cached, because thousands of configurations are checked."""
    hints = hints_of(kind)
    return [(f.name, flag_of(f), types_of(hints[f.name]), f.metadata) for f in dataclasses.fields(kind)]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of everything configurable: checked when made, comparable, and restored from JSON unchanged."""

    def __post_init__(self) -> None:
        for name, flag, allowed, rules in checks_of(type(self)):  # type: ignore[arg-type]  # every class has a hash
            value = getattr(self, name)
            if float in allowed and type(value) is int:
                object.__setattr__(self, name, float(value))  # 1 and 1.0 are one configuration
            else:
                check_type(flag, value, allowed)
            check_range(flag, getattr(self, name), rules)

    def as_dict(self) -> dict[str, Any]:
        """Every field's value by name, in order of declaration."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def identifying(self) -> dict[str, Any]:
        """The fields that enter an identity: not later ones that still have the value for the earlier behaviour."""
        later = self.added_later()
        return {n: value for n, value in self.as_dict().items() if n not in later or value != later[n]}

    @classmethod
    def added_later(cls) -> dict[str, Any]:
        """The settings with `since=`, each with the value that stands for the behaviour before it existed."""
        fields = dataclasses.fields(cls)
        return {field.name: field.metadata["before"] for field in fields if field.metadata.get("since")}

    @classmethod
    def from_stored(cls: type[S], values: Mapping[str, Any]) -> S:
        """As `from_dict`, for stored values: settings that were added later get the value for the earlier behaviour."""
        return cls.from_dict({**cls.added_later(), **values})

    @classmethod
    def from_dict(cls: type[S], values: Mapping[str, Any]) -> S:
        """The inverse of `as_dict`. Raises BadInput for a name that the class lacks."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                hint = guess(name, known) or f"; it has {', '.join(known) or 'none'}"
                raise BadInput(f"{cls.__name__} has no setting {name!r}{hint}")
        return cls(**values)

    def but(self: S, **changes: Any) -> S:
        """A copy with some fields changed, checked again. Raises BadInput as the constructor does."""
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True)
class Variant(Settings):
    """Settings of a variant that another setting chooses, written `name` or with settings: `rotary(base=100)`.

    Values at their defaults are not written, so a variant may gain settings without changing the identity of any run. A
    default must therefore never change.
    """

    @classmethod
    def name(cls) -> str:
        """The variant's name: that of its file."""
        return cls.__module__.rpartition(".")[2]

    def __str__(self) -> str:
        """The canonical text; `catalogue.chosen` is the inverse."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        given = [f"{name}={value!r}" for name, value in self.as_dict().items() if value != defaults[name]]
        return f"{self.name()}({', '.join(given)})" if given else self.name()


def check_type(name: str, value: Any, allowed: tuple[type, ...]) -> None:
    if type(value) not in allowed:
        wanted = " or ".join("nothing" if kind is NoneType else kind.__name__ for kind in allowed)
        raise BadInput(f"{name} must be {wanted}; got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{name} must be a finite number; got {value}")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise BadInput, with the choices and a guess, unless the value is one of them; `name` begins the sentence."""
    if value not in choices:
        raise BadInput(f"{name} must be one of {', '.join(choices)}; got {value!r}{guess(value, choices)}")


def check_range(name: str, value: Any, rules: Mapping[str, Any]) -> None:
    low, high, choices = rules.get("low"), rules.get("high"), rules.get("choices")
    if value is None:
        return
    if choices is not None:
        check_choice(name, value, choices)
    if low is not None and value < low:
        raise BadInput(f"{name} must be at least {low}; got {value}")
    if high is not None and value > high:
        raise BadInput(f"{name} must be at most {high}; got {value}")

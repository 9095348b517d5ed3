"""Settings: frozen dataclasses whose fields know their meaning, their range and their name on the command line.

A task, an architecture and a training recipe are each a `Settings`. One declaration serves the Python
constructor, `config.json`, the command line's options and `--help`; a value out of range is refused in the
same sentence everywhere. Values are plain scalars, so that a configuration can be hashed and compared.

A setting that is added later says `since=`. At the value that stands for what was done before it existed, it is left
out of every identity, so that what was trained then keeps its name. A default may change; that value may not.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, TypeVar

S = TypeVar("S", bound="Settings")


class BadInput(ValueError):
    """The user asked for something that cannot be; the message is one sentence that says what to do instead."""


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
    """A dataclass field that a user may set.

    Args:
        default: its value when nothing is said; its type is the field's annotation.
        help: one phrase, with unit and source; shown by `--help`.
        flag: the option's name where it is not the field's (`n_hops` is `--hops` by itself: a leading `n_` falls).
        low: the least value allowed.
        high: the greatest value allowed.
        choices: the allowed strings, if they are few.
        since: the version that added the setting.
        before: the value that means what was done before that version, if it is not the default. It must never change.
    """
    about = {"help": help, "flag": flag, "low": low, "high": high, "choices": choices, "since": since}
    about["before"] = default if before is dataclasses.MISSING else before
    return dataclasses.field(default=default, metadata=about)


def guess(name: object, known: Iterable[str]) -> str:
    """The nearest of the names that there are, as the end of a sentence; nothing where none is near."""
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def flag_of(field: dataclasses.Field[Any]) -> str:
    """The command-line option of a field, without its dashes: `n_hops` is `hops`, `d_model` is `d-model`."""
    return field.metadata.get("flag") or field.name.removeprefix("n_").replace("_", "-")


def types_of(field_type: Any) -> tuple[type, ...]:
    """The plain types that an annotation such as `int | None` allows."""
    if typing.get_origin(field_type) in (typing.Union, UnionType):
        return typing.get_args(field_type)
    return (field_type,)


_HINTS: dict[type, dict[str, Any]] = {}


def hints_of(kind: type) -> dict[str, Any]:
    """The annotations of a class, resolved, once: a thousand configurations are a moment's work."""
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind)
    return _HINTS[kind]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of everything configurable: checked when made, comparable, and the same in JSON and back."""

    def __post_init__(self) -> None:
        hints = hints_of(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if float in types_of(hints[field.name]) and type(value) is int:
                object.__setattr__(self, field.name, float(value))  # 1 and 1.0 are one configuration
            else:
                check_type(flag_of(field), value, types_of(hints[field.name]))
            check_range(flag_of(field), getattr(self, field.name), field.metadata)

    def as_dict(self) -> dict[str, Any]:
        """Every field with its value, in order of declaration."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def identifying(self) -> dict[str, Any]:
        """The fields that tell this value from others: all but those added later that say what was done before."""
        later = self.added_later()
        return {n: value for n, value in self.as_dict().items() if n not in later or value != later[n]}

    @classmethod
    def added_later(cls) -> dict[str, Any]:
        """The settings with `since=`, each with the value that means what was done before it existed."""
        fields = dataclasses.fields(cls)
        return {field.name: field.metadata["before"] for field in fields if field.metadata.get("since")}

    @classmethod
    def from_stored(cls: type[S], values: Mapping[str, Any]) -> S:
        """As `from_dict`, of what was written down once: settings that were added since are as they were before."""
        return cls.from_dict({**cls.added_later(), **values})

    @classmethod
    def from_dict(cls: type[S], values: Mapping[str, Any]) -> S:
        """The inverse of `as_dict`. Raises BadInput for a name that the class lacks."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known) or 'none'}"
                raise BadInput(f"{cls.__name__} has no setting {name!r}; {hint}")
        return cls(**values)

    def but(self: S, **changes: Any) -> S:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True)
class Variant(Settings):
    """Settings of a variant that another setting chooses, written `name` or with settings: `rotary(base=100)`.

    What stands at its default is not written, so a variant may grow settings without any run changing its identity. A
    default must therefore never change.
    """

    @classmethod
    def name(cls) -> str:
        """The variant's name: that of its file."""
        return cls.__module__.rpartition(".")[2]

    def __str__(self) -> str:
        """The one way to write it; `catalogue.chosen` is the inverse."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        given = [f"{name}={value!r}" for name, value in self.as_dict().items() if value != defaults[name]]
        return f"{self.name()}({', '.join(given)})" if given else self.name()


def check_type(name: str, value: Any, allowed: tuple[type, ...]) -> None:
    if type(value) not in allowed:
        wanted = " or ".join("nothing" if kind is NoneType else kind.__name__ for kind in allowed)
        raise BadInput(f"{name} must be {wanted}; got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{name} must be a finite number; got {value}")


def check_range(name: str, value: Any, rules: Mapping[str, Any]) -> None:
    low, high, choices = rules.get("low"), rules.get("high"), rules.get("choices")
    if value is None:
        return
    if choices is not None and value not in choices:
        raise BadInput(f"{name} must be one of {', '.join(choices)}; got {value!r}{guess(value, choices)}")
    if low is not None and value < low:
        raise BadInput(f"{name} must be at least {low}; got {value}")
    if high is not None and value > high:
        raise BadInput(f"{name} must be at most {high}; got {value}")

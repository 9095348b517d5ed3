"""Frozen dataclasses as JSON and back, exact to the bit, so that stored measurements read as if just made.

Files for people are written differently, with rounded numbers (`as_dict` of each class). Here a value is restored from
its class's annotations: nested dataclasses, tuples, lists, sets, dictionaries with string keys, float64 arrays,
optional values. JSON has no infinities and no NaN, so those numbers are written as their names.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy

from hopscope.core.storage import Damaged

T = TypeVar("T")


def plain(value: Any) -> Any:
    """A value as JSON can hold it; sets are sorted."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=lambda part: json.dumps(part, sort_keys=True))
    if isinstance(value, tuple | list | numpy.ndarray):
        return [plain(part) for part in value]
    if isinstance(value, float | numpy.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    return value.item() if isinstance(value, numpy.generic) else value


def restored(kind: type[T], values: Any, **given: Any) -> T:
    """The inverse of `plain` for a dataclass; `given` holds fields that are passed in rather than read.

    Raises Damaged if the values are not those of such a dataclass.
    """
    try:
        hints = get_type_hints(kind)
        names = [field.name for field in fields(cast(Any, kind)) if field.name not in given]
        return kind(**{name: part_of(hints[name], values[name]) for name in names}, **given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"what is stored is not of the type {kind.__name__}: {type(error).__name__} {error}") from error


def part_of(hint: Any, value: Any) -> Any:
    """A value of an annotated type, from JSON."""
    origin, of = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return part_of(chosen(of, value), value)
    if origin is numpy.ndarray:
        return numpy.array(value, dtype=float)  # also turns "nan" and "inf" into numbers
    if origin in (tuple, list, frozenset):
        return origin(part_of(of[0], part) for part in value)
    if origin in (dict, Mapping):
        return {name: part_of(of[1], part) for name, part in value.items()}
    if hint is float:
        return float(value)
    if is_dataclass(hint):
        return restored(cast(type, hint), value)
    return value


def chosen(kinds: tuple[Any, ...], value: Any) -> Any:
    """The type of a union that a JSON value has: None, the dataclass with these fields, or the first other type."""
    if value is None:
        return types.NoneType
    if isinstance(value, dict):
        for kind in kinds:
            if is_dataclass(kind) and {field.name for field in fields(kind)} == value.keys():
                return kind
    return next(kind for kind in kinds if kind is not types.NoneType)

"""Untrusted input: JSON within bounds, text without control characters.

Every JSON that hopscope reads, its own files included, goes through `json_of`. Python's parser fails with a traceback
on deep nesting and on very long integers, and accepts NaN, which is not JSON. Every name or sentence from outside goes
through `visible` before it is shown, because a terminal obeys control characters.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable
from typing import Any, NoReturn

DEEPEST = 64  # levels of nested lists and objects; ours have six
LONGEST_INTEGER = 40  # digits; ours have at most twenty
MOST_PARTS = 1_000_000  # lists and objects; each takes some hundred bytes of memory


class TooMuch(ValueError):
    """A JSON text holds more values than its reader accepts."""


def json_of(data: bytes | str, *, infinities: bool = False, most: int | None = None) -> Any:
    """The value of a JSON text.

    Args:
        data: the text; bytes are UTF-8.
        infinities: whether to accept NaN, Infinity and -Infinity, which Python writes and servers send.
        most: the largest number of values. Commas and brackets are counted, those within strings too.

    Raises:
        TooMuch: it may hold more than `most` values, or a million lists and objects; nothing was parsed.
        ValueError: it is not JSON, is nested too deep, or has a number out of bounds.
    """
    if most is not None and 1 + signs_in(data, ",[{") > most:  # each value but the first follows one of these
        raise TooMuch(f"more than {most} values")
    if signs_in(data, "[{") > MOST_PARTS:
        raise TooMuch("more lists and objects than any of hopscope's files")
    number: Callable[[str], Any] = float if infinities else finite
    constant: Callable[[str], Any] = float if infinities else refused
    try:
        value = json.loads(data, parse_int=integer, parse_float=number, parse_constant=constant)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    layer, depth = [value], 0
    while layer := [part for held in layer if isinstance(held, dict | list) for part in parts(held)]:
        if (depth := depth + 1) > DEEPEST:
            raise ValueError("nested too deep")
    return value


def signs_in(data: bytes | str, signs: str) -> int:
    """How many of these characters a text has."""
    return sum(data.count(sign) if isinstance(data, str) else data.count(sign.encode()) for sign in signs)


def parts(held: dict[str, Any] | list[Any]) -> list[Any]:
    return list(held.values()) if isinstance(held, dict) else held


def integer(digits: str) -> int:
    if len(digits) > LONGEST_INTEGER:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def finite(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError("a number beyond all bounds")
    return value


def refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


#: Types of a JSON number; bool is excluded by `misfit`, though Python counts it among the integers.
Number = (int, float)


def misfit(value: Any, shape: Any, where: str = "") -> str | None:
    """Where a JSON value departs from a shape, such as `paths[3].layer`; None if it does not.

    Args:
        value: as `json_of` returns it.
        shape: a type, or a tuple of types and None. `[shape]` is a list of such values, `{str: shape}` an object of
            such values under any names. Any other dictionary gives a shape for each name; `name?` may be missing, and
            further names are allowed.
        where: the value's own name.
    """
    if isinstance(shape, list):
        if not isinstance(value, list):
            return where
        return next((bad for n, v in enumerate(value) if (bad := misfit(v, shape[0], f"{where}[{n}]"))), None)
    if isinstance(shape, dict):
        return misfit_of_object(value, shape, where)
    types = tuple(type(None) if kind is None else kind for kind in (shape if isinstance(shape, tuple) else (shape,)))
    strange = isinstance(value, bool) and object not in types and bool not in types
    return None if isinstance(value, types) and not strange else where


def misfit_of_object(value: Any, shape: dict[Any, Any], where: str) -> str | None:
    """As `misfit`, for an object."""
    if not isinstance(value, dict):
        return where
    named = dict.fromkeys(value, shape[str]) if str in shape else shape
    for key, inner in named.items():
        name, optional = (str(key)[:-1], True) if str(key).endswith("?") and str not in shape else (str(key), False)
        below = f"{where}.{name}".lstrip(".")
        if name not in value:
            if not optional:
                return below
        elif bad := misfit(value[name], inner, below):
            return bad
    return None


def visible(value: object) -> str:
    """A text whose control, format and bidirectional characters are spelt out: \\x1b, \\u202e."""
    return "".join(spelt(sign) if unicodedata.category(sign) in HIDDEN else sign for sign in str(value))


HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def spelt(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode()

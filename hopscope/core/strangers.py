"""What a stranger wrote, read and shown without trust: JSON within bounds, text without control characters.

Every JSON that hopscope reads, its own files' too, goes through `json_of`: Python's parser takes any depth up to a
traceback, integers of any length up to another, and NaN, which JSON does not have. Every name or sentence that came
from outside goes through `visible` before it is shown: a terminal obeys what it is sent.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable
from typing import Any, NoReturn

DEEPEST = 64  # levels of lists and objects; ours have six
LONGEST_INTEGER = 40  # digits; ours have at most twenty


def json_of(data: bytes | str, *, infinities: bool = False) -> Any:
    """The value of a JSON text.

    Args:
        data: the text, bytes as UTF-8.
        infinities: also take NaN, Infinity and −Infinity, as Python writes them; servers send them.

    Raises:
        ValueError: it is none, or is nested or written beyond bounds.
    """
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
    raise ValueError(f"{constant} is no JSON")


def visible(value: object) -> str:
    """A text with its control characters, and those that turn the direction of writing, spelt out: \\x1b, \\u202e."""
    return "".join(spelt(sign) if unicodedata.category(sign) in HIDDEN else sign for sign in str(value))


HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def spelt(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode()

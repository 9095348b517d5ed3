"""How types and shapes are checked while tests run: by beartype, for which a whole number may stand for a float.

Arguments of `__init__` are not checked: settings check their own, in sentences that tests read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

typed = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with its types checked whenever it is called."""
    return function if function.__name__ == "__init__" else typed(function)

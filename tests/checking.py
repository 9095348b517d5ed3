"""How types and shapes are checked while tests run: by beartype, for which a whole number may stand for a float.

A test's first calls are checked. What it calls ten thousand times is called alike, and checking takes longer than
a call: a quarter of the time of tests that train.

Arguments of `__init__` are not checked: settings check their own, in sentences that tests read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

typed = beartype(conf=BeartypeConf(is_pep484_tower=True))

#: Arguments and what is returned count apart.
CHECKS_OF_A_TEST = 250
made = 0


def begin() -> None:
    """Check the next calls: another test begins."""
    global made
    made = 0
    jaxtyping.config.update("jaxtyping_disable", False)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with its types checked when it is called."""
    if function.__name__ == "__init__":
        return function
    check = functools.cache(lambda: typed(function))  # made when it is needed: most functions of most tasks are not

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        global made
        made += 1
        if made == CHECKS_OF_A_TEST:
            jaxtyping.config.update("jaxtyping_disable", True)
        return check()(*args, **kwargs)

    return counted

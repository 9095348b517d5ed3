"""What tests and doctests share: types and shapes of tasks and measures are checked whenever they are called."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import install_import_hook

import tests.checking  # noqa: F401 - the hook looks it up by its name

# Tasks and measures of studies, like the library's own.
STUDIES = Path(__file__).parent / "hopscope" / "studies"
OWN = [
    path.relative_to(STUDIES.parents[1]).parts for kind in ("tasks", "measures") for path in STUDIES.glob(f"*/{kind}")
]
SHARED = [
    "hopscope.tasks",
    "hopscope.measures",
    *(f"hopscope.problem.{name}" for name in ("roles", "factsheet", "symbols")),
]

install_import_hook([*SHARED, *(".".join(parts) for parts in OWN)], "tests.checking.checked")

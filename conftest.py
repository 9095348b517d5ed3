"""What tests and doctests share: an empty folder to run in, and types and shapes of tasks and measures are checked."""

from __future__ import annotations

from pathlib import Path

import pytest
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


@pytest.fixture(scope="session", autouse=True)
def _elsewhere(tmp_path_factory):
    """Tests run in an empty folder, so that none depends on where pytest was started, or on what lies there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        yield

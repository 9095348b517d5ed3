"""The picture of the package, kept honest: imports run one way, ground to roof, and every file says what it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "hopscope"
FILES = sorted(PACKAGE.rglob("*.py"))

# A file imports only from its own floor's folder and from lines above its own.
FLOORS = [
    "core",
    "problem",
    "theory",
    "formulations",
    "curricula",
    "tasks",
    "models",
    "interventions",
    "measures",
    "configuration",
    "runs",
    "training",
    "builds",
    "circuits",
    "emergence",
    "probes",
    "language",
    "drawing",
    "live",
    "experiments",
    "execution",
    "studies",
    "cli",
]


def floor(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[tuple[str, ...]]:
    """Whatever of the package a file imports, wherever in the file, as the parts of its name below `hopscope`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hopscope":
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name.startswith("hopscope."))
    return {tuple(name.split(".")[1:]) for name in found}


@pytest.mark.parametrize("path", [p for p in FILES if floor(p) not in ("__init__", "__main__")], ids=str)
def test_imports_run_one_way(path):
    mine = FLOORS.index(floor(path))
    assert all(FLOORS.index(other) <= mine for other, *_ in imported(path)), f"{path} imports from above"


@pytest.mark.parametrize("path", [p for p in FILES if floor(p) == "studies"], ids=str)
def test_studies_do_not_import_each_other(path):
    own = path.relative_to(PACKAGE).parts[1]
    assert all(study == own for top, study, *_ in imported(path) if top == "studies"), f"{path} needs another study"


def test_no_module_lies_loose_at_the_top():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_every_folder_is_a_floor():
    assert {floor(p) for p in FILES} - {"__init__", "__main__"} == set(FLOORS)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_file_opens_by_saying_what_it_is(path):
    if path.read_text().strip():
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"
        assert path.stem not in {"utils", "util", "helpers", "misc", "common", "types"}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_functions_are_paragraphs(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            start = node.body[1].lineno if ast.get_docstring(node) and len(node.body) > 1 else node.lineno
            assert node.end_lineno - start < 60, f"{path}: {node.name} is long; is there a second idea in it?"


def test_the_training_path_needs_neither_pictures_nor_tables():
    """Loading and training load no plotting, table or progress library: fast to start, also on a bare machine."""
    import subprocess
    import sys

    code = (
        "import sys, hopscope; before = 'torch' in sys.modules; [getattr(hopscope, name) for name in hopscope.__all__];"
        "print(before, [m for m in ('matplotlib', 'pandas', 'rich', 'click') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False []"


def test_public_names_are_found_where_they_live():
    import hopscope

    assert sorted(hopscope.__all__) == sorted(name for names in hopscope.HOMES.values() for name in names)
    assert set(hopscope.__all__) <= set(dir(hopscope))
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        hopscope.nosuch  # noqa: B018

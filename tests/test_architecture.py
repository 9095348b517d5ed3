"""The picture of the packages, kept honest: imports run one way, ground to roof, and every file says what it is."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import graphlib
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE, STUDIES = ROOT / "hopscope", ROOT / "hopscope_studies"
LABORATORY = sorted(PACKAGE.rglob("*.py"))
OF_STUDIES = sorted(path for path in STUDIES.rglob("*.py") if "tests" not in path.relative_to(STUDIES).parts)
FILES = [*LABORATORY, *OF_STUDIES]

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
    "explorer",
    "execution",
    "cli",
]


@functools.cache
def parsed(path: Path) -> ast.Module:
    """A file's syntax tree, which many tests walk and none changes."""
    return ast.parse(path.read_text())


def floor(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path, package: str = "hopscope") -> set[tuple[str, ...]]:
    """Whatever of a package a file imports, wherever in the file, as the parts of its name below the package."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if f"{alias.name}.".startswith(f"{package}."))
    return {tuple(name.split(".")[1:]) for name in found}


# A rule is one test, which names every file that breaks it: a test per file and rule would be thousands.


def test_imports_run_one_way():
    placed = [path for path in LABORATORY if floor(path) not in ("__init__", "__main__")]
    above = {
        (str(path), other)
        for path in placed
        for other, *_ in imported(path)
        if FLOORS.index(other) > FLOORS.index(floor(path))
    }
    assert not above, "these import from above"


def test_the_laboratory_imports_no_study():
    """Nor names the module of one, which could be imported by its name."""
    assert not [str(path) for path in LABORATORY if imported(path, STUDIES.name)]
    named = [path for path in LABORATORY if f"{STUDIES.name}." in path.read_text()]
    assert not [str(path) for path in named if f"{STUDIES.name}." in without_prose(path)]


def without_prose(path: Path) -> str:
    """A file's code, without comments and docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = [*node.body[1:], ast.Pass()]
    return ast.unparse(tree)


def test_studies_do_not_import_each_other():
    theirs = {
        (str(path), study)
        for path in OF_STUDIES
        for study, *_ in imported(path, STUDIES.name)
        if study != path.relative_to(STUDIES).parts[0]
    }
    assert not theirs, "these need another study"


def modules_imported(path: Path) -> set[str]:
    """The modules of ours that a file imports, wherever in the file, for its types alone or not."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_file_is_imported_by_what_it_imports():
    """Nor by way of others, be it as late as in a function, or for its types: the import graph has no circle."""
    modules = {module_of(path): path for path in FILES}
    graph = {name: modules_imported(path) & modules.keys() - {name} for name, path in modules.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def test_no_module_lies_loose_at_the_top():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_every_folder_is_a_floor():
    assert {floor(p) for p in LABORATORY} - {"__init__", "__main__"} == set(FLOORS)


def test_every_file_opens_by_saying_what_it_is():
    full = [path for path in FILES if path.read_text().strip()]
    assert not [str(path) for path in full if not ast.get_docstring(parsed(path))], "these have no docstring"
    assert not {path.stem for path in full} & {"utils", "util", "helpers", "misc", "common", "types"}


PARAGRAPH = 40  # lines


def lines_of(function: ast.FunctionDef) -> int:
    """How long a function is, without its docstring."""
    start = function.body[1].lineno if ast.get_docstring(function) and len(function.body) > 1 else function.lineno
    return function.end_lineno - start


def test_functions_are_paragraphs():
    found = [(path, node) for path in FILES for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
    long = {f"{path}: {node.name}": lines_of(node) for path, node in found if lines_of(node) > PARAGRAPH}
    assert not long, "these are long; is there a second idea in them?"


def ideas_of(tree: ast.Module) -> list[tuple[int, list[str]]]:
    """A file's functions, classes and constants, in groups that name nothing of one another: lines and names of each.

    The largest group comes first. Names in text count, too: annotations, and what is found by its name.
    """
    parts = {name: node for node in tree.body for name in names_of(node)}
    group = {name: name for name in parts}  # each part's, by one of its members

    def named(node: ast.AST) -> set[str]:
        words = (part for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        return (names | {word for text in words for word in re.findall(r"\w+", text.value)}) & parts.keys()

    for name, node in parts.items():
        merged = {group[name]} | {group[other] for other in named(node)}
        group = {part: min(merged) if of in merged else of for part, of in group.items()}
    members = {of: [name for name in parts if group[name] == of] for of in set(group.values())}
    nodes = [({parts[name] for name in names}, names) for names in members.values()]
    return sorted(((sum(map(lines, some)), names) for some, names in nodes), reverse=True)


def lines(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1


def names_of(node: ast.stmt) -> list[str]:
    """What a statement at a file's top defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


def test_what_is_an_idea_is_known():
    code = "A = 1\ndef f():\n  return A\n\ndef g():\n  return f()\n\nclass B:\n  x: 'C'\nclass C: pass\nD, E = 1, 2"
    assert ideas_of(ast.parse(code)) == [(5, ["A", "f", "g"]), (3, ["B", "C"]), (1, ["D", "E"])]


def test_a_file_has_one_idea():
    """Beside what hangs together there is no more in it than a paragraph that has nothing to do with the rest."""
    second = {str(path): more[1] for path in FILES if len(more := ideas_of(parsed(path))) > 1}
    several = {path: group for path, group in second.items() if group[0] > PARAGRAPH}
    assert not several, "these have parts that nothing else in the file names, nor they it; give them a file"


def decided_by_text(tree: ast.AST) -> list[str]:
    """Conditions and comparisons that read what an exception says, as text or as its arguments."""
    found = []
    for handler in [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name]:
        words: set[str] = set()  # names that hold such text

        def tells(node: ast.AST, error: str = handler.name, words: set[str] = words) -> bool:
            for part in ast.walk(node):
                said = isinstance(part, ast.Call) and ast.unparse(part) in (f"str({error})", f"repr({error})")
                shown = isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == error
                told = isinstance(part, ast.Attribute) and ast.unparse(part) == f"{error}.args"
                if said or shown or told or getattr(part, "id", None) in words:
                    return True
            return False

        for node in ast.walk(handler):
            if isinstance(node, ast.Assign) and tells(node.value):
                words |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for node in ast.walk(handler):
            asked = getattr(node, "test", None) or getattr(node, "subject", None)
            if (asked and tells(asked)) or (isinstance(node, ast.Compare) and tells(node)):
                found.append(ast.unparse(asked or node))
    return found


@pytest.mark.parametrize(
    ("code", "decides"),
    [
        ("if str(e).startswith('stopped'): pass", True),
        ("x = 'full' in f'disk: {e}'", True),
        ("reason = str(e)\n if 'full' in reason: pass", True),
        ("match e.args:\n  case _: pass", True),
        ("while not repr(e): pass", True),
        ("raise ValueError(f'disk: {e}') from e", False),
        ("if e.asked: print(str(e))", False),
    ],
)
def test_what_reads_an_exception_is_known(code: str, decides: bool):
    assert bool(decided_by_text(ast.parse(f"try: pass\nexcept OSError as e:\n {code}"))) is decides


def test_nothing_is_decided_by_what_an_exception_says():
    """Words are for people, and may be changed; what a program needs to know is a field or a class."""
    read = [*FILES, *sorted((ROOT / "tools").rglob("*.py"))]
    assert not {str(path): told for path in read if (told := decided_by_text(parsed(path)))}


def test_the_training_path_needs_neither_pictures_nor_tables():
    """Loading and training load no plotting, table or progress library: fast to start, also on a bare machine.

    To know what a run needs takes no compiler either: PyTorch's takes longer to import than all the rest.
    """
    import subprocess
    import sys

    code = (
        "import sys, hopscope; before = 'torch' in sys.modules; [getattr(hopscope, name) for name in hopscope.__all__];"
        "from hopscope.runs.demand import check; from hopscope.tasks.retrieval import Retrieval;"
        "check(hopscope.Config(Retrieval()));"
        "print(before, [m for m in ('matplotlib', 'pandas', 'rich', 'click', 'torch._dynamo') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False []"


def test_public_names_are_found_where_they_live():
    import hopscope

    assert set(hopscope.__all__) <= set(dir(hopscope))
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        hopscope.nosuch  # noqa: B018


def test_every_name_that_a_file_uses_is_there():
    """What linters would say, were shapes such as `Float[Tensor, "batch d"]` not names to them."""
    assert not {str(path): unknown for path in FILES if (unknown := names_missing_in(path))}


def names_missing_in(path: Path) -> set[str]:
    """The names that a file's functions read, and that neither it nor Python has."""
    name = module_of(path)
    if name in ("hopscope.__main__", "hopscope.language.lm_eval_model"):  # a program; lm-eval is with the peers alone
        return set()
    module = importlib.import_module(name)
    code = compile(path.read_text(), str(path), "exec", dont_inherit=True)
    lasting = {*vars(module), *vars(builtins), "__module__", "__qualname__", "__name__", "__annotations__", "__class__"}
    read, stored = set(), set()
    for part in all_codes(code):
        for step in dis.get_instructions(part):
            if step.opname.startswith("STORE"):
                stored.add(step.argval)
            elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and part is not code:
                read.add(step.argval)
    return read - lasting - stored


def all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from all_codes(part)


def test_json_is_read_in_one_place():
    """Within bounds (`hopscope.core.strangers`); elsewhere only what the same process wrote a moment ago."""
    cells_of_a_checked_table = {"fig7.py", "algorithms.py"}
    own = {"strangers.py", "evaluate.py"} | cells_of_a_checked_table
    readers = [path for path in FILES if "json.loads(" in path.read_text().replace("json.loads(json.dumps(", "")]
    assert {path.name for path in readers} <= own, readers

"""Files of one's own: folders laid out like the package, and installed packages that say that they are plug-ins.

`HOPSCOPE_PATH` names folders, as PATH does; `hopscope --with DIR` adds one for a command and the processes that it
starts. A package has an entry point in the group `hopscope`; so has our own package of studies, which is found alike
and is nobody's own. The modules of a folder are imported under a private package name, by an importlib finder, so that
none of them hides a module of another name; imports within the folder are relative, as in any package.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from hopscope.core.settings import BadInput

#: The variable that names folders, the group in which packages name themselves, and the distribution that is ours.
VARIABLE, GROUP, OURS = "HOPSCOPE_PATH", "hopscope", "hopscope"
STUDIES = "hopscope_studies"
PRIVATE = "_hopscope_outside_"
#: How a file of one's own is brought, for whoever lacks it.
ADVICE = f"a file of your own is found with hopscope --with DIR, or {VARIABLE}=DIR"


def folders() -> list[Path]:
    """The folders that `HOPSCOPE_PATH` names. Raises BadInput for one that is not there."""
    named = [Path(text) for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    for folder in named:
        if not folder.is_dir():
            raise BadInput(f"{folder}, named by --with or {VARIABLE}, is no folder; make it first, or name another")
    return list(dict.fromkeys(folder.resolve() for folder in named))


def added(more: Iterable[str]) -> str:
    """The value of `HOPSCOPE_PATH` with more folders before those that it names."""
    there = os.environ.get(VARIABLE, "")
    return os.pathsep.join([*(str(Path(folder).absolute()) for folder in more), *([there] if there else [])])


def options() -> list[str]:
    """The same folders as options of the command line, for a process that may run on another machine."""
    return [word for folder in folders() for word in ("--with", str(folder))]


@cache
def ours() -> dict[str, Path]:
    """The plug-ins that our own distribution brings: by name, where they lie; in a bare checkout what is beside us."""
    found = installed(point for point in entry_points(group=GROUP) if is_ours(point))
    beside = Path(__file__).parents[2] / STUDIES
    return found or ({STUDIES: beside} if beside.is_dir() else {})


@cache
def packages() -> dict[str, Path]:
    """The plug-ins that others have installed: by name, where they lie."""
    return installed(point for point in entry_points(group=GROUP) if not is_ours(point))


def is_ours(point: EntryPoint) -> bool:
    """Whether our own distribution brings a plug-in."""
    return point.dist is not None and point.dist.name == OURS


def installed(points: Iterable[EntryPoint]) -> dict[str, Path]:
    """The packages that entry points name, and where they lie. None is imported.

    Raises BadInput for one that is gone though it is still listed.
    """
    found = {}
    for point in points:
        top, *inner = point.value.partition(":")[0].strip().split(".")
        spec = importlib.util.find_spec(top)
        where = [] if spec is None else list(spec.submodule_search_locations or [])
        if not where or not (folder := Path(where[0], *inner)).is_dir():
            raise BadInput(f"the plug-in {point.name!r} is installed, but there is no package {point.value!r}; mend it")
        found[".".join([top, *inner])] = folder.resolve()
    return found


def places() -> dict[str, Path]:
    """Where files of one's own are: folders by the name of the package that their modules are in."""
    installed = packages()
    known = {*ours().values(), *installed.values()}
    return installed | {package_of(folder): folder for folder in folders() if folder not in known}


def package_of(folder: Path) -> str:
    """The private name of a folder's package."""
    return PRIVATE + hashlib.sha256(str(folder).encode()).hexdigest()[:8]


class Finder(MetaPathFinder):
    """Finds the private packages; what is in them is then found as in any package."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not fullname.startswith(PRIVATE) or "." in fullname or (folder := places().get(fullname)) is None:
            return None
        if (opening := folder / "__init__.py").is_file():
            return importlib.util.spec_from_file_location(fullname, opening, submodule_search_locations=[str(folder)])
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec


sys.meta_path.append(Finder())


# Faults ----------------------------------------------------------------------------------------------------------


def is_outside(module: str) -> bool:
    """Whether a module is somebody's own."""
    return home_of(module) is not None


def home_of(module: str) -> str | None:
    """The package from outside that a module is in; that of a folder also when the folder is named no more."""
    if module.startswith(PRIVATE):
        return module.partition(".")[0]
    return next((home for home in packages() if module == home or module.startswith(f"{home}.")), None)


def fault(error: BaseException) -> str | None:
    """The sentence about an error in somebody's own file: the deepest line of one that it came through, and what it is.

    None if it came through none.
    """
    where = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_outside(str(frame.f_globals.get("__name__", ""))):
            where = f"{frame.f_code.co_filename}, line {line}"
    if isinstance(error, SyntaxError) and error.filename and file_is_outside(Path(error.filename)):
        where = f"{error.filename}, line {error.lineno}"
    if where is None:
        return None
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{where}: {type(error).__name__}: {' '.join(message.split())}"


def file_is_outside(file: Path) -> bool:
    """Whether a file is somebody's own."""
    return any(file.resolve().is_relative_to(folder) for folder in places().values())


@contextmanager
def blamed() -> Iterator[None]:
    """While somebody's own file is read or imported: an error in it is one sentence, BadInput."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise  # of which the command line says what to do
        if (sentence := fault(error)) is None:
            raise
        raise BadInput(sentence) from error


# What a run used -------------------------------------------------------------------------------------------------


def hashes(modules: Iterable[str]) -> dict[str, str]:
    """The sha256 of somebody's own files among imported modules, and of those that they import from their own package.

    Files are named as within their folder: `tasks/running_sum.py`.
    """
    found: dict[str, str] = {}
    for name in sorted(reached(modules)):
        file = Path(str(sys.modules[name].__file__)).resolve()
        folder = Path(sys.modules[str(home_of(name))].__path__[0]).resolve()
        inner = file.relative_to(folder).as_posix()
        label = inner if inner not in found else f"{folder.name}/{inner}"  # two folders may share a helper's name
        found[label] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def reached(modules: Iterable[str]) -> set[str]:
    """Of these modules those that are somebody's own, with all such that they import."""
    found: set[str] = set()
    waiting = [name for name in modules if is_outside(name)]
    while waiting:
        name = waiting.pop()
        file = getattr(sys.modules.get(name), "__file__", None)
        if name not in found and file:
            found.add(name)
            waiting += [other for other in imported(name, Path(file)) if is_outside(other)]
    return found


def imported(name: str, file: Path) -> Iterator[str]:
    """The names of what a module's file imports, and of what may be modules among them."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))

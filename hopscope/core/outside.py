"""Variants from outside: a user's folders laid out like the package, and installed packages that are plug-ins.

`HOPSCOPE_PATH` lists folders, as PATH does; `hopscope --with DIR` adds one for a command and the processes that it
starts. A package has an entry point in the group `hopscope`. Our own package of studies is found in the same way but
is not counted as outside. The modules of a folder are imported under a private package name by an importlib finder, so
that none of them shadows another module. Imports within the folder are relative, as in any package.
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

#: The variable that lists folders, the entry-point group of plug-ins, and the name of our own distribution.
VARIABLE, GROUP, OURS = "HOPSCOPE_PATH", "hopscope", "hopscope"
STUDIES = "hopscope_studies"
PRIVATE = "_hopscope_outside_"
#: How to make a file of your own known, for error messages.
ADVICE = f"a file of your own is found with hopscope --with DIR, or {VARIABLE}=DIR"


def folders() -> list[Path]:
    """The folders that `HOPSCOPE_PATH` lists, absolute. Raises BadInput for one that is not there."""
    named = [Path(text) for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    for folder in named:
        if not folder.is_dir():
            raise BadInput(f"{folder}, named by --with or {VARIABLE}, is not a folder; make it first, or name another")
    return list(dict.fromkeys(folder.resolve() for folder in named))


def added(more: Iterable[str]) -> str:
    """The value of `HOPSCOPE_PATH` with more folders in front of those that it lists."""
    there = os.environ.get(VARIABLE, "")
    return os.pathsep.join([*(str(Path(folder).absolute()) for folder in more), *([there] if there else [])])


def options() -> list[str]:
    """The folders as `--with` options, for a process that may run on another machine."""
    return [word for folder in folders() for word in ("--with", str(folder))]


@cache
def ours() -> dict[str, Path]:
    """Plug-ins of our own distribution, path by name; in a checkout that is not installed, the folder beside us."""
    ours_installed = installed(point for point in entry_points(group=GROUP) if is_ours(point))
    beside = Path(__file__).parents[2] / STUDIES
    return ours_installed or ({STUDIES: beside} if beside.is_dir() else {})


@cache
def packages() -> dict[str, Path]:
    """Plug-ins that others have installed, path by name."""
    return installed(point for point in entry_points(group=GROUP) if not is_ours(point))


def is_ours(point: EntryPoint) -> bool:
    """Whether a plug-in belongs to our own distribution."""
    return point.dist is not None and point.dist.name == OURS


def installed(points: Iterable[EntryPoint]) -> dict[str, Path]:
    """The packages that entry points name, path by name. Imports none.

    Raises BadInput for a package that is listed but gone.
    """
    packages = {}
    for point in points:
        top, *inner = point.value.partition(":")[0].strip().split(".")
        spec = importlib.util.find_spec(top)
        where = [] if spec is None else list(spec.submodule_search_locations or [])
        if not where or not (folder := Path(where[0], *inner)).is_dir():
            raise BadInput(f"the plug-in {point.name!r} is installed without its package {point.value!r}; reinstall it")
        packages[".".join([top, *inner])] = folder.resolve()
    return packages


def places() -> dict[str, Path]:
    """All packages from outside, path by name; a folder has the private name of `package_of`."""
    installed = packages()
    known = {*ours().values(), *installed.values()}
    return installed | {package_of(folder): folder for folder in folders() if folder not in known}


def package_of(folder: Path) -> str:
    """The private package name of a folder."""
    return PRIVATE + hashlib.sha256(str(folder).encode()).hexdigest()[:8]


class Finder(MetaPathFinder):
    """Finds the private packages of folders; Python finds the modules within them."""

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
    """Whether a module comes from outside."""
    return home_of(module) is not None


def home_of(module: str) -> str | None:
    """The outside package that a module is in, also if its folder is no longer listed; None for our own modules."""
    if module.startswith(PRIVATE):
        return module.partition(".")[0]
    return next((home for home in packages() if module == home or module.startswith(f"{home}.")), None)


def fault(error: BaseException) -> str | None:
    """An error that passed through a file from outside, as one sentence with the deepest line in such a file.

    None if it passed through none.
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
    """Whether a file is in a user's folder of variants or in an installed plug-in."""
    return any(file.resolve().is_relative_to(folder) for folder in places().values())


@contextmanager
def blamed() -> Iterator[None]:
    """Context manager: an error in a file from outside, being read or imported, becomes one BadInput sentence."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise  # the command line explains how to install it
        if (sentence := fault(error)) is None:
            raise
        raise BadInput(sentence) from error


# What a run used -------------------------------------------------------------------------------------------------


def hashes(modules: Iterable[str]) -> dict[str, str]:
    """The sha256 of files from outside among imported modules, and of files that those import from outside packages.

    Files are named relative to their folder: `tasks/running_sum.py`.
    """
    digests: dict[str, str] = {}
    for name in sorted(reached(modules)):
        file = Path(str(sys.modules[name].__file__)).resolve()
        folder = Path(sys.modules[str(home_of(name))].__path__[0]).resolve()
        inner = file.relative_to(folder).as_posix()
        label = inner if inner not in digests else f"{folder.name}/{inner}"  # two folders may share a helper's name
        digests[label] = hashlib.sha256(file.read_bytes()).hexdigest()
    return digests


def reached(modules: Iterable[str]) -> set[str]:
    """Those of these modules that come from outside, with all outside modules that they import."""
    seen: set[str] = set()
    waiting = [name for name in modules if is_outside(name)]
    while waiting:
        name = waiting.pop()
        file = getattr(sys.modules.get(name), "__file__", None)
        if name not in seen and file:
            seen.add(name)
            waiting += [other for other in imported(name, Path(file)) if is_outside(other)]
    return seen


def imported(name: str, file: Path) -> Iterator[str]:
    """The names that a module's file imports, including those that may turn out to be modules."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))

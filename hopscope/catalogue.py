"""What stands in a folder is what the laboratory offers: variants are found by walking, never registered.

A variant's name is its file's name. `tasks/retrieval.py` is the task `retrieval` on the command line, in
test ids and in tables; no list, decorator or `__init__` has to be edited to add one. The idea is that of
scikit-learn's `all_estimators`.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

import hopscope
from hopscope.settings import BadInput

# Files that hold what a folder's variants share are called base…; they are no variants themselves.


def names(folder: str) -> list[str]:
    """Names of the variants in `hopscope/<folder>` (dots separate nested folders), sorted; [] if it is not there."""
    found = (module.name for module in pkgutil.iter_modules([str(place(folder))]))
    return sorted(name for name in found if not name.startswith(("base", "_")))


def place(folder: str) -> Path:
    """Where a folder's files are; nothing is imported to find out."""
    return Path(hopscope.__path__[0], *folder.split("."))


def module(folder: str, name: str) -> ModuleType:
    """The variant's module. Raises BadInput, naming the nearest match, if there is none."""
    known = names(folder)
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(known)}"
        raise BadInput(f"there is no {name!r} in {folder}; {hint}")
    return importlib.import_module(f"hopscope.{folder}.{name}")


def find(folder: str, name: str) -> Any:
    """The variant itself: the one concrete class that its file defines, or else the function named like the file."""
    source = module(folder, name)
    classes = [
        value
        for value in vars(source).values()
        if inspect.isclass(value) and value.__module__ == source.__name__ and is_variant(value, source)
    ]
    if len(classes) == 1:
        return classes[0]
    if inspect.isfunction(function := getattr(source, name, None)):
        return function
    raise TypeError(
        f"{source.__name__} must define exactly one concrete class whose base is in {folder}/base.py, or a function "
        f"{name}(); found {[c.__name__ for c in classes] or 'neither'}"
    )


def is_variant(value: type, source: ModuleType) -> bool:
    """Whether a class is finished and derives, at any depth, from one in its folder's base.py."""
    base = f"{source.__name__.rpartition('.')[0]}.base"
    return not inspect.isabstract(value) and any(parent.__module__ == base for parent in value.__mro__[1:])


def parsed(folder: str, name: str) -> ast.Module:
    """A variant's file, read but not run: what lists variants must not pay for importing them all."""
    file = place(folder) / f"{name}.py"
    return ast.parse((file if file.is_file() else place(folder) / name / "__init__.py").read_bytes())


def summary(folder: str, name: str) -> str:
    """First sentence of the variant's file."""
    return (ast.get_docstring(parsed(folder, name)) or "").split("\n")[0]

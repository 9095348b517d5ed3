"""The catalogue: variants of a folder are found by walking it, never registered.

A variant's name is its file's name. `tasks/retrieval.py` is the task `retrieval` on the command line, in test ids and
in tables. To add one, no list, decorator or `__init__` is edited (as in scikit-learn's `all_estimators`). Plug-ins have
folders of the same names (`hopscope.core.outside`): our own package of studies, an installed package, or a user's
folder. Each study within a plug-in may have them too: `hopscope_studies/birth/tasks/trigger_bigrams.py` is a task like
any other.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hopscope.core import outside
from hopscope.core.settings import BadInput, Settings, Variant, guess

# Files named base… hold what a folder's variants share; they are not variants.

#: Variants that were renamed after runs had been trained with them, by folder: `{name: name on disk}`. Identities and
#: config.json keep the name on disk; commands accept both.
RENAMED: dict[str, dict[str, str]] = {}


def on_disk(folder: str, name: str) -> str:
    """The name that runs on disk use for a variant: its first one."""
    return RENAMED.get(folder, {}).get(name, name)


def current(folder: str, name: str) -> str:
    """The inverse of `on_disk`: a variant's name today. A name that was never changed is returned as it is."""
    return next((new for new, old in RENAMED.get(folder, {}).items() if old == name), name)


#: Folders of the library that hold only the shared base; their variants are in studies.
FRAMES = ("experiments",)
#: Folders that plug-ins cannot add to: a stranger's file must not change what a command means.
OURS_ALONE = ("cli.commands", "cli.lm")


class Unknown(BadInput):
    """No variant of the folder has this name."""


@dataclass(frozen=True)
class Root:
    """A package that is searched for folders of variants, and where it is on disk; `outside` if it is not ours."""

    package: str
    path: Path
    outside: bool = False

    def variants(self, folder: str) -> list[str]:
        """Names of the variants in one of its folders, unsorted. Imports nothing."""
        modules = pkgutil.iter_modules([str(self.folder(folder))])
        return [file.name for file in modules if not file.ispkg and not file.name.startswith(("base", "_"))]

    def folder(self, folder: str) -> Path:
        """The path of one of its folders; dots separate nested ones."""
        return self.path.joinpath(*folder.split("."))

    def place(self, folder: str) -> str:
        """One of its folders as messages name it."""
        return str(self.folder(folder)) if self.outside else f"{self.package}.{folder}"

    def studies(self) -> list[Root]:
        """Its studies, each a root of its own: folders in `studies/`, and in a package those that have `experiments/`.

        In a user's own folder only `studies/` counts, for other folders there may be anything.
        """
        paths = {*self.path.glob("studies/*/")}
        if not self.package.startswith(outside.PRIVATE):
            paths |= {path.parent for path in self.path.glob("*/experiments/")}
        named = [path for path in sorted(paths) if path.name.isidentifier() and not path.name.startswith("_")]
        inner = [".".join(path.relative_to(self.path).parts) for path in named]
        return [Root(f"{self.package}.{name}", path, self.outside) for name, path in zip(inner, named, strict=True)]


LIBRARY = Root("hopscope", Path(__file__).parents[1])


def roots(folder: str) -> list[Root]:
    """The library, unless the folder is in `FRAMES`; then the plug-ins, and every study of each."""
    library = [] if folder in FRAMES else [LIBRARY]
    added = ours() if folder in OURS_ALONE else plugins()
    return [*library, *(root for plugin in added for root in (plugin, *plugin.studies()))]


def plugins() -> list[Root]:
    """Our own plug-ins, then those from outside."""
    return [*ours(), *(Root(*place, outside=True) for place in outside.places().items())]


def ours() -> list[Root]:
    """The plug-ins that come with the library: its package of studies."""
    return [Root(*place) for place in outside.ours().items()]


def studies() -> list[Root]:
    """The studies of all plug-ins."""
    return [study for plugin in plugins() for study in plugin.studies()]


def homes(folder: str) -> dict[str, Root]:
    """Every variant's root, by name. Raises BadInput if two roots have a variant of the same name."""
    root_of: dict[str, Root] = {}
    for root in roots(folder):
        for name in root.variants(folder):
            if name in root_of:
                both = f"{root_of[name].place(folder)} and in {root.place(folder)}"
                raise BadInput(f"there is a {name!r} both in {both}; rename one of the two files")
            root_of[name] = root
    return root_of


def names(folder: str) -> list[str]:
    """Names of the variants in `<folder>` of every root (dots separate nested folders), sorted."""
    return sorted(homes(folder))


#: Roots already looked up, by folder, name and searched roots: a walk takes a thousand times as long.
_HOME_OF: dict[tuple[Any, ...], Root] = {}


def home(folder: str, name: str) -> Root:
    """A variant's root, from `_HOME_OF` unless its file is gone or the searched folders have changed.

    Raises Unknown (a BadInput), which names the nearest match, if there is no such variant.
    """
    searched = (LIBRARY, *outside.ours().items(), *outside.places().items())
    root = _HOME_OF.get((folder, name, searched))
    if root is None or not (root.folder(folder) / f"{name}.py").is_file():
        known = homes(folder)
        if name not in known:
            own = "" if outside.places() else " (one of your own: name its folder by --with DIR)"
            hint = guess(name, known) or f"; choose one of {', '.join(sorted(known))}{own}"
            raise Unknown(f"there is no {name!r} in {folder}{hint}")
        _HOME_OF.update({(folder, each, searched): where for each, where in known.items()})  # one walk finds them all
        root = known[name]
    return root


def module(folder: str, name: str) -> ModuleType:
    """The variant's module, imported. Raises BadInput, naming the nearest match, if there is none."""
    name = current(folder, name)
    package = home(folder, name).package
    with outside.blamed():
        return importlib.import_module(f"{package}.{folder}.{name}")


def find(folder: str, name: str) -> Any:
    """The variant: the one concrete class that its file defines, else the function named like the file.

    Raises BadInput if there is no such variant, or if a file from outside defines neither or several (TypeError if the
    file is ours).
    """
    name = current(folder, name)
    source = module(folder, name)
    own = [value for value in vars(source).values() if inspect.isclass(value) and value.__module__ == source.__name__]
    derived = [value for value in own if derives(value, folder)]
    classes = [value for value in derived if not inspect.isabstract(value)]
    if any(issubclass(c, Settings) for c in classes):  # a model's module stands beside the settings that build it
        classes = [c for c in classes if issubclass(c, Settings)]
    if len(classes) == 1:
        return classes[0]
    if inspect.isfunction(function := getattr(source, name, None)):
        return function
    for value in derived if not classes else ():
        lacks = ", ".join(sorted(getattr(value, "__abstractmethods__", ())))
        raise BadInput(f"{source.__file__} is unfinished: {value.__name__} lacks {lacks}")
    raise not_whole(
        source,
        f"must define exactly one concrete class whose base is in {folder}/base.py, or a function {name}(); found "
        f"{' and '.join(c.__name__ for c in classes) or 'neither'}",
    )


def hashes(folder: str, name: str) -> dict[str, str]:
    """The sha256 of a variant's file and of the files that it imports, if it comes from outside; else empty."""
    root = homes(folder).get(name)
    return outside.hashes([module(folder, name).__name__]) if root and root.outside else {}


def not_whole(source: ModuleType, lacks: str) -> Exception:
    """The error for a variant's file that lacks something: BadInput if it is from outside, TypeError if it is ours."""
    if outside.is_outside(source.__name__):
        return BadInput(f"{source.__file__} {lacks}")
    return TypeError(f"{source.__name__} {lacks}")


LONGEST = 1000  # characters of a variant's text


def chosen(folder: str, text: str) -> Any:
    """The variant, with its settings, that a text chooses: `softmax`, or `rotary(base=100)`.

    Values are numbers, `True` or `False`, or words, which are quoted unless they are letters alone.
    Raises BadInput for an unknown variant or setting, and for a value out of range.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(\(.*\))?\s*", text, re.DOTALL)
    if not match or len(text) > LONGEST:
        find(folder, text)  # raises, naming the nearest match
        raise BadInput(f"a variant must be written such as rotary(base=100); got {text[:80]!r}")
    kind: type[Variant] = find(folder, match[1])  # find also knows former names
    return kind.from_dict(arguments(text, match[2]) if match[2] else {})


def arguments(text: str, call_part: str) -> dict[str, Any]:
    """The keyword arguments in `call_part`, the parentheses after a variant's name. Raises BadInput."""
    complaint = BadInput(f"a variant's settings must be written such as rotary(base=100); got {text!r}")
    try:
        call = ast.parse(f"_{call_part}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise complaint
        given = {str(word.arg): literal(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise complaint from None
    if "None" in given:  # `**something`
        raise complaint
    if len(given) < len(call.keywords):
        raise BadInput(f"a variant's setting must be given once; got {text!r}")
    return given


def literal(value: ast.expr) -> Any:
    """A number, truth value or word. Raises ValueError for anything else."""
    return value.id if isinstance(value, ast.Name) else ast.literal_eval(value)


def derives(value: type, folder: str) -> bool:
    """Whether a class derives, at any depth, from a class in the library's `<folder>/base.py`."""
    base = f"{LIBRARY.package}.{folder}.base"
    return any(parent.__module__ == base for parent in value.__mro__[1:])


def parsed(folder: str, name: str) -> ast.Module:
    """A variant's file, parsed but not imported: listing all variants must stay fast."""
    file = home(folder, name).folder(folder) / f"{name}.py"
    with outside.blamed():
        return ast.parse(file.read_bytes(), str(file))


def summary(folder: str, name: str) -> str:
    """The first line of the docstring of the variant's file."""
    return (ast.get_docstring(parsed(folder, name)) or "").split("\n")[0]
